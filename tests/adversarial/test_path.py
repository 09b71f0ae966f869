"""Classes `path` and `write`: names that lead out of the workspace, and things that are no files."""

import os
import socket
import stat
from pathlib import Path

import pytest

from tests.adversarial.target import Call, Target, edit, read, write

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
CONFUSABLE = [
    "\uff0e\uff0e/config.yaml", "..\uff0fconfig.yaml", "..\u2215config.yaml", "\u2024\u2024/config.yaml", "..\u29f8x",
    "%2e%2e/config.yaml", "..%2fconfig.yaml", "%252e%252e%252fx", "..%c0%afx", "..%00x", "&#46;&#46;/x", "~",
    "~/.ssh/id", "~root/x", "$HOME/x", "${HOME}/x", "`pwd`/x", "file:config", "file:///etc/passwd", "C:\\Windows\\x",
    "c:/Windows/x",
    "\\\\server\\share", "..\\config.yaml", ".. /config.yaml", "... /x", ".../x", " ../x", "a.txt ", "a.txt.", " a.txt",
    "a.txt::$DATA", "CON", "nul", "a.txt\u200b", "\ufeffa.txt", "a\u0338.txt", "A.TXT", "\u212a", "|id", "-",
    "a.txt;id",
]  # fmt: skip
"""Names that another program may take for something else; here they are names."""
REVERSED = ["\u202etxt.a", "a\u2066b", "a\u2028b", "a\u2029b", "a\x85b", "a\x7fb", "a\rb", "a\tb"]
LONGEST = [("n" * 255, ""), ("n" * 256, "path is too long"), ("\u00fc" * 128, "path is too long")]
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
    *others, nearly = trap.calls(*map(read, NAMES_ONLY))
    assert others == [{"error": f"file not found: {name}"} for name in NAMES_ONLY[:-1]]
    assert nearly["content"].startswith(f"[{NAMES_ONLY[-1]} does not exist; this is a.txt, the nearest name]")


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


@pytest.mark.promise("P-paths-inside")
def test_what_looks_like_a_way_out_is_a_name_in_the_workspace(trap: Target) -> None:
    for asked, answer in zip(CONFUSABLE, trap.calls(*map(read, CONFUSABLE)), strict=True):
        said = answer.get("error", answer.get("content", ""))
        nearest = f"[{asked} does not exist; this is a.txt, the nearest name]"
        assert said.startswith((f"file not found: {asked}", f"path traversal detected: {asked}", nearest)), answer
    before = _outside(trap)
    for asked, error in zip(CONFUSABLE, trap.errors(*map(write, CONFUSABLE)), strict=True):
        # One name may have become a file that another takes for a folder.
        assert not error or error.startswith(
            (f"path traversal detected: {asked}", f"file not found: {asked} (a part")
        ), asked
    assert _outside(trap) == before


def test_what_would_be_shown_as_another_name_is_refused(trap: Target) -> None:
    errors = trap.errors(*map(read, REVERSED), *map(write, REVERSED))
    assert [error.partition(":")[0] for error in errors] == ["path contains control characters"] * 2 * len(REVERSED)


def test_the_longest_names_and_paths_work_and_longer_ones_leave_nothing(trap: Target) -> None:
    deep = "/".join(["d" * 200] * 20)
    table = [
        *LONGEST,
        (f"{deep}/{'n' * (4095 - len(deep) - 1)}", ""),
        (f"new/{'n' * 256}", "path is too long"),
        ("a/" * 2_048, "path is too long"),
    ]
    errors = trap.errors(*(write(name) for name, _ in table))
    assert [
        error.startswith(expected) if expected else not error
        for error, (_, expected) in zip(errors, table, strict=True)
    ] == [True] * len(table)
    assert not (trap.workspace / "new").exists()


def test_what_has_no_end_is_answered_at_once(trap: Target) -> None:
    work = trap.workspace
    with (work / "sparse").open("wb") as file:
        file.truncate(50 << 30)
    for number in range(60):
        (work / f"chain-{number}").symlink_to(f"chain-{number + 1}")
    (work / "chain-60").write_text("end")
    for one, other in (("ping", "pong"), ("pong", "ping")):
        (work / one).symlink_to(other)
    devices = _devices(work)
    names = ["sparse", "chain-0", "ping", "pipe", "socket", *devices]
    refused = ["path traversal", "path traversal", *["not a regular file"] * (2 + len(devices))]
    expected = ["not a text file", *refused, "file too large", *refused]
    errors = trap.errors(*map(read, names), *(edit(name, "a", "b") for name in names))
    assert [error.startswith(words) for error, words in zip(errors, expected, strict=True)] == [True] * 2 * len(names)
    assert trap.errors(read("chain-30"))[0] == ""


@pytest.mark.promise("P-memory-own-notes")
def test_nobody_reaches_the_notes_of_somebody_else_by_any_tool(trap: Target) -> None:
    bob = trap.state / "notes" / "telegram:2"
    bob.mkdir(parents=True)
    (bob / "n.md").write_text("unicorn of Bob")
    (trap.state / "notes" / "telegram:1").mkdir()
    (trap.workspace / "memory").mkdir()
    (trap.workspace / "memory" / "way.md").symlink_to("users/telegram:1/../telegram:2/n.md")
    os.link(bob / "n.md", trap.workspace / "memory" / "same.md")
    folders = [
        "memory/users/telegram:2",
        "./memory/users/telegram:1/../telegram:2",
        f"{trap.workspace}/memory/users/telegram:2",
        "@memory/users/telegram:2",
    ]
    paths = [f"{folder}/n.md" for folder in folders]
    calls: list[Call] = [made for path in paths for made in (read(path), edit(path, "unicorn", "x"))]
    errors = trap.errors(*calls, arguments=("--user", "telegram:1"))
    assert [error.startswith("file not found: ") for error in errors] == [True] * len(calls), errors
    writes = trap.errors(
        *map(write, paths), *(write(f"{folder}/new.md") for folder in folders), arguments=("--user", "telegram:1")
    )
    assert [error.startswith("permission denied: ") for error in writes] == [True] * len(writes), writes
    ways = ["memory/way.md", "memory/same.md", f"{bob}/n.md"]
    assert all(trap.errors(*map(read, ways), *map(write, ways), arguments=("--user", "telegram:1")))
    found = trap.calls(
        _tool("memory_search", query="unicorn"), _tool("memory_list"), arguments=("--user", "telegram:1")
    )
    assert "Bob" not in str(found) and "telegram:2" not in str(found) and "same.md" not in str(found)
    assert [path.name for path in bob.iterdir()] == ["n.md"] and (bob / "n.md").read_text() == "unicorn of Bob"
    assert trap.errors(read(paths[0])) == [""], "the owner of the state folder may"


def _tool(name: str, **given: object) -> Call:
    return {"tool": name, "input": given}


def _outside(trap: Target) -> list[str]:
    return sorted(
        str(path)
        for path in trap.folder.rglob("*")
        if not path.is_relative_to(trap.workspace) and "state/" not in str(path)
    )


def _devices(folder: Path) -> list[str]:
    """Nodes of endless and of dangerous devices, where they can be made."""
    made = []
    for name, number in {"zero": (1, 5), "random": (1, 9), "tty": (5, 0), "console": (5, 1)}.items():
        try:
            os.mknod(folder / name, 0o600 | stat.S_IFCHR, os.makedev(*number))
        except OSError:
            continue
        made.append(name)
    return made
