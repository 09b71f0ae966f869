"""Which editor is opened, and what becomes of what was written in it. Editors are real programs."""

import asyncio
import os
import signal
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from goclaw.clients.tui.terminal_integration import MAX_MESSAGE, Edited, EditorError, edit, editor_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made, with nothing in it before."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def program(folder: Path, name: str, script: str = "exit 0") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"VISUAL": "one", "EDITOR": "two"}, ["one"]),
        ({"VISUAL": " ", "EDITOR": "two"}, ["two"]),
        ({"EDITOR": "one --wait 'a b'"}, ["one", "--wait", "a b"]),
        ({}, ["nano"]),
    ],
)
def test_the_editor_that_the_person_named_comes_first(
    environment: Mapping[str, str], expected: list[str], tmp_path: Path
) -> None:
    for name in ("one", "two", "nano", "vi"):
        program(tmp_path, name)

    assert editor_of({"PATH": str(tmp_path), **environment}) == expected


def test_vi_is_taken_where_there_is_no_nano(tmp_path: Path) -> None:
    program(tmp_path, "vi")
    assert editor_of({"PATH": str(tmp_path)}) == ["vi"]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"EDITOR": "nowhere"}, "EDITOR is nowhere, but there is no such program"),
        ({"VISUAL": "'open"}, "VISUAL is not a valid command: 'open"),
        ({}, "set EDITOR"),
    ],
)
def test_what_cannot_be_started_is_named(environment: Mapping[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(EditorError, match=words):
        editor_of({"PATH": str(tmp_path), **environment})


async def test_what_is_written_comes_back_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    editor = program(tmp_path, "editor", 'printf "and more\\r\\nK\\303\\244se\\n" >> "$1"; touch "$1~" "$1.swp"')

    assert await edit("begun\n", [editor]) == Edited("begun\nand more\nKäse")
    assert left_in(folder) == []


async def test_nobody_else_can_read_it_meanwhile(folder: Path, tmp_path: Path) -> None:
    editor = program(tmp_path, "editor", f'stat -c %a "$1" "$(dirname "$1")" > {tmp_path}/modes')
    old = os.umask(0)
    try:
        await edit("secret", [editor])
    finally:
        os.umask(old)
    assert (tmp_path / "modes").read_text().split() == ["600", "700"]


async def test_an_editor_that_fails_leaves_what_was_written_and_is_named(folder: Path, tmp_path: Path) -> None:
    broken = program(tmp_path, "broken", "exit 3")
    late = program(tmp_path, "late", 'echo saved > "$1"; exit 1')
    gone = program(tmp_path, "gone", 'rm "$1"')

    assert await edit("mine", [broken]) == Edited("mine", f"{broken} ended with code 3.")
    assert await edit("mine", [late]) == Edited("saved", f"{late} ended with code 1.")
    assert await edit("mine", [gone]) == Edited("mine", f"Could not run {gone}: No such file or directory.")
    assert await edit("mine", [str(tmp_path)]) == Edited("mine", f"Could not run {tmp_path}: Permission denied.")
    assert left_in(folder) == []


@pytest.mark.parametrize(
    "script", ['printf "\\377" > "$1"', f'head -c {MAX_MESSAGE + 1} /dev/zero | tr "\\0" x > "$1"']
)
async def test_what_is_no_message_is_kept_and_said_where(script: str, folder: Path, tmp_path: Path) -> None:
    edited = await edit("mine", [program(tmp_path, "editor", script)])

    (kept,) = left_in(folder)
    assert edited.text == "mine"
    assert edited.problem.endswith(f"It is saved in {kept}/message.md.")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


async def test_without_a_place_for_the_file_the_text_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    edited = await edit("mine", ["true"])

    assert edited == Edited("mine", "Could not create a file for the editor: No such file or directory.")


async def test_ctrl_c_in_the_editor_ends_the_editor_and_not_us(folder: Path, tmp_path: Path) -> None:
    """A terminal sends it to both."""
    before = signal.getsignal(signal.SIGINT)
    editor = program(tmp_path, "editor", f'kill -INT {os.getpid()}; kill -INT $$; echo "not reached" > "$1"')

    edited = await edit("mine", [editor])

    assert edited == Edited("mine", f"{editor} ended with code -2.")
    assert signal.getsignal(signal.SIGINT) is before


async def test_an_editor_that_is_not_waited_for_is_ended(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    loop = "while :; do read x < /dev/null; done"
    editor = program(tmp_path, "editor", f"cd {tmp_path}; trap 'echo > ended; exit' TERM; echo > started; {loop}")
    editing = asyncio.create_task(edit("mine", [editor]))
    await asyncio.to_thread((tmp_path / "started").read_text)
    for _ in range(20):  # until it is waited for, too
        await asyncio.sleep(0)

    editing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await editing

    assert (tmp_path / "ended").exists()
    assert left_in(folder) == []
