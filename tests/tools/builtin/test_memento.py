"""`memento` keeps Markdown artifacts: per person unless shared, bounded, under safe names."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import Actor
from goclaw.common.specs import Risk
from goclaw.errors import GoclawError, ToolError
from goclaw.memory.user_memory import MAX_MEMENTO_BYTES, MAX_MEMENTOS, MAX_SUMMARY, mementos_of, summary_of
from goclaw.tools.builtin.memento import memento
from goclaw.tools.builtin.memory_files import memory_list
from tests.tables import table
from tests.tools.builtin.memory_support import ANNA, Surroundings, surroundings

BERT = Actor(key="telegram:6", entry="telegram")
NOTES = {"action": "write", "name": "notes", "content": "# Notes\n\nAnna likes tea."}


async def test_one_is_written_added_to_read_listed_and_deleted(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        assert await around.call(memento, NOTES) == "created the memento 'notes', 24 bytes"
        added = await around.call(memento, {"action": "append", "name": "notes.md", "content": "And cake."})
        assert added == "added to the memento 'notes', 34 bytes"
        assert await around.call(memento, {"action": "read", "name": "notes"}) == f"{NOTES['content']}\nAnd cake."
        listed = await around.call(memento, {"action": "list"})
        assert listed.startswith("notes  34 bytes  ") and listed.endswith("\n  Notes: Anna likes tea. And cake.")
        assert await around.call(memento, {"action": "delete", "name": "notes"}) == "deleted the memento 'notes'"
        assert await around.call(memento, {"action": "list"}) == "no mementos yet"


async def test_to_add_to_nothing_makes_a_new_one(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        assert "created" in await around.call(memento, {"action": "append", "name": "new", "content": "x"})


async def test_one_persons_mementos_are_nobody_elses(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memento, NOTES)
        assert await around.call(memento, {"action": "list"}, actor=BERT) == "no mementos yet"
        for action in ("read", "delete"):
            with pytest.raises(ToolError, match="no memento 'notes'; there are: none yet"):
                await around.call(memento, {"action": action, "name": "notes"}, actor=BERT)
        assert await mementos_of(around.the_workspace, BERT.key) == []


async def test_a_shared_one_is_everybodys(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memento, {**NOTES, "shared": True})
        assert "notes  shared" in await around.call(memento, {"action": "list"}, actor=BERT)
        read = await around.call(memento, {"action": "read", "name": "notes", "shared": True}, actor=BERT)
        assert read == NOTES["content"]


async def test_shared_ones_are_listed_alone_when_these_are_asked_for(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        assert await around.call(memento, {"action": "list", "shared": True}) == "no mementos yet"
        await around.call(memento, NOTES)
        await around.call(memento, {**NOTES, "name": "house", "shared": True})
        listed = (await around.call(memento, {"action": "list", "shared": True})).splitlines()
        assert [line.partition("  ")[0] for line in listed if not line.startswith(" ")] == ["house"]
        everything = await around.call(memento, {"action": "list"})
        assert "house  shared" in everything and "\nnotes  " in f"\n{everything}"


async def test_memory_finds_them_like_every_note(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memento, NOTES)
        assert "memory/users/telegram:5/mementos/notes.md" in await around.call(memory_list, {})


async def test_too_large_or_too_many_leave_what_is_there(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memento, {"action": "write", "name": "big", "content": "x" * MAX_MEMENTO_BYTES})
        with pytest.raises(ToolError, match="are the limit"):
            await around.call(memento, {"action": "append", "name": "big", "content": "y"})
        for number in range(MAX_MEMENTOS - 1):
            around.write(f"memory/users/{ANNA.key}/mementos/n{number}.md", "x")
        with pytest.raises(ToolError, match="delete some first"):
            await around.call(memento, NOTES)
        assert "replaced" in await around.call(memento, {"action": "write", "name": "n1", "content": "y"})
        assert len(await around.call(memento, {"action": "read", "name": "big"})) == MAX_MEMENTO_BYTES


async def test_links_lead_to_nobody_elses_notes(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        await around.call(memento, NOTES)
        own = around.the_workspace.on_disk("memory/users/telegram:6/mementos")
        own.mkdir(parents=True)
        (own / "mine.md").symlink_to("../../telegram:5/mementos/notes.md")
        for action in ({"action": "read"}, {"action": "write", "content": "x"}, {"action": "delete"}):
            with pytest.raises(ToolError):
                await around.call(memento, {**action, "name": "mine"}, actor=BERT)
        assert await around.call(memento, {"action": "read", "name": "notes"}) == NOTES["content"]


def test_only_what_changes_something_counts_as_a_change(tmp_path: Path) -> None:
    assert memento.risk
    risks = {
        action: memento.risk(memento.arguments.model_validate({"action": action}), None)  # type: ignore[arg-type]  # asks no context
        for action in ("read", "list", "write", "append", "delete")
    }
    assert {action for action, risk in risks.items() if risk is Risk.LOW} == {"read", "list"}


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("# Plan #\n\nFirst this,\nthen that.\n\nMore.", "Plan: First this, then that."),
        ("just text", "just text"),
        ("## Only a heading", "Only a heading"),
        ("", ""),
        ("\n\n# A\n## B\ntext\n", "A: text"),
        ("# H\n\nwith \x1b[31m\u202e signs", "H: with [31m signs"),
    ],
)
def test_a_summary_is_the_first_heading_and_paragraph_on_one_line(text: str, summary: str) -> None:
    assert summary_of(text.encode()) == summary


def test_a_summary_is_bounded() -> None:
    assert len(summary_of(b"# " + b"x" * 5_000 + b"\n\n" + b"y" * 5_000)) == MAX_SUMMARY
    assert summary_of(b"\xff\xfe") == "\ufffd\ufffd"


@table(
    "given",
    [
        {},
        {"action": "burn", "name": "a"},
        {"action": "read"},
        {"action": "write", "name": "a"},
        {"action": "append", "name": "a"},
        {"action": "write", "content": "x"},
        {"action": "write", "name": "", "content": "x"},
        {"action": "write", "name": "../a", "content": "x"},
        {"action": "write", "name": "/etc/a", "content": "x"},
        {"action": "write", "name": ".hidden", "content": "x"},
        {"action": "write", "name": "a\nb", "content": "x"},
        {"action": "write", "name": "a\x00", "content": "x"},
        {"action": "write", "name": "*", "content": "x"},
        {"action": "write", "name": "a ", "content": "x"},
        {"action": "write", "name": "x" * 65, "content": "x"},
        {"action": "write", "name": "é" * 40, "content": "x"},
        {"action": "write", "name": "a", "content": "x" * (MAX_MEMENTO_BYTES + 1)},
        {"action": "write", "name": "a", "content": "\ud800"},
        {"action": "write", "name": "a", "content": 1},
        {"action": "write", "name": "a", "content": "x", "shared": 1},
        {"action": "write", "name": "a", "content": "x", "user": "telegram:6"},
    ],
)
async def test_bad_input_keeps_nothing(tmp_path: Path, given: dict[str, Any]) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(GoclawError):
            await around.call(memento, given)
        assert not folder(around).exists()


async def test_memory_that_is_off_keeps_none(tmp_path: Path) -> None:
    async with surroundings(tmp_path, enabled=False) as around:
        with pytest.raises(ToolError, match=r"set memory\.enabled"):
            await around.call(memento, NOTES)


def folder(around: Surroundings) -> Path:
    return around.the_workspace.root / "memory"
