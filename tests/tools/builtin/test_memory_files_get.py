"""`memory_get` reads the lines of a memory file that is listed for the person, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import Actor
from goclaw.errors import GoclawError, ToolError
from goclaw.tools.builtin.memory_files import MAX_CHARACTERS, memory_get, memory_search
from tests.tools.builtin.memory_support import surroundings

BERT = Actor(key="telegram:6", entry="telegram")


async def test_lines_are_read_with_where_they_stand(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("memory/a.md", "one\ntwo\nthree\nfour\n")
        answer = await around.call(memory_get, {"path": "memory/a.md", "from": 2, "lines": 2})
        assert answer.splitlines() == [
            "memory/a.md:2-3 of 4",
            "two",
            "three",
            'more lines: {"path": "memory/a.md", "from": 4}',
        ]
        whole = await around.call(memory_get, {"path": "./memory/a.md"})
        assert whole == "memory/a.md:1-4 of 4\none\ntwo\nthree\nfour"
        behind = await around.call(memory_get, {"path": "memory/a.md", "from": 9})
        assert behind == "memory/a.md has 4 lines; there is none from 9 on"


async def test_lines_are_counted_as_memory_search_counts_them(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("MEMORY.md", "one\fpage\u2028still one\r\ntwo\rthree fences\n")
        hit = await around.call(memory_search, {"query": "fences"})
        assert "MEMORY.md:1-3" in hit or "MEMORY.md:3-3" in hit
        answer = await around.call(memory_get, {"path": "MEMORY.md", "from": 3})
    assert answer == "MEMORY.md:3-3 of 3\nthree fences"


async def test_a_long_file_comes_in_parts(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("MEMORY.md", f"{'x' * 30_000}\n" * 4)
        answer = await around.call(memory_get, {"path": "MEMORY.md"})
        assert len(answer) < MAX_CHARACTERS + 200
        assert answer.endswith('"from": 2}')


@pytest.mark.promise("P-memory-own-notes")
async def test_nobody_reads_the_notes_of_others_or_files_that_are_no_memory(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("memory/users/telegram:5/note.md", "Anna's")
        around.write("notes.txt", "no memory")
        around.write("memory/all.md", "everybody's")
        (around.the_workspace.root / "memory/link.md").symlink_to("users/telegram:5/note.md")
        assert "Anna's" in await around.call(memory_get, {"path": "memory/users/telegram:5/note.md"})
        for path in (
            "memory/users/telegram:5/note.md",
            "memory/link.md",
            "notes.txt",
            "memory/../notes.txt",
            "/etc/passwd",
        ):
            with pytest.raises(ToolError, match="no memory file"):
                await around.call(memory_get, {"path": path}, actor=BERT)


async def test_memory_that_is_off_is_read_by_nobody(tmp_path: Path) -> None:
    async with surroundings(tmp_path, enabled=False) as around:
        with pytest.raises(ToolError, match=r"set memory\.enabled"):
            await around.call(memory_get, {"path": "MEMORY.md"})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"path": 1},
        {"path": ""},
        {"path": "x" * 5_000},
        {"path": "MEMORY.md", "from": 0},
        {"path": "MEMORY.md", "from": "2"},
        {"path": "MEMORY.md", "first": 2},
        {"path": "MEMORY.md", "lines": 0},
        {"path": "MEMORY.md", "lines": 10**9},
        {"path": "MEMORY.md\x00"},
        {"path": "\ud800"},
    ],
)
async def test_bad_input_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    async with surroundings(tmp_path) as around:
        around.write("MEMORY.md", "note\n")
        with pytest.raises(GoclawError):
            await around.call(memory_get, given)
