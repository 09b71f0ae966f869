"""Writing of a message in the person's own editor. The calling program must have released the terminal."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from goclaw.errors import GoclawError
from goclaw.records import record
from goclaw.tui.text import printable

WANTED = ("VISUAL", "EDITOR")
FOUND = ("nano", "vi")
"""The editors tried if none is configured; one of them is nearly everywhere."""
NAME = "message.md"
MAX_CHARACTERS = 1 << 20
"""Bytes that are read back: the input becomes slow with more, and a file can be named instead."""

END_SECONDS = 2.0
"""Seconds an editor gets to save its files when the calling program ends."""


class EditorError(GoclawError):
    """There is no editor to start. The message says what to set."""


@record
class Edited:
    """The result of an editor run."""

    text: str
    """The original text if the editor produced none."""
    problem: str = ""
    """A sentence for the person, where something went wrong."""


def editor_of(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The command that opens an editor, without the file: `$VISUAL`, else `$EDITOR`, else what is found.

    Raises:
        EditorError: the one that is named cannot be run, or none is named and none is found.
    """
    path = environment.get("PATH")
    for variable in WANTED:
        if named := environment.get(variable, "").strip():
            return _command(variable, named, path)
    for name in FOUND:
        if shutil.which(name, path=path):
            return [name]
    raise EditorError(f"No editor was found: set EDITOR to the command of yours, or install {FOUND[0]}.")


def _command(variable: str, named: str, path: str | None) -> list[str]:
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise EditorError(f"{variable} cannot be understood as a command: {named} ({error})") from error
    if not command or not shutil.which(command[0], path=path):
        raise EditorError(f"{variable} is {named}, and there is no such program.")
    return command


async def edit(text: str, command: Sequence[str]) -> Edited:
    """Let the person edit `text`; return the file's text when the editor ends, whatever its exit code."""
    try:
        file = await asyncio.to_thread(_new_file, text)
    except OSError as error:
        return Edited(text, f"No file could be made for the editor: {error.strerror}.")
    written: str | None = text
    try:
        code = await _run([*command, str(file)])
        written = await asyncio.to_thread(_read, file)
    except OSError as error:
        return Edited(text, f"{command[0]} could not be used: {error.strerror}.")
    finally:
        if written is not None:
            await asyncio.to_thread(shutil.rmtree, file.parent, ignore_errors=True)
    if written is None:
        return Edited(text, f"What {command[0]} wrote is too long for a message, or no text. It is kept in {file}.")
    return Edited(written, f"{command[0]} ended with code {code}." if code else "")


async def _run(command: Sequence[str]) -> int:
    with _ctrl_c_is_not_ours():
        process = await asyncio.create_subprocess_exec(*command)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@contextmanager
def _ctrl_c_is_not_ours() -> Iterator[None]:
    """The terminal sends SIGINT to every program in the foreground; it is meant for the editor.

    A handler that does nothing, because a program that is started inherits what is ignored, but no handler.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _new_file(text: str) -> Path:
    file = Path(tempfile.mkdtemp(prefix="goclaw-")) / NAME
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text.encode(errors="replace"))
    return file


def _read(file: Path) -> str | None:
    """Return the text without the line end that editors append to a file; None if it cannot be a message."""
    with file.open("rb") as opened:
        data = opened.read(MAX_CHARACTERS + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return printable(text.replace("\r\n", "\n").removesuffix("\n")) if len(data) <= MAX_CHARACTERS else None
