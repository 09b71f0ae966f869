"""Definitions that were agreed to: the first one counts, a change does not until an admin agrees."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.specs import Annotations
from goclaw.tools.mcp import approved_tools
from goclaw.tools.mcp.approved_tools import FILE, ApprovedTools
from goclaw.tools.mcp.base import Definition

READ = Definition("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})


async def test_the_first_definition_is_agreed_to_and_a_later_one_is_a_change(tmp_path: Path) -> None:
    tools = ApprovedTools(tmp_path)
    await tools.meet("files", [READ])
    assert tools.changes("files", READ) == ()
    assert "agreed" not in json.loads((tmp_path / FILE).read_text())["files"]["read"], "nobody was asked"
    changed = replace(
        READ,
        description="Reads and sends.",
        input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
        annotations=Annotations(read_only=True),
    )
    await tools.meet("files", [changed])
    assert tools.changes("files", changed) == (
        "annotations.read_only: was nothing, is “true”",
        "description: was “Reads.”, is “Reads and sends.”",
        'input_schema.properties.path: was “{"type": "string"}”, is nothing',
        'input_schema.properties.to: was nothing, is “{"type": "string"}”',
    )
    assert tools.changes("other", changed) == ()


async def test_what_was_agreed_to_outlives_the_process_and_is_learned_from_others(tmp_path: Path) -> None:
    ours, theirs = ApprovedTools(tmp_path), ApprovedTools(tmp_path)
    await ours.meet("files", [READ])
    changed = replace(READ, description="Else.")
    assert theirs.changes("files", changed) and ours.changes("files", changed)
    assert await theirs.agree("files", [changed], "telegram:7", 1_750_000_000.0)
    assert not ours.changes("files", changed) and ours.changes("files", READ)
    assert not theirs.changes("files", changed)
    kept = json.loads((tmp_path / FILE).read_text())["files"]["read"]
    assert kept["agreed"] == {"by": "telegram:7", "at": "2025-06-15T15:06:40+00:00"}
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


async def test_a_tool_that_went_and_came_again_is_the_one_that_was_known(tmp_path: Path) -> None:
    tools = ApprovedTools(tmp_path)
    await tools.meet("files", [READ])
    await tools.meet("files", [])
    assert tools.changes("files", replace(READ, description="Else."))


async def test_a_file_that_cannot_be_read_agrees_to_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[1]")
    tools = ApprovedTools(tmp_path)
    await tools.meet("files", [READ])
    assert not await tools.agree("files", [READ], "telegram:7", 0.0)
    assert "cannot be read" in tools.changes("files", READ)[0]
    assert (tmp_path / FILE).read_text() == "[1]"


async def test_a_server_cannot_fill_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approved_tools, "MAX_KNOWN", 2)
    tools = ApprovedTools(tmp_path)
    await tools.meet("files", [replace(READ, name=f"t{number}") for number in range(5)])
    assert not tools.changes("files", replace(READ, name="t1"))
    assert "more than 2 tools" in tools.changes("files", replace(READ, name="t3"))[0]
