"""`write`: whole files, in one step."""

import pytest

from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.write import write
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings

__all__ = ["around"]


async def test_a_file_is_created_and_replaced(around: Surroundings) -> None:
    given = {"path": "a/b.txt", "content": "Käse\r\n"}

    assert await around.call(write, given) == "wrote 7 bytes to a/b.txt (created)"
    assert await around.call(write, given) == "wrote 7 bytes to a/b.txt (replaced)"
    assert (around.the_workspace.root / "a/b.txt").read_bytes() == "Käse\r\n".encode()


@pytest.mark.parametrize(
    ("path", "twin"),
    [
        ("servr.js", "server.js"),
        ("src/Index.html", "src/index.html"),
        ("src/deep/down/serverr.py", ""),
        ("notes.md", ""),
        ("log-2026-11-29.md", ""),
        ("src/a.py", ""),
        ("srcc.d", ""),
    ],
)
async def test_a_new_file_beside_one_of_nearly_the_same_name_says_so(
    path: str, twin: str, around: Surroundings
) -> None:
    for there in ("server.js", "src/index.html", "src/b.py", "log-2026-11-28.md", "server.py", "src.d/x"):
        around.write(there, "x")
    said = await around.call(write, {"path": path, "content": "x"})
    assert said == f"wrote 1 bytes to {path} (created{f'; {twin} exists' if twin else ''})"
    assert await around.call(write, {"path": path, "content": "x"}) == f"wrote 1 bytes to {path} (replaced)"


async def test_an_empty_file_may_be_written(around: Surroundings) -> None:
    assert await around.call(write, {"path": "a", "content": ""}) == "wrote 0 bytes to a (created)"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "folder", "a\0b", "", "new/", "@new/", "new/.", "a/new/.."])
async def test_a_bad_path_is_an_error_and_nothing_is_written(path: str, around: Surroundings) -> None:
    around.write("folder/file", "x")

    with pytest.raises(ToolError, match=r"path traversal detected|is a directory|control characters|path is empty"):
        await around.call(write, {"path": path, "content": "x"})

    assert [found.name for found in around.the_workspace.root.iterdir()] == ["folder"]


async def test_half_a_character_is_named(around: Surroundings) -> None:
    with pytest.raises(InvalidInput, match=r'^field "content": expected Unicode text, got half a character'):
        await around.call(write, {"path": "a", "content": "\ud83d"})


async def test_the_mark_that_a_person_puts_before_a_path_is_no_part_of_the_name(around: Surroundings) -> None:
    assert await around.call(write, {"path": "@docs/a.md", "content": "x"}) == "wrote 1 bytes to docs/a.md (created)"

    assert (around.the_workspace.root / "docs/a.md").read_text() == "x"


async def test_a_path_that_ends_as_a_folder_does_is_refused_in_words(around: Surroundings) -> None:
    with pytest.raises(ToolError, match=r"^is a directory: new/ \(a file in it needs a name\)$"):
        await around.call(write, {"path": "new/", "content": "x"})


@pytest.mark.parametrize(
    ("before", "content", "after", "said"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n", "6 bytes to a.txt (replaced, CR LF kept)"),
        (b"a\r\nb\r\n", "x\r\ny", b"x\r\ny", "4 bytes to a.txt (replaced)"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n", "4 bytes to a.txt (replaced)"),
        (b"\xef\xbb\xbfa", "x", b"\xef\xbb\xbfx", "4 bytes to a.txt (replaced, the byte order mark kept)"),
        (b"\xef\xbb\xbfa\r\n", "\ufeffx\n", b"\xef\xbb\xbfx\r\n", "6 bytes to a.txt (replaced, CR LF kept)"),
        ("\ufeffa".encode("utf-16-le"), "ä", "\ufeffä".encode("utf-16-le"),
         "4 bytes to a.txt (replaced, the byte order mark, UTF-16 kept)"),
        ("Käse".encode("latin-1"), "Müsli", "Müsli".encode("latin-1"),
         "5 bytes to a.txt (replaced, Latin-1 (Windows-1252) kept)"),
        ("Käse".encode("latin-1"), "世", "世".encode(), "3 bytes to a.txt (replaced)"),
        (b"\xef\xbb\xbfa", "", b"", "0 bytes to a.txt (replaced)"),
        (b"\0\r\n", "x\n", b"x\n", "2 bytes to a.txt (replaced)"),
    ],
)  # fmt: skip
async def test_the_form_of_a_text_that_is_replaced_is_kept(
    before: bytes, content: str, after: bytes, said: str, around: Surroundings
) -> None:
    path = around.write("a.txt", before)

    assert await around.call(write, {"path": "a.txt", "content": content}) == f"wrote {said}"

    assert path.read_bytes() == after


async def test_folders_are_made_only_if_wanted(around: Surroundings) -> None:
    around.write("docs/a.md", "x")

    with pytest.raises(ToolError, match=r"^file not found: dosc/b\.md \(its folder .*\); did you mean docs\?$"):
        await around.call(write, {"path": "dosc/b.md", "content": "x", "create_dirs": False})
    assert await around.call(write, {"path": "docs/b.md", "content": "x", "create_dirs": False})
    assert await around.call(write, {"path": "top.md", "content": "x", "create_dirs": False})
    assert sorted(found.name for found in around.the_workspace.root.iterdir()) == ["docs", "top.md"]


async def test_the_mode_of_a_file_that_is_replaced_is_kept(around: Surroundings) -> None:
    path = around.write("run.sh", "old")
    path.chmod(0o750)

    await around.call(write, {"file_path": "run.sh", "content": "new"})

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o750)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, 'field "path": expected string, got nothing'),
        ({"path": "a"}, 'field "content": expected string, got nothing'),
        ({"path": "a", "content": 5}, 'field "content": expected string, got number'),
        ({"path": "a", "content": "x", "create_dirs": "no"}, 'field "create_dirs": expected boolean, got string'),
        ({"path": "a" * 300, "content": "x"}, "path is too long"),
        ({"path": "memory/users/other/x", "content": "x"}, "permission denied"),
    ],
)
async def test_wrong_arguments_are_named(given: dict[str, object], words: str, around: Surroundings) -> None:
    around.write("memory/users/other/a", "x")
    around.the_workspace = around.the_workspace.seen_by("telegram:5")

    with pytest.raises((InvalidInput, ToolError)) as caught:
        await around.call(write, given)
    assert words in str(caught.value)
