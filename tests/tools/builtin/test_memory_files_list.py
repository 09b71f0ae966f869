"""The `memory_list` tool."""

import os
from pathlib import Path

import pytest

from goclaw.common.core.events import Actor
from goclaw.errors import ToolError
from goclaw.tools.builtin.memory_files import memory_list
from tests.tools.builtin.memory_support import surroundings

BERT = Actor(key="telegram:6", entry="telegram")


async def test_files_are_listed_by_path_with_size_lines_and_time(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        for path, content in (("memory/b.md", "one\ntwo\n"), ("memory/a.md", "é\n"), ("MEMORY.md", "")):
            os.utime(around.write(path, content), (1_750_000_000, 1_750_000_000))
        around.write("README.md", "no memory")
        answer = await around.call(memory_list, {})
    assert answer.splitlines() == [
        "3 memory files",
        "MEMORY.md  0 bytes  0 lines  2025-06-15T15:06:40+00:00",
        "memory/a.md  3 bytes  1 line  2025-06-15T15:06:40+00:00",
        "memory/b.md  8 bytes  2 lines  2025-06-15T15:06:40+00:00",
    ]


async def test_without_files_it_says_how_to_make_one(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        answer = await around.call(memory_list, {})
    assert answer == "no memory files yet: write MEMORY.md, or a Markdown file in the folder memory"


async def test_disabled_memory_says_which_key_enables_it(tmp_path: Path) -> None:
    async with surroundings(tmp_path, enabled=False) as around:
        with pytest.raises(ToolError, match=r"^memory search is disabled: set memory\.enabled$"):
            await around.call(memory_list, {})


@pytest.mark.promise("P-memory-own-notes")
async def test_a_users_own_files_are_listed_for_that_user_only(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        around.write("memory/users/telegram:5/note.md", "Anna's")
        around.write("memory/all.md", "everybody's")
        assert "telegram:5" in await around.call(memory_list, {})
        answer = await around.call(memory_list, {}, actor=BERT)
    assert answer.startswith("1 memory file\nmemory/all.md")
