"""A program in a pseudo-terminal: what it writes is drawn, what it asks is answered, and keys are typed.

    async with open_terminal(["goclaw", "tui"], environment, size=(80, 24)) as terminal:
        await terminal.until("connected")
        await terminal.type("hello\r")

The terminal is as large as the programs here need it: it places the cursor, writes, wipes. What else would change the
picture is an error, so that no picture is wrong in silence.
"""

import asyncio
import fcntl
import os
import re
import signal
import struct
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rich.cells import cell_len

PATIENCE = 30.0
END_SECONDS = 10.0
CHUNK = 1 << 16
BLANK = (" ", "")
Cell = tuple[str, str]
"""A character, and the numbers of its SGR sequence (`1;7`)."""

_PIECE = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f]+)"
    r"|\x1b\[(?P<private>[<-?]*)(?P<numbers>[0-9;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<command>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1bP(?P<device>(?:[^\x1b]|\x1b(?!\\))*)\x1b\\"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
)
SYNCHRONIZED = "2026"
"""The one mode that this terminal says it has, as most do: pictures that are shown when they are whole."""


class Screen:
    """What a terminal shows. Answers to what it is asked gather in `answers`."""

    def __init__(self, columns: int, rows: int) -> None:
        self.commands: list[str] = []
        """Operating system commands (OSC) that were written, oldest first: `52;c;…` is a copy to the clipboard."""
        self.devices: list[str] = []
        """Device control strings (DCS)."""
        self.answers: list[bytes] = []
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._style = ""
        self._columns, self._rows = columns, rows
        self._cells: list[list[Cell]] = []
        self._wipe()

    def resize(self, columns: int, rows: int) -> None:
        """Another size, and an empty picture: programs draw anew."""
        self._columns, self._rows = columns, rows
        self._wipe()

    def lines(self) -> list[str]:
        """The picture as text, a line a row, without blanks at the ends."""
        return ["".join(character for character, _ in row).rstrip() for row in self._cells]

    def style_of(self, words: str) -> str:
        """The SGR numbers under the first letter of `words`, where they stand first.

        Raises:
            LookupError: they are not there.
        """
        for row in self._cells:
            at = "".join(character or " " for character, _ in row).find(words)
            if at >= 0:
                _, style = row[at]
                return style
        raise LookupError(f"{words!r} is not on the screen")

    def feed(self, data: bytes) -> None:
        """Draw.

        Raises:
            ValueError: a sequence that this terminal does not know.
        """
        self._rest += self._decode(data)
        at = 0
        while found := _PIECE.match(self._rest, at):
            at = found.end()
            self._obey(found)
        self._rest = self._rest[at:]

    def _obey(self, found: re.Match[str]) -> None:
        match found.lastgroup:
            case "text":
                self._write(found["text"])
            case "control":
                self._control(found["control"])
            case "command":
                self.commands.append(found["command"])
            case "device":
                self.devices.append(found["device"])
            case _:
                self._sequence(found["private"], found["numbers"], found["between"] + found["final"])

    def _sequence(self, private: str, numbers: str, final: str) -> None:
        match private, final:
            case "", "m":
                self._style = "" if numbers in ("", "0") else numbers
            case "", "H":
                row, _, column = numbers.partition(";")
                self._row = min(int(row or 1), self._rows) - 1
                self._column = min(int(column or 1), self._columns) - 1
            case "?", "$p":
                self.answers.append(f"\x1b[?{numbers};{2 if numbers == SYNCHRONIZED else 0}$y".encode())
            case "?", "h" | "l":
                if numbers == "1049":
                    self._wipe()
            case "<" | ">", "u":
                pass  # another way to report keys, which this terminal does not have
            case "", "J" if numbers == "2":
                self._wipe()
            case _:
                raise ValueError(f"the terminal does not know CSI {private}{numbers}{final}")

    def _control(self, control: str) -> None:
        match control:
            case "\r":
                self._column = 0
            case "\n" if self._row == self._rows - 1:
                self._cells = [*self._cells[1:], [BLANK] * self._columns]
            case "\n":
                self._row += 1
            case "\b":
                self._column = max(0, self._column - 1)
            case "\a":
                pass
            case _:
                raise ValueError(f"the terminal does not know {control!r}")

    def _write(self, text: str) -> None:
        row = self._cells[self._row]
        for character in text:
            width = cell_len(character)
            if not width and self._column:
                before, style = row[self._column - 1]
                row[self._column - 1] = (before + character, style)
            elif self._column + width <= self._columns:
                row[self._column] = (character, self._style)
                row[self._column + 1 : self._column + width] = [("", self._style)] * (width - 1)
                self._column += width

    def _wipe(self) -> None:
        self._cells = [[BLANK] * self._columns for _ in range(self._rows)]
        self._row = self._column = 0


