"""Classes `path` and `write`: names that lead out of the workspace, and things that are no files."""

import os
import socket
from pathlib import Path

import pytest

from tests.adversarial.target import Target, edit, read, write

OUTSIDE = [
    "..", "../state/users.json", "a/../../state/users.json", "/", "/etc/passwd", "/proc/self/environ", "/dev/stdin",
    "//etc/passwd", "./../config.yaml", "link-absolute", "link-out", "link-folder/users.json", "link-magic",
    "link-magic-relative", "link-loop", "link-dangling-out",
]  # fmt: skip
NAMES_ONLY = [
    "..\\..\\config.yaml",
    "%2e%2e/config.yaml",
    "\uff0e\uff0e/config.yaml",
    "..\u2215x",
    "~/.ssh/id",
    "a.txt\u200b",
]
UNREADABLE = ["a.txt\0.png", "a\nb", "\x1b[31m", "", "   ", "A" * 300, "x/" * 3_000]
NO_FILES = {
    "pipe": "not a regular file",
    "socket": "not a regular file",
    "folder": "is a directory",
    ".": "is a directory",
}


@pytest.fixture
def trap(target: Target) -> Target:
    """A workspace full of ways out."""
    work, state = target.workspace, target.state
    links = {
        "link-absolute": "/etc/passwd", "link-out": "../state/users.json", "link-folder": "../state",
        "link-magic": "/proc/self/environ", "link-magic-relative": "../" * 20 + "proc/self/environ",
        "link-loop": "link-loop", "link-dangling": "nowhere", "link-dangling-out": "../new",
    }  # fmt: skip
    for name, goal in links.items():
        (work / name).symlink_to(goal)
    os.link(state / "users.json", work / "hard")
    os.mkfifo(work / "pipe")
    (work / "folder").mkdir()
    here = Path.cwd()
    try:
        os.chdir(work)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
    finally:
        os.chdir(here)
    return target


@pytest.mark.promise("P-paths-inside")
def test_no_name_leads_out_for_reading_writing_or_editing(trap: Target) -> None:
    absolute = [str(trap.workspace / "../state/users.json"), f"{trap.workspace}x/a", str(trap.state / "users.json")]
    calls = [made for path in [*OUTSIDE, *absolute] for made in (read(path), write(path), edit(path, "a", "b"))]
    before = (trap.state / "users.json").read_bytes()
    for asked, error in zip(calls, trap.errors(*calls), strict=True):
        assert error.startswith("path traversal detected: "), (asked, error)
    assert (trap.state / "users.json").read_bytes() == before
    assert sorted(path.name for path in trap.folder.iterdir()) == ["config.yaml", "state", "work"]


@pytest.mark.promise("P-paths-inside")
def test_a_hard_link_to_a_file_of_the_daemon_is_still_that_file(trap: Target) -> None:
    errors = trap.errors(read("hard"), write("hard"), edit("hard", "users", "x"))
    assert errors == ["permission denied: hard"] * 3


def test_encodings_of_dots_are_plain_names(trap: Target) -> None:
    assert trap.errors(*map(read, NAMES_ONLY)) == [f"file not found: {name}" for name in NAMES_ONLY]


def test_what_no_path_can_hold_is_said_in_words(trap: Target) -> None:
    assert all(error.startswith("path ") for error in trap.errors(*map(read, UNREADABLE), *map(write, UNREADABLE)))


def test_only_regular_files_are_opened_and_nothing_waits(trap: Target) -> None:
    calls = [made for name in NO_FILES for made in (read(name), write(name), edit(name, "a", "b"))]
    expected = [words for words in NO_FILES.values() for _ in range(3)]
    for words, error in zip(expected, trap.errors(*calls), strict=True):
        assert error.startswith(words), error
    assert trap.errors(write("link-dangling"))[0].startswith("is a dangling symbolic link")


def test_legal_names_that_look_odd_work(trap: Target) -> None:
    names = ["..foo", "...", "sub//b", "./c", "a b", "caf\u00e9", "\ud83d\ude00", "-rf", "folder/../d", "A" * 255]
    assert trap.errors(*map(write, names), *map(read, names)) == [""] * 2 * len(names)


@pytest.mark.promise("P-spill-owner")
def test_kept_outputs_cannot_be_guessed_or_reached_by_name(trap: Target) -> None:
    spills = trap.state / "blobs" / "spills"
    spills.mkdir(parents=True)
    (spills / "0123456789abcdef-x").write_text("secret of somebody")
    paths = ["output:", "output:0123456789abcdef", "output:0123456789abcdef-x", "output:../../users.json", "output:*"]
    assert all(error.startswith("no such output: ") for error in trap.errors(*map(read, paths)))
