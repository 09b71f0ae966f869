"""A disk of a few megabytes that a test can fill, empty and make read-only. Needs root: a file system in memory."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHUNK = 4096


class SmallDisk:
    """A mounted file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave not a byte."""
        with self._ballast.open("ab", 0) as file:
            try:
                while True:
                    file.write(bytes(CHUNK))
            except OSError:
                pass

    def make_room(self) -> None:
        """What filled it is gone."""
        self._ballast.unlink()

    def writable(self, yes: bool) -> None:
        """Mount it so, or for reading only; no file in it may be open for writing."""
        kind = "rw" if yes else "ro"
        _run("mount", "-o", f"remount,{kind}", str(self.folder))


@contextmanager
def small_disk(folder: Path, megabytes: int = 8) -> Iterator[SmallDisk]:
    """Mount one at `folder` for as long as the block lasts."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder.mkdir()
    if _tried("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)):
        pytest.skip("nothing can be mounted here")
    try:
        yield SmallDisk(folder)
    finally:
        _run("umount", "-l", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=20)


def _tried(*command: str) -> int:
    return subprocess.run(command, check=False, timeout=20, capture_output=True).returncode
