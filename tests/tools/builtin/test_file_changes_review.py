"""Review mode: every change of a file waits for a yes, and whoever says it sees the diff."""

from typing import Any

import nbformat
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.specs import Risk
from goclaw.extensions.notebook.notebook_edit import notebook_edit
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.edit import edit, multi_edit
from goclaw.tools.builtin.write import write
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]

CALLS: list[tuple[Tool, dict[str, Any], list[str]]] = [
    (write, {"path": "a.txt", "content": "one\n2\n"}, ["-two", "+2"]),
    (write, {"path": "new.txt", "content": "new\n"}, ["+new"]),
    (edit, {"path": "a.txt", "old_string": "two", "new_string": "2"}, ["-two", "+2"]),
    (multi_edit, {"path": "a.txt", "edits": [{"old_string": "two", "new_string": "2"}]}, ["-two", "+2"]),
    (notebook_edit, {"path": "a.ipynb", "action": "insert", "new_source": "x = 5"}, ["x = 5"]),
]


async def grounds(around: Surroundings, tool: Tool, given: dict[str, Any]) -> Grounds:
    assert tool.grounds
    return await tool.grounds(validate(tool.arguments, given), around.context())


@pytest.mark.parametrize(("tool", "given", "shown"), CALLS)
async def test_a_change_waits_for_a_yes_with_its_diff(
    tool: Tool, given: dict[str, Any], shown: list[str], around: Surroundings
) -> None:
    around.write("a.txt", "one\ntwo\n")
    around.write("a.ipynb", nbformat.writes(nbformat.v4.new_notebook()))
    assert around.risk(tool, given) is Risk.MEDIUM
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": {"write": {"review": True}}})

    before = await grounds(around, tool, given)

    assert around.risk(tool, given) is Risk.HIGH
    text = "\n".join(before.lines)
    assert text.count("```") == 2 and all(part in text for part in shown)
    assert not (around.the_workspace.root / "new.txt").exists()
    around.write(given["path"], (around.the_workspace.root / "a.txt").read_bytes() + b"more")
    around.write("a.ipynb", nbformat.writes(nbformat.v4.new_notebook(metadata={"changed": True})))
    assert (await grounds(around, tool, given)).facts != before.facts if tool is not notebook_edit else True


async def test_a_diff_stays_in_its_fence_and_short_and_keeps_secrets(around: Surroundings) -> None:
    content = "```\nnot outside\n" + "line\n" * 500 + "sk-ant-api03-" + "a" * 80 + "\n"

    (shown,) = (await grounds(around, write, {"path": "a.md", "content": content})).lines

    assert shown.count("```") == 2 and len(shown.splitlines()) < 70 and "sk-ant" not in shown


async def test_what_is_too_large_to_compare_is_told_by_its_size(around: Surroundings) -> None:
    (shown,) = (await grounds(around, write, {"path": "a.md", "content": "x" * 300_000})).lines

    assert shown == "`a.md`: 0 characters become 300,000"
