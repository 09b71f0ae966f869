"""The person's own terminal around the client: the editor, the clipboard, and the wish for no colours.

The calling program must have released the terminal for the editor. The clipboard is reached also from a distant machine
and from inside tmux. NO_COLOR is https://no-color.org.
"""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from goclaw.clients.tui.text import printable
from goclaw.common.core.records import record
from goclaw.errors import GoclawError

EDITOR_VARIABLES = ("VISUAL", "EDITOR")
COMMON_EDITORS = ("nano", "vi")
"""The editors tried if none is configured; one of them is nearly everywhere."""
MESSAGE_FILE = "message.md"
MAX_MESSAGE = 1 << 20
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
    """The command that opens an editor, without the file: `$VISUAL`, else `$EDITOR`, else one that is found.

    Raises:
        EditorError: the one that is named cannot be run, or none is named and none is found.
    """
    path = environment.get("PATH")
    for variable in EDITOR_VARIABLES:
        if named := environment.get(variable, "").strip():
            return _editor_command(variable, named, path)
    for name in COMMON_EDITORS:
        if shutil.which(name, path=path):
            return [name]
    raise EditorError(f"No editor found: set EDITOR to your editor's command, or install {COMMON_EDITORS[0]}.")


def _editor_command(variable: str, named: str, path: str | None) -> list[str]:
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise EditorError(f"{variable} is not a valid command: {named} ({error})") from error
    if not command or not shutil.which(command[0], path=path):
        raise EditorError(f"{variable} is {named}, but there is no such program.")
    return command


async def edit(text: str, command: Sequence[str]) -> Edited:
    """Let the person edit `text`; return the file's text when the editor ends, whatever its exit code."""
    try:
        file = await asyncio.to_thread(_new_file, text)
    except OSError as error:
        return Edited(text, f"Could not create a file for the editor: {error.strerror}.")
    written: str | None = text
    try:
        code = await _run_editor([*command, str(file)])
        written = await asyncio.to_thread(_load_message, file)
    except OSError as error:
        return Edited(text, f"Could not run {command[0]}: {error.strerror}.")
    finally:
        if written is not None:
            await asyncio.to_thread(shutil.rmtree, file.parent, ignore_errors=True)
    if written is None:
        return Edited(
            text, f"The text from {command[0]} is too long for a message, or not text. It is saved in {file}."
        )
    return Edited(written, f"{command[0]} ended with code {code}." if code else "")


async def _run_editor(command: Sequence[str]) -> int:
    with _ctrl_c_is_not_ours():
        process = await asyncio.create_subprocess_exec(*command)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _end_editor(process)
            raise


async def _end_editor(process: asyncio.subprocess.Process) -> None:
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

    A handler that does nothing, because a started program inherits ignored signals, but no handler.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _new_file(text: str) -> Path:
    file = Path(tempfile.mkdtemp(prefix="goclaw-")) / MESSAGE_FILE
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text.encode(errors="replace"))
    return file


def _load_message(file: Path) -> str | None:
    """Return the text without the line end that editors append to a file; None if it cannot be a message."""
    with file.open("rb") as opened:
        data = opened.read(MAX_MESSAGE + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return printable(text.replace("\r\n", "\n").removesuffix("\n")) if len(data) <= MAX_MESSAGE else None


MAX_COPY = 74_994
"""Bytes that are copied at most: in base64 they are 100,000, and terminals pass over sequences that are longer."""
TMUX_SECONDS = 2.0
_PASSED_ON = ("PATH", "TMUX", "TMUX_TMPDIR", "LANG", "LC_ALL", "LC_CTYPE")


def fits_clipboard(text: str) -> bool:
    """Whether terminals take so long a text."""
    return len(text.encode(errors="replace")) <= MAX_COPY


def in_tmux() -> bool:
    """Whether this program runs in a tmux of this machine."""
    return bool(os.environ.get("TMUX"))


async def copy_through_tmux(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Let tmux copy `text`; False when it cannot (no program, no server, older than 3.2)."""
    passed_on = {name: environment[name] for name in _PASSED_ON if name in environment}
    try:
        process = await asyncio.create_subprocess_exec(
            *("tmux", "load-buffer", "-w", "-"),
            env=passed_on,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(TMUX_SECONDS):
            await process.communicate(text.encode(errors="replace"))
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == 0


NO_COLOR_CSS = """
Screen:nocolor > .screen--selection { text-style: reverse; }
Note.-notice:nocolor { text-style: dim; }
Note.-error:nocolor { text-style: bold; border-left: heavy $error; }
Said.-waiting:nocolor { text-style: dim; border-left: solid $accent; }
ToolCard:nocolor { text-style: dim; }
ToolCard.-failed:nocolor { text-style: bold; border-left: heavy $error; }
Prompt:nocolor:focus { border: heavy $accent; }
Prompt:nocolor .text-area--placeholder { text-style: dim; }
LogView:nocolor:focus { border-left: heavy $accent; }
OptionList:nocolor > .option-list--option-highlighted { text-style: bold underline; }
#jump:nocolor { text-style: reverse; }
Toast:nocolor { border: solid $accent; padding: 0 1; }
Toast.-error:nocolor { border: heavy $error; text-style: bold; }
"""
"""A list's line is underlined: Textual 8.2 forgets `reverse` where it asks for the style of a part of a widget."""


def is_no_color_set() -> bool:
    """Whether NO_COLOR is set, and not to nothing."""
    return bool(os.environ.get("NO_COLOR"))


def drop_empty_no_color() -> None:
    """An empty NO_COLOR is no wish, but Textual would take it for one."""
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]
