"""Globs, finding files, and the nearest name of a misspelt one."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.workspace import FileQuery, Workspace, patterns
from goclaw.common.workspace.paths import nearest
from goclaw.errors import ToolError


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/*.py", "lib/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/b/c/a.py", True),
        ("src/**", "src/b/c/a.py", True),
        ("src/**", "src", False),
        ("**/test/**", "a/test/b.py", True),
        ("**", "a/b", True),
        ("*.{js,ts}", "a.ts", True),
        ("{src,lib}/*.{js,ts}", "lib/a.js", True),
        ("[ab]?.md", "a1.md", True),
        ("[^ab]*.md", "a1.md", False),
        ("[!ab]*.md", "c1.md", True),
        (".env*", ".env.local", True),
        ("./src/*.py", "src/a.py", True),
    ],
)
def test_what_a_glob_fits(glob: str, path: str, fits: bool) -> None:
    assert any(pattern.matches(path.split("/")) for pattern in patterns(glob)) is fits


@given(
    st.lists(st.sampled_from(["**", "*", "a", "b", "a*"]), min_size=2, max_size=6),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=6),
)
def test_a_folder_in_which_something_fits_is_looked_into(parts: list[str], names: list[str]) -> None:
    [pattern] = patterns("/".join(parts))
    if pattern.matches(names):
        assert all(pattern.may_match_below(names[:end]) for end in range(1, len(names)))


async def test_a_folder_that_a_walk_names_is_found_without_looking_at_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep/inner/me").mkdir(parents=True)
    (tmp_path / "deep/inner/me/a.md").touch()
    listed = []
    scandir = os.scandir

    def noting(folder: int) -> Iterator[os.DirEntry[str]]:
        listed.append(Path(f"/proc/self/fd/{folder}").readlink())
        return scandir(folder)

    async with Workspace(tmp_path) as workspace:
        monkeypatch.setattr(os, "scandir", noting)
        found = await workspace.walk(["deep/inner/me/*.md", "gone/*.md"])
        monkeypatch.undo()
    assert [match.path for match in found] == ["deep/inner/me/a.md"]
    assert listed == [tmp_path / "deep/inner/me"]


async def test_a_folder_that_a_walk_names_is_none_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep/inner").mkdir(parents=True)
    (tmp_path / "deep/inner/a.md").touch()
    (tmp_path / "linked").symlink_to("deep")
    (tmp_path / "deep/also").symlink_to("inner")
    async with Workspace(tmp_path) as workspace:
        behind = [
            "linked/inner/*.md",
            "deep/also/*.md",
            "linked/inner/a.md",
            "deep/inner/a.md/*",
            "deep/../*/*/*",
        ]
        assert await workspace.walk(behind) == []
        assert [match.path for match in await workspace.walk(["deep/inner/a.md"])] == ["deep/inner/a.md"]


async def test_a_search_for_files_is_bounded_in_number_and_time(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/a.txt").touch()
    async with Workspace(tmp_path) as workspace:
        everything = await workspace.find(FileQuery())
        few = await workspace.find(FileQuery(), most=5)
        hasty = await workspace.find(FileQuery(), seconds=0)

    assert (len(everything.entries), everything.complete) == (30, True)
    assert (len(few.entries), few.complete) == (5, False)
    assert len(hasty.entries) < 30 and not hasty.complete


async def test_what_is_visible_is_wanted_and_may_be_read(tmp_path: Path) -> None:
    for path in ("w/a.py", "w/b.md", "w/build/c.py", "notes/me/d.py", "notes/you/e.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "w/.gitignore").write_text("build/\n")
    (tmp_path / "out.py").touch()
    (tmp_path / "w/link.py").symlink_to(tmp_path / "out.py")
    named = [
        "a.py",
        "b.md",
        "build/c.py",
        "memory/users/me/d.py",
        "memory/users/you/e.py",
        "link.py",
        "../out.py",
        "gone.py",
    ]
    async with Workspace(tmp_path / "w", notes=tmp_path / "notes") as workspace:
        mine = workspace.seen_by("me")

        assert await mine.visible(named, FileQuery(patterns=patterns("*.py"))) == ["a.py", "memory/users/me/d.py"]
        assert await mine.visible(named, FileQuery(patterns=patterns("*.py"), recursive=False)) == ["a.py"]
        assert await mine.visible(named, FileQuery("build")) == ["build/c.py"]
        assert await mine.visible(named, FileQuery(exclude=patterns("memory"))) == ["a.py", "b.md"]


async def test_where_there_is_no_folder_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    async with Workspace(tmp_path) as workspace:
        for folder in ("a", "b", "..", "a/.."):
            with pytest.raises(ToolError):
                await workspace.find(FileQuery(f"{folder}/x" if folder == "a/.." else folder))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/mian.py", ("src/main.py", True)),
        ("src/Main.py", ("src/main.py", True)),
        ("main.py", ("src/main.py", True)),
        ("readme.txt", ("", False)),
        ("test/test_b.py", ("tests/test_b.py", True)),
        ("entirely-different", ("", False)),
        ("x" * 1_000, ("", False)),
    ],
)
def test_the_nearest_name(path: str, expected: tuple[str, bool]) -> None:
    paths = ["src/", "src/main.py", "README.md", "tests/test_a.py", "tests/test_b.py", "docs/guide.md"]
    assert nearest(path, paths) == expected
