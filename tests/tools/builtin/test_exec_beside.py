"""What runs beside a command of the same answer, as the tools declare it."""

from typing import Any

import pytest

from goclaw.common.config.tools import CliToolSettings
from goclaw.tools.builtin.cli_source import cli_tool
from goclaw.tools.builtin.edit import edit
from goclaw.tools.builtin.exec import bg_exec, exec_
from goclaw.tools.builtin.read import read
from goclaw.tools.builtin.search import search
from goclaw.tools.builtin.web import web_fetch
from goclaw.tools.builtin.write import write
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.scheduling import ResourceUse
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]

CLI = cli_tool("show", CliToolSettings(command="printf", description="Show words."))
COMMANDS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "exec": (exec_, {"command": "make"}),
    "bg_exec": (bg_exec, {"command": "make"}),
    "tools.cli": (CLI, {"args": "a"}),
}
BESIDE: list[tuple[Tool, dict[str, Any]]] = [
    (read, {"path": "a.txt"}),
    (search, {"pattern": "x", "path": "."}),
    (web_fetch, {"url": "https://example.org"}),
]
APART: list[tuple[Tool, dict[str, Any]]] = [
    (write, {"path": "a.txt", "content": "x"}),
    (edit, {"path": "a.txt", "old_string": "x", "new_string": "y"}),
    *COMMANDS.values(),
]


def declared(tool: Tool, given: dict[str, Any], around: Surroundings) -> ResourceUse:
    assert tool.access
    return tool.access(validate(tool.arguments, given), around.context())


@pytest.mark.promise("P-side-by-side")
@pytest.mark.parametrize("name", COMMANDS)
def test_reads_and_fetches_run_beside_a_command_and_writes_and_commands_do_not(name: str, around: Surroundings) -> None:
    command = declared(*COMMANDS[name], around)
    assert [tool.spec.name for tool, given in BESIDE if command.conflicts(declared(tool, given, around))] == []
    assert [tool.spec.name for tool, given in APART if not command.conflicts(declared(tool, given, around))] == []


def test_the_model_is_told_that_a_read_beside_may_not_see_the_effect() -> None:
    assert "may not see its effect" in exec_.spec.description
