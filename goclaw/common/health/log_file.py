"""The file of the log: private, rolled over by counted bytes, and going on after a disk that took nothing.

Its bytes are counted, and lines in a row are written together: a line costs the disk nothing but its bytes.
"""

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

WRITTEN_AT_ONCE = 64 << 10
"""Bytes of lines after which they are given to the kernel."""


class LogFile:
    """A file of lines, with the older ones next to it (`.1` is the youngest); for one thread at a time."""

    lost = 0
    """Lines that the disk has not taken; lowered by whoever tells of them."""

    def __init__(self, path: Path, most: int, kept: int) -> None:
        """Open the file for appending; a missing one is made.

        Args:
            path: the file.
            most: bytes of a file. A line that would exceed them begins a new one.
            kept: how many older files are kept.

        Raises:
            OSError: it cannot be opened.
        """
        self._path = path
        self._most = most
        self._kept = kept
        self._descriptor: int | None = None
        self._torn = False
        """Whether the file ends within a line, because the disk was full there."""
        self._open()

    def write(self, lines: Iterable[bytes]) -> None:
        """Append lines, each with its end. Those that the disk does not take are counted in `lost`."""
        portion = bytearray()
        for line in lines:
            if portion and (self._exceeded_by(len(portion) + len(line)) or len(portion) >= WRITTEN_AT_ONCE):
                self._append(portion)
                portion = bytearray()
            if self._size and self._exceeded_by(len(line)) and not self._rolled_over():
                continue
            portion += line
        if portion:
            self._append(portion)

    def reopen(self) -> None:
        """Reopen the log under its name, after log rotation has moved the old file away."""
        self.close()
        self._torn = False
        with suppress(OSError):  # a later line tries again, and is counted where it fails
            self._open()

    def close(self) -> None:
        """Let go of the file; a later line opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def _open(self) -> int:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        status = os.fstat(self._descriptor)
        self._size = status.st_size
        self._rolls = stat.S_ISREG(status.st_mode)  # a device has no size, and keeps its name
        return self._descriptor

    def _exceeded_by(self, size: int) -> bool:
        return self._rolls and self._size + size > self._most

    def _append(self, portion: bytearray) -> None:
        done = 0
        try:
            descriptor = self._open() if self._descriptor is None else self._descriptor
            if self._torn:
                self._size += os.write(descriptor, b"\n")
                self._torn = False
            while done < len(portion):
                done += os.write(descriptor, portion[done:])
        except OSError as error:
            self._torn = self._torn or (done > 0 and portion[done - 1] != ord("\n"))
            self._lose(portion.count(b"\n", done), error)
        self._size += done

    def _rolled_over(self) -> bool:
        """Give the file its place among the older ones; returns False, and counts a line as lost, where that fails."""
        try:
            for number in range(self._kept - 1, -1, -1):
                with suppress(FileNotFoundError):
                    self._older(number).replace(self._older(number + 1))
            self.close()
            self._open()
        except OSError as error:
            self._lose(1, error)
            return False
        return True

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _lose(self, lines: int, error: OSError) -> None:
        if not self.lost and sys.stderr:
            sys.stderr.write(f"goclaw: {self._path} cannot be written: {error}\n")
        self.lost += lines
        self.close()  # a file that failed (a server that came back, say) may take nothing any more
