"""`glob` and `list`: what there is, the newest first, within bounds, and nothing that is not for the asker."""

import os
import unicodedata
from pathlib import Path

import pytest

from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.listing import glob, list_
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import ANNA, Surroundings

__all__ = ["around"]


def files(around: Surroundings, *paths: str) -> None:
    """The first is the oldest."""
    for age, path in enumerate(paths):
        os.utime(around.write(path, "x"), (1_000 + age, 1_000 + age))


async def found(around: Surroundings, pattern: str, **more: object) -> list[str]:
    return (await around.call(glob, {"pattern": pattern, **more})).splitlines()


async def test_the_newest_comes_first(around: Surroundings) -> None:
    files(around, "b.py", "src/a.py", "src/deep/c.py", "d.md")

    assert await found(around, "*.py") == ["src/deep/c.py", "src/a.py", "b.py"]
    assert await found(around, "src/*.py") == ["src/a.py"]
    assert await found(around, "src/**/*.py") == ["src/deep/c.py", "src/a.py"]
    assert await found(around, "**/*.{md,py}", path="src") == ["src/deep/c.py", "src/a.py"]
    assert await found(around, "*.py", limit=1) == ["src/deep/c.py", "[1 of 3; narrow the pattern or the path]"]
    assert await found(around, "*.rs") == ["no file matches *.rs"]


async def test_brackets_stand_for_one_of_several_characters(around: Surroundings) -> None:
    files(around, "a1.py", "a].py", "a[.py", "[id]/b.py")

    assert await found(around, "a[0-9].py") == ["a1.py"]
    assert await found(around, "a[!0-9].py") == ["a[.py", "a].py"]
    assert await found(around, "a[]].py") == ["a].py"]
    assert await found(around, "a[[].py") == ["a[.py"]
    assert await found(around, "[[]id]/*.py") == ["[id]/b.py"]


async def test_letters_are_the_same_composed_and_decomposed(around: Surroundings) -> None:
    files(around, unicodedata.normalize("NFD", "Käse.py"), unicodedata.normalize("NFC", "Möhre.py"))

    for form in ("NFC", "NFD"):
        found_so = [
            *await found(around, unicodedata.normalize(form, "Kä*")),
            *await found(around, unicodedata.normalize(form, "M[ö]hre.py")),
        ]
        assert [unicodedata.normalize("NFC", path) for path in found_so] == ["Käse.py", "Möhre.py"]


async def test_what_git_ignores_is_left_out_unless_asked_for(around: Surroundings) -> None:
    files(around, "a.py", "build/b.py", "src/gen.py", "src/keep.py", ".git/c.py", "node_modules/d.py", ".hidden/e.py")
    around.write(".gitignore", "build/\n")
    around.write("src/.gitignore", "gen.py\n")

    assert await found(around, "*.py") == [".hidden/e.py", "src/keep.py", "a.py"]
    everything = await found(around, "*.py", include_ignored=True)
    assert set(everything) == {"a.py", "build/b.py", "src/gen.py", "src/keep.py", "node_modules/d.py", ".hidden/e.py"}
    assert await found(around, "*.py", path="build") == ["build/b.py"]


async def test_links_and_the_notes_of_others_are_not_seen(around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("x")
    files(around, f"memory/users/{ANNA.key}/mine.py", "memory/users/other/theirs.py")
    (around.the_workspace.root / "link.py").symlink_to(tmp_path / "outside.py")
    (around.the_workspace.root / "folder").symlink_to(tmp_path)
    around.the_workspace = around.the_workspace.seen_by(ANNA.key)

    assert await found(around, "*.py") == [f"memory/users/{ANNA.key}/mine.py"]
    assert "theirs.py" not in await around.call(list_, {"path": "memory/users"})
    with pytest.raises(ToolError):
        await around.call(list_, {"path": "memory/users/other"})
    with pytest.raises(ToolError):
        await around.call(glob, {"pattern": "*", "path": "memory/users/other"})


async def test_a_folder_is_listed(around: Surroundings) -> None:
    files(around, "b.txt", "a/x.txt")
    around.write("empty\nname", "12345")
    (around.the_workspace.root / "none").mkdir()

    assert await around.call(list_, {}) == "a/\nnone/\nb.txt  1 bytes\n'empty\\nname'  5 bytes"
    assert await around.call(list_, {"path": "none"}) == "none is empty"
    part = await around.call(list_, {"limit": 2})
    assert part.splitlines()[2] == "[2 of 4 entries; give a larger limit, or use glob with a pattern]"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, 'field "pattern": expected string, got nothing'),
        ({"pattern": 5}, 'field "pattern": expected string, got number'),
        ({"pattern": ""}, 'field "pattern": expected a glob of 1 to 1000 characters'),
        ({"pattern": "x" * 1001}, 'field "pattern": expected a glob of 1 to 1000 characters'),
        ({"pattern": "../*"}, 'field "pattern": expected a glob relative to the folder'),
        ({"pattern": "/etc/*"}, 'field "pattern": expected a glob relative to the folder'),
        ({"pattern": "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"}, "stand for more than 100 patterns"),
        (
            {"pattern": "src/[bad*.py"},
            "field \"pattern\": the [ in '[bad*.py' is never closed; for a [ as it is, write [[]",
        ),
        ({"pattern": "{a,[b}.c"}, "the [ in '[b.c' is never closed"),
        ({"pattern": "[]"}, "the [ in '[]' is never closed"),
        ({"pattern": "*", "limit": 0}, 'field "limit": expected at least 1, got 0'),
        ({"pattern": "*", "path": "missing"}, "file not found: missing"),
        ({"pattern": "*", "path": "a.txt"}, "not a directory: a.txt"),
        ({"pattern": "*", "path": "../"}, "path traversal detected"),
    ],
)
async def test_wrong_arguments_are_named(given: dict[str, object], words: str, around: Surroundings) -> None:
    around.write("a.txt", "x")

    with pytest.raises((InvalidInput, ToolError)) as caught:
        await around.call(glob, given)
    assert words in str(caught.value)


async def test_a_hostile_pattern_takes_no_time(around: Surroundings) -> None:
    files(around, "a/" * 30 + "a" * 200)

    assert await found(around, "**/" * 100 + "*a" * 40 + "b") == ["no file matches " + "**/" * 100 + "*a" * 40 + "b"]


@pytest.mark.parametrize("path", ["missing", "a.txt", "..", "a\0b"])
async def test_a_bad_folder_is_an_error(path: str, around: Surroundings) -> None:
    around.write("a.txt", "x")

    with pytest.raises(ToolError, match=r"file not found|not a directory|path traversal|control characters"):
        await around.call(list_, {"path": path})
