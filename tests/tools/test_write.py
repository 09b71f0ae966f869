"""`write`: whole files, in one step."""

import pytest

from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.write import write
from tests.tools.file_support import around
from tests.tools.memory_support import Surroundings

__all__ = ["around"]


async def test_a_file_is_created_and_replaced(around: Surroundings) -> None:
    given = {"path": "a/b.txt", "content": "Käse\r\n"}

    assert await around.call(write, given) == "wrote 7 bytes to a/b.txt (created)"
    assert await around.call(write, given) == "wrote 7 bytes to a/b.txt (replaced)"
    assert (around.the_workspace.root / "a/b.txt").read_bytes() == "Käse\r\n".encode()


async def test_an_empty_file_may_be_written(around: Surroundings) -> None:
    assert await around.call(write, {"path": "a", "content": ""}) == "wrote 0 bytes to a (created)"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "folder", "a\0b", ""])
async def test_a_bad_path_is_an_error_and_nothing_is_written(path: str, around: Surroundings) -> None:
    around.write("folder/file", "x")

    with pytest.raises(ToolError, match=r"path traversal detected|is a directory|control characters|path is empty"):
        await around.call(write, {"path": path, "content": "x"})

    assert [found.name for found in around.the_workspace.root.iterdir()] == ["folder"]


async def test_half_a_character_is_named(around: Surroundings) -> None:
    with pytest.raises(InvalidInput, match=r'^field "content": expected Unicode text, got half a character'):
        await around.call(write, {"path": "a", "content": "\ud83d"})


async def test_the_mark_that_a_person_puts_before_a_path_is_no_part_of_the_name(around: Surroundings) -> None:
    await around.call(write, {"path": "@docs/a.md", "content": "x"})

    assert (around.the_workspace.root / "docs/a.md").read_text() == "x"