class Terminal:
    """A terminal with a program in it. Made by `open_terminal`."""

    def __init__(self, process: asyncio.subprocess.Process, master: int, screen: Screen, started: float) -> None:
        self._process = process
        self._master = master
        self._news = asyncio.Event()
        self._mistake: ValueError | None = None
        self.screen = screen
        self.started = started
        """When the program was started, on the machine's monotonic clock."""
        self.drawn_at = started
        """When something came last."""
        self._written = bytearray()
        self.ended = False
        asyncio.get_running_loop().add_reader(master, self._read)

    @property
    def pid(self) -> int:
        """The program's process."""
        return self._process.pid

    @property
    def written(self) -> bytes:
        """All that came, as it came."""
        return bytes(self._written)

    def text(self) -> str:
        """The picture."""
        return "\n".join(self.screen.lines())

    async def until(self, wanted: str | Callable[[str], bool], patience: float = PATIENCE) -> float:
        """Wait until a text can be read, or something is true of the picture; returns when that came.

        Raises:
            AssertionError: not in time; the message has the picture.
        """
        try:
            async with asyncio.timeout(patience):
                while not (wanted in self.text() if isinstance(wanted, str) else wanted(self.text())):
                    if self.ended:
                        raise AssertionError(f"the program ended:\n{self.text()}")
                    self._news.clear()
                    await self._news.wait()
                    if self._mistake:
                        raise self._mistake
        except TimeoutError:
            raise AssertionError(f"{wanted!r} does not come:\n{self.text()}") from None
        return self.drawn_at

    async def until_written(self, wanted: bytes) -> None:
        """Wait until these bytes have come; the picture is not looked at.

        Raises:
            AssertionError: not in time.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while wanted not in self._written:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{wanted!r} is not written:\n{self.text()}") from None

    async def rest(self, seconds: float) -> None:
        """Wait until no letter of the picture has changed for so long; a cursor may blink meanwhile.

        Raises:
            AssertionError: it never comes to rest.
        """
        text, since = self.text(), time.monotonic()
        deadline = since + PATIENCE
        while (left := since + seconds - time.monotonic()) > 0:
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                continue  # that is what is waited for
            if (now := self.text()) != text:
                text, since = now, time.monotonic()
            assert since < deadline, f"the picture never comes to rest:\n{now}"

    async def type(self, text: str) -> None:
        """Type; `\\r` is Enter, `\\x03` Ctrl+C."""
        waiting = text.encode()
        while waiting:
            try:
                waiting = waiting[os.write(self._master, waiting) :]
            except BlockingIOError:
                await self._writable()  # the program has not read what was typed before

    async def _writable(self) -> None:
        """Wait until the terminal takes more."""
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_writer(self._master, ready.set)
        try:
            async with asyncio.timeout(PATIENCE):
                await ready.wait()
        finally:
            loop.remove_writer(self._master)

    async def wait(self) -> int:
        """Wait for the program's end; returns its exit code.

        Raises:
            AssertionError: it does not end; the message has the picture.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"the program does not end:\n{self.text()}") from None

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; the program is told by the kernel (SIGWINCH)."""
        self.screen.resize(columns, rows)
        _set_size(self._master, columns, rows)

    def modes(self) -> tuple[int, int]:
        """The local modes and the input modes of the terminal (termios), as programs left them."""
        attributes = termios.tcgetattr(self._master)
        return attributes[3], attributes[0]

    async def close(self) -> None:
        """End the program, if need be by force."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)

    def _read(self) -> None:
        try:
            data = os.read(self._master, CHUNK)
        except OSError:
            data = b""  # Linux says EIO when the last program has let go of a terminal
        if not data:
            self.ended = True
            asyncio.get_running_loop().remove_reader(self._master)
        self.drawn_at = time.monotonic()
        self._written += data
        try:
            self.screen.feed(data)
        except ValueError as error:
            self._mistake = error
        for answer in self.screen.answers:
            os.write(self._master, answer)
        self.screen.answers.clear()
        self._news.set()


@asynccontextmanager
async def open_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    size: tuple[int, int] = (80, 24),
    folder: Path | None = None,
    typed: str = "",
) -> AsyncIterator[Terminal]:
    """Start a program in a terminal of its own, and end it with the block.

    Args:
        environment: all of the program's environment, but for TERM, which is `xterm-256color` unless it is in there.
        size: columns and rows.
        folder: where the program starts.
        typed: what was typed before it did.
    """
    master, slave = os.openpty()
    _set_size(master, *size)
    os.set_blocking(master, False)
    os.write(master, typed.encode())
    # A session's leader that opens a terminal gets it as its own: only then does the kernel tell it of a new size.
    shell = f'exec "$0" "$@" <>{os.ttyname(slave)} >&0 2>&0'
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", shell, *command),
        env={"TERM": "xterm-256color"} | dict(environment),
        cwd=folder,
        start_new_session=True,
        preexec_fn=interruptible,
    )
    terminal = Terminal(process, master, Screen(*size), started)
    try:
        yield terminal
    finally:
        await terminal.close()
        os.close(slave)


def interruptible() -> None:
    """Let Ctrl+C reach a child, as `preexec_fn`: a shell without job control starts test runners that ignore it."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
