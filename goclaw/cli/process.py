"""The daemon as another process: start it, find it, end it. Imports nothing that takes time."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.state import make_private, running_pid

START_SECONDS = 20.0
"""How long the daemon may take until its socket answers."""
STOP_SECONDS = 40.0
"""How long it may take to end: the grace time for turns and deliveries, generously."""
LOOK_SECONDS = 0.05


async def start_in_background(config: Config, config_path: Path | None) -> None:
    """Start a detached daemon and wait until it listens.

    Raises:
        StateError: it ended, or does not listen in time; the message has its last words.
    """
    output = config.state_dir / "logs" / "daemon.out"
    make_private(config.state_dir)
    output.parent.mkdir(exist_ok=True, mode=0o700)
    arguments = [sys.executable, "-m", "goclaw", *(["--config", str(config_path)] if config_path else []), "gateway"]
    process = _spawn(arguments, output)
    deadline = time.monotonic() + START_SECONDS
    while not listens(config):
        if process.poll() is not None or time.monotonic() > deadline:
            last = output.read_text(errors="replace").strip().splitlines()[-5:]
            raise StateError("\n".join(["the daemon did not start:", *last]))
        await asyncio.sleep(LOOK_SECONDS)


def _spawn(arguments: list[str], output: Path) -> "subprocess.Popen[bytes]":
    with output.open("wb") as file:
        return subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )


def listens(config: Config) -> bool:
    """Whether a daemon holds this state folder and its socket is there."""
    return running_pid(config) is not None and config.socket_path.exists()


async def stop(config: Config) -> int | None:
    """End the daemon and wait for it; returns its pid, or None when none ran.

    Raises:
        StateError: it did not end in time.
    """
    pid = running_pid(config)
    if pid is None:
        return None
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while running_pid(config) == pid:
        if time.monotonic() > deadline:
            raise StateError(f"the daemon (pid {pid}) did not end within {STOP_SECONDS:g} s; `kill -9 {pid}` is safe")
        await asyncio.sleep(LOOK_SECONDS)
    return pid
