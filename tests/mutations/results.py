"""Bugs in what becomes of results that are not as declared: those of MCP servers, plugins and commands."""

from tests.mutations.bug import Bug, bug

BUGS: list[Bug] = [
    bug(
        "one MCP tool that cannot be read takes the server's other tools away",
        "issue 43: a schema that is null",
        "goclaw/mcp/salvage.py",
        "[each for each in entries[:MAX_SALVAGED] if self._keeps(method, field, each)]",
        "entries",
        "tests/tools/test_mcp_source.py::test_a_tool_that_cannot_be_read_takes_no_other_with_it",
    ),
    bug(
        "an MCP answer that is odd in one part is lost after its effect",
        "issue 43: a part of an unknown type",
        "goclaw/mcp/salvage.py",
        "each if self._fits(method, {field: [each]}) else _as_text(method, each)",
        "each",
        "tests/tools/test_mcp_source.py::test_an_odd_part_of_an_answer_costs_no_more_than_that_part",
    ),
    bug(
        "an MCP reply that cannot be decoded waits for the timeout",
        "issue 43: half an emoji",
        "goclaw/mcp/salvage.py",
        "            message = _reply_in(message) or message\n",
        "            return message\n",
        "tests/tools/test_mcp_source.py::test_a_reply_that_is_no_result_fails_its_call_at_once",
    ),
    bug(
        "a result that breaks its declaration is withheld after the tool's effect",
        "issue 43: a bounded result without a hint",
        "goclaw/toolkit/dispatcher.py",
        "content, failed, as_declared = await self._undeclared(error, watch), False, False",
        "content, failed, as_declared = error_text(str(error)), True, False",
        "tests/toolkit/test_dispatcher_steps.py::"
        "test_a_result_that_is_not_as_declared_reaches_the_model_with_a_line_that_says_so",
    ),
    bug(
        "a program gets the fields of a result that breaks its declaration",
        "issue 43: an MCP client whose schema it breaks",
        "goclaw/toolkit/dispatcher.py",
        "not failed and not watch.refused and as_declared and content == whole",
        "not failed and not watch.refused and content == whole",
        "tests/servers/mcp/test_tools.py::test_a_result_that_breaks_its_schema_is_an_error_that_says_that_the_tool_ran",
    ),
    bug(
        "an argument of the wrong type crashes `goclaw declare check`",
        'issue 43: attribute("key", "string")',
        "goclaw/declare/shapes.py",
        "    if fault := _kind_fault(kind):\n",
        '    if fault := "":\n',
        "tests/toolkit/test_plugin_loading.py::test_an_argument_of_the_wrong_type_is_named_with_its_place_and_remedy",
    ),
    bug(
        "an agent of a plugin removes the built-in kind",
        "issue 43: a plugin that declares any agent",
        "goclaw/config/packaged.py",
        "        if of_packages and not",
        "        if not of_packages and not",
        "tests/config/test_packaged.py::"
        "test_an_agent_of_a_package_leaves_the_built_in_kind_and_one_of_the_operator_replaces_it",
    ),
    bug(
        "one long line hides the output before it",
        "issue 43: ERROR, a line of 40 kB, END",
        "goclaw/tools/text.py",
        '    end = text.find("\\n", start, start + most // WITHIN) + 1\n',
        '    end = text.find("\\n", start) + 1\n',
        "tests/tools/test_exec.py::test_one_long_line_hides_nothing_around_it",
    ),
    bug(
        "the head of a long output is lost",
        "issue 43: what comes first is the error",
        "goclaw/tools/exec_run.py",
        "first_lines(mask(head), self._limit // HEAD)",
        "first_lines(mask(head), 0)",
        "tests/tools/test_exec.py::test_one_long_line_hides_nothing_around_it",
    ),
    bug(
        "a progress bar is a thousand lines",
        "issue 43: \\\\r and cursor movement",
        "goclaw/tools/exec_run.py",
        "        await self._keep(await self._screen.write(chunk))\n",
        "        await self._keep(chunk)\n",
        "tests/tools/test_exec.py::test_a_progress_bar_is_shown_at_its_end_and_kept_so",
    ),
    bug(
        "a search says that nothing matches while its index is behind",
        "issue 43: a large backlog",
        "goclaw/memory/service.py",
        "shown, more, talk.gap(connection))",
        "shown, more)",
        "tests/memory/test_service_backlog.py::"
        "test_the_newest_messages_are_found_at_once_and_those_that_are_missing_are_said",
    ),
    bug(
        "of a backlog the newest messages come last",
        "issue 43: a large backlog",
        "goclaw/memory/transcript_indexer.py",
        "                if end - self._seen <= BACKLOG:\n",
        "                if end:\n",
        "tests/memory/test_service_backlog.py::"
        "test_the_newest_messages_are_found_at_once_and_those_that_are_missing_are_said",
    ),
    bug(
        "the newest messages stay in the index twice",
        "issue 43: a large backlog",
        "goclaw/memory/index/talk.py",
        "        row = max(known + 1 if session.endswith(NEWEST_MARK) else 0,",
        "        row = max(0,",
        "tests/memory/test_service_backlog.py::"
        "test_a_backlog_is_indexed_to_its_end_over_restarts_and_nothing_is_found_twice",
    ),
    bug(
        "German without its own keys is not found",
        "issue 43: Schluessel",
        "goclaw/memory/query_terms.py",
        "    return terms + [spelt for word in words if",
        "    return terms + [word for word in () if",
        "tests/tools/test_memory_files_search.py::test_a_note_is_found_however_its_words_and_numbers_are_written",
    ),
]
