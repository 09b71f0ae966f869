"""The real client, a process in a terminal, before a daemon that a test speaks for."""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ
from pathlib import Path

from goclaw.clients.tui.app import DaemonPlace
from tests.clients.tui.fake_daemon import SESSION, Stage
from tests.terminal import Terminal, open_terminal

GOCLAW = (sys.executable, "-m", "goclaw")
ROOT = Path(__file__).resolve().parents[3]


def real_stage(folder: Path) -> Stage:
    """A stage whose places are those of the state folder `folder`."""
    stage = Stage(folder)
    stage.place = DaemonPlace(folder / "goclaw.sock", folder / "logs" / "goclaw.log", folder)
    return stage


def environment_of(folder: Path) -> dict[str, str]:
    """What a client in this state folder gets, and nothing of this process."""
    return {
        "PATH": environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "GOCLAW_STATE_DIR": str(folder),
        "LANG": "C.UTF-8",
    }


@asynccontextmanager
async def open_client(
    folder: Path, size: tuple[int, int] = (80, 24), typed: str = "", **variables: str
) -> AsyncIterator[Terminal]:
    """`goclaw tui` in a terminal, started after `typed`; `variables` are added to its environment."""
    command, environment = [*GOCLAW, "tui", "--session", SESSION], environment_of(folder) | variables
    async with open_terminal(command, environment, size=size, folder=folder, typed=typed) as terminal:
        yield terminal


def style_numbers(written: bytes) -> set[str]:
    """The first number of every SGR sequence, and of those that follow it: colours are 30-38, 40-48, 90-97, 100-107."""
    return {
        number for found in re.findall(rb"\x1b\[([\d;:]*)m", written) for number in re.split("[;:]", found.decode())
    }


def colours(written: bytes) -> set[str]:
    """The numbers in SGR sequences that stand for a colour other than the terminal's own (39 and 49)."""
    return {
        number
        for number in style_numbers(written) - {"", "39", "49"}
        if 30 <= int(number) < 50 or 90 <= int(number) < 108
    }
