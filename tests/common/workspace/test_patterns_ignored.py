"""What a `.gitignore` hides from completion, with git itself as the judge."""

import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.common.workspace import Workspace
from goclaw.common.workspace.patterns import Ignored

FILES = ["a", "b/a", "b/c/a", "b/c/ab.log", "b/c.log", "ab/a", "ab/b/c/a", "ab/c.log", "c/a b", "c/[x]", "c/#x", "c/!x"]
PIECES = ["a", "b", "c", "ab", "*", "?", "a*", "*.log", "[ab]", "[!a]", "**", "*b*", r"\#x", r"\!x", r"\[x\]", "a b"]


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    root = tmp_path / "workspace"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    async with Workspace(root) as opened:
        yield opened


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout


def seen_by_git(root: Path) -> set[str]:
    """The files that git would add."""
    names = git(root, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    return {name for name in names if name and not name.endswith(".gitignore")}


def rules(chance: random.Random) -> str:
    """Some lines of a `.gitignore`, all made of the same few names."""
    lines = []
    for _ in range(chance.randint(1, 4)):
        pattern = "/".join(chance.choices(PIECES, k=chance.choice([1, 1, 2, 3])))
        lines.append(f"{chance.choice(['', '', '!'])}{chance.choice(['', '', '/'])}{pattern}{chance.choice(['', '/'])}")
    return "\n".join([*lines, "# b", ""])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_the_same_files_are_hidden_as_git_hides(workspace: Workspace) -> None:
    git(workspace.root, "init", "-q")
    for seed in range(150):
        chance = random.Random(seed)
        given = {".gitignore": rules(chance), "b/.gitignore": rules(chance) if seed % 3 == 0 else ""}
        for name, text in given.items():
            (workspace.root / name).write_text(text)

        seen = {path for path in await workspace.paths() if not path.endswith(("/", ".gitignore"))}

        assert seen == seen_by_git(workspace.root), given


def test_lines_that_say_nothing_hide_nothing() -> None:
    ignored = Ignored((), "\n# a\n   \n/\n!\n" + "a" * 300)

    assert not ignored.hides(("a",), is_folder=False)
    assert not ignored.hides(("a" * 300,), is_folder=False)


def test_rules_that_somebody_made_to_be_slow_are_read_to_their_end() -> None:
    """By a matcher that tries every way through them, never."""
    slow = "\n".join(["*a" * 100 + "b", "/".join(["**", "a"] * 40) + "/b", "[a-" * 50])
    ignored = Ignored((), slow)

    assert not ignored.hides(("a",) * 24 + ("a" * 250,), is_folder=False)
