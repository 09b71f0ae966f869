"""Keys that were typed before the client had its terminal.

Until then the kernel collects lines for a program that reads lines: it makes a line feed of Enter, which is another key
for the client (Ctrl+J: a line break in the message). What waits there when the client takes the terminal is typed
again, with Enter in its place.
"""

import os
import termios
import tty
from contextlib import suppress
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

CHUNK = 4096
END_OF_FILE = "\0"
"""The character that Linux keeps in the place of a Ctrl+D that ended a line."""


class TypeAheadDriver(LinuxDriver):
    """Textual's driver, which also reads input typed before it started."""

    _had_terminal = False

    def start_application_mode(self) -> None:
        """Take the terminal, at first with what waits in it; after an editor (`resume`) nothing is read before."""
        usual = None if self._had_terminal else self._read_ahead()
        self._had_terminal = True
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual says nothing of its type
        if usual is not None:
            self.attrs_before = usual

    def _read_ahead(self) -> list[Any] | None:
        """Read what waits; return the terminal's attributes as they were. None: it is no terminal.

        From here on the kernel leaves keys as they are, so that nothing can come in between.
        """
        try:
            usual = termios.tcgetattr(self.fileno)
            ours = [*usual[:6], [*usual[6]]]
            ours[tty.LFLAG] = self._patch_lflag(usual[tty.LFLAG])
            ours[tty.IFLAG] = self._patch_iflag(usual[tty.IFLAG])
            ours[tty.CC][termios.VMIN], ours[tty.CC][termios.VTIME] = 0, 0
            termios.tcsetattr(self.fileno, termios.TCSANOW, ours)
        except termios.error:
            return None
        typed = b""
        with suppress(OSError):  # a terminal that has gone; Textual's own reader finds that, too
            while more := os.read(self.fileno, CHUNK):
                typed += more
        text = typed.decode(errors="replace").replace(END_OF_FILE, "").replace("\n", "\r")
        for event in XTermParser().feed(text):
            self.process_message(event)
        return usual
