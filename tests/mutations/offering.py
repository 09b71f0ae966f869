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
        "an argument called title is taken for a schema's title",
        "class offering: an argument that no model knows of",
        _SCHEMAS,
        '        if key == "properties" and isinstance(value, Mapping):',
        '        if key == "properties" and isinstance(value, Mapping) and "title" not in value:',
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
]
