"""Bugs in what of its tools a model is shown, and in how it comes by the others."""

from tests.mutations.bug import Bug, bug

_SCHEMAS = "goclaw/llm/tool_schemas.py"

BUGS: list[Bug] = [
    bug(
        "null is taken away from an argument whose default is another value",
        "class offering: a schema that says less than the tool takes",
        _SCHEMAS,
        'schema.get("default", _NULL) is not None',
        'schema.get("default", 0) == {}',
        "tests/llm/test_tool_schemas.py::test_null_stays_where_it_means_something",
    ),
    bug(
        "names of schemas are taken for keywords of one",
        "class offering: a definition that is called title",
        _SCHEMAS,
        "            yield key, {name: _trim(each) for name, each in value.items()}",
        "            yield key, _trim(value)",
        "tests/llm/test_tool_schemas.py::test_titles_and_that_nothing_else_is_taken_go_at_every_depth",
    ),
    bug(
        "one wire sends the schemas of tools as they are",
        "class offering: two thousand bytes more in every request of one provider",
        "goclaw/llm/anthropic.py",
        '"input_schema": trimmed(tool.schema)',
        '"input_schema": tool.schema',
        "tests/llm/test_tool_schemas.py::test_every_wire_sends_the_short_form",
    ),
    bug(
        "a call by tool_call stays one of tool_call",
        "class offering: rights, journal and audit of another tool",
        "goclaw/toolkit/registry.py",
        "        inner = unwrapped(call)",
        "        inner = call",
        "tests/tools/test_tool_search.py::test_a_call_by_tool_call_is_one_of_the_tool_everywhere",
    ),
    bug(
        "a call within a call of tool_call is looked at once only",
        "class offering: a call that must not run twice without its intent on disk",
        "goclaw/toolkit/aliases.py",
        "        call = replace(call, name=name, input=arguments or {})\n    return call",
        "        return replace(call, name=name, input=arguments or {})\n    return call",
        "tests/toolkit/test_aliases.py::test_a_call_within_calls_of_tool_call_is_the_innermost_one",
    ),
    bug(
        "plan mode changes the prompt of a context",
        "class offering: the whole cache of a provider lost",
        "goclaw/toolkit/offering.py",
        "[spec for spec in lasting if spec.name not in core.union(_ITSELF)]",
        "[spec for spec in usable if spec.name not in core.union(_ITSELF)]",
        "tests/toolkit/test_offering.py::test_what_comes_with_plan_mode_changes_neither_the_request_nor_the_prompt",
    ),
    bug(
        "a tool of a server goes into the request",
        "class offering: requests that grow with what is connected",
        "goclaw/toolkit/offering.py",
        "        shown = [self._brief(spec) for spec in others if spec.name in core]",
        '        shown = [self._brief(spec) for spec in others if spec.name in core or "__" in spec.name]',
        "tests/toolkit/test_offering.py::test_a_core_in_short_form_and_the_two_that_find_and_run_the_others",
    ),
    bug(
        "calls of found tools are said back by names that no server knows",
        "class offering: a cached prefix that breaks after every such call",
        "goclaw/llm/encoded.py",
        "    if TOOL_CALL not in names:",
        "    if True:",
        "tests/llm/test_encoded_offered.py::test_every_wire_says_them_so",
    ),
    bug(
        "the window of a model is learnt after its tools were chosen",
        "class offering: other tools in the second request than in the first",
        "goclaw/sessions/fitting.py",
        "        await learn(model)\n",
        "",
        "tests/sessions/test_fitting_index.py"
        "::test_a_model_whose_window_its_server_knows_is_shown_the_same_from_its_first_request_on",
    ),
    bug(
        "tool_search knows no language but English",
        "class offering: a tool that nobody finds",
        "goclaw/toolkit/finding.py",
        "for meant in meanings(word)",
        "for meant in [word]",
        "tests/toolkit/test_finding_wishes.py::test_the_tool_that_a_wish_needs_is_among_the_first_three",
    ),
    bug(
        "a file of comments alone costs its bytes in every request",
        "class offering: empty templates in the prompt",
        "goclaw/agent/prompt.py",
        '        if _COMMENT.sub("", text).strip():',
        "        if text:",
        "tests/agent/test_prompt.py::test_a_file_of_comments_alone_is_no_part_of_it",
    ),
    bug(
        "tools of the core are told whole",
        "class offering: a first request that grew unnoticed",
        "goclaw/toolkit/offering.py",
        "replace(spec, description=spec.short)",
        "replace(spec)",
        "tests/acceptance/test_request_bytes.py",
    ),
    bug(
        "MCP clients are offered the tools that find others",
        "class offering: two ways to each tool for a client that is told of all",
        "goclaw/servers/mcp/ports.py",
        "else (_LISTED_ONLY,)",
        "else ()",
        "tests/servers/mcp/test_tools.py::test_what_is_not_offered_is_not_there_for_anybody",
    ),
]
