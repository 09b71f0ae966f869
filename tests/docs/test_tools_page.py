"""docs/tools.md is made from the declarations: current, and with everything that they say."""

import json
import re

import pytest

from goclaw.common.core import catalog
from goclaw.program.cli.program import run
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import BuiltIn
from tests import house
from tests.tables import table

PAGE = house.ROOT / "docs" / "tools.md"
TOOLS = [pytest.param(tool, id=tool.spec.name) for tool in BuiltIn(catalog.GATED_TOOLS).tools()]


def section(tool: Tool) -> str:
    """What the page says of one tool."""
    found = re.search(rf"^### {tool.spec.name}\n(.*?)(?=^##|\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found, f"{tool.spec.name} is missing: run `goclaw tool docs > docs/tools.md`"
    return found[1]


def test_the_page_in_the_repository_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tool", "docs"]) == 0
    assert PAGE.read_text("utf-8") == capsys.readouterr().out, "run `goclaw tool docs > docs/tools.md`"


def test_every_tool_has_its_section_and_no_other_does() -> None:
    listed = {name for gated in (catalog.TOOLS, *catalog.GATED_TOOLS.values()) for name in gated}
    assert sorted(re.findall(r"^### (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)) == sorted(listed)


@pytest.mark.parametrize(
    ("gate", "name"), [(gate, name) for gate, names in catalog.GATED_TOOLS.items() for name in names]
)
def test_a_tool_that_has_a_gate_names_it(gate: str, name: str) -> None:
    tool = next(tool for tool in BuiltIn([gate]).tools() if tool.spec.name == name)
    assert f"`tools.{gate}: true`" in section(tool)


@table("tool", TOOLS)
def test_a_section_has_what_the_declaration_says(tool: Tool) -> None:
    spec, text = tool.spec, section(tool)
    assert spec.description in text
    for name, field in spec.schema["properties"].items():
        assert f"| `{name}` |" in text
        assert field.get("description", "").replace("|", "\\|") in text
    for example in spec.examples:
        assert example.about in text and example.output in text
        assert f"{spec.name} {json.dumps(dict(example.input), ensure_ascii=False)}" in text
    assert f"Side effect: {spec.side_effect}. Risk: " in text and f"all who may use `{spec.name}`" in text
    for shown in (spec.call_hint, spec.result_hint, spec.reminder, *(f"`{tag}`" for tag in spec.tags)):
        assert " ".join(shown.split()) in text
