"""The terminal client as a process in a terminal, and the road between it and the daemon as something to be timed."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from benchmarks.gateways import PYTHON
from benchmarks.stage import Daemon, environment_of, pss_kibibytes
from tests.terminal import Terminal, open_terminal

SIZE = (120, 40)
"""Columns and rows: a window that people work in."""
CHUNK = 1 << 16


@dataclass(frozen=True)
class Client:
    """The client's process and its terminal."""

    terminal: Terminal

    def cpu_seconds(self) -> float:
        """User and system time so far, of all its threads."""
        times = psutil.Process(self.terminal.pid).cpu_times()
        return float(times.user + times.system)

    def mebibytes(self) -> float:
        """Proportional set size."""
        return pss_kibibytes(self.terminal.pid) / 1024

    def since_start(self, moment: float) -> float:
        """Seconds from the start of the process to a moment of the monotonic clock."""
        return moment - self.terminal.started


@asynccontextmanager
async def open_client(config: Path, session: str, size: tuple[int, int] = SIZE) -> AsyncIterator[Client]:
    """Start `goclaw tui`; the block begins before anything is drawn."""
    command = [PYTHON, "-m", "goclaw", "--config", str(config), "tui", "--session", session]
    async with open_terminal(command, environment_of(config), size=size, folder=config.parent) as terminal:
        yield Client(terminal)


@dataclass
class Relay:
    """A socket in front of the daemon's own."""

    config: Path
    """For clients: the daemon's configuration, but for the state folder."""
    connected: float = 0.0
    """When a client connected last, on the machine's monotonic clock."""


@asynccontextmanager
async def open_relay(daemon: Daemon) -> AsyncIterator[Relay]:
    """Listen in a folder of its own and pass everything on: when a client attaches can then be seen from outside."""
    folder = daemon.config.parent / "relay"
    folder.mkdir(mode=0o700)
    relay = Relay(folder / "config.yaml")
    content = yaml.safe_load(daemon.config.read_text("utf-8"))
    relay.config.write_text(yaml.safe_dump(content | {"state_dir": str(folder)}), "utf-8")
    relay.config.chmod(0o600)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay.connected = time.monotonic()
        there, back = await asyncio.open_unix_connection(daemon.config.parent / "goclaw.sock")
        await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))

    async with await asyncio.start_unix_server(serve, folder / "goclaw.sock"):
        yield relay


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # one side went away; the other is told by the end of its stream
    finally:
        writer.close()
