"""The daemon as another process: start it, find it, end it. Imports nothing that takes time."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from goclaw.cli.frame import Options
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.health.systemd import VARIABLES
from goclaw.state import make_private, running_pid

START_SECONDS = 20.0
"""How long the daemon may take until its socket answers."""
STOP_SECONDS = 40.0
"""How long it may take to end: the grace time for turns and deliveries, generously."""
LOOK_SECONDS = 0.05
LAST_WORDS = 5
"""Lines that are shown of a daemon that did not start."""


async def start_in_background(config: Config, given: Options) -> None:
    """Start a detached daemon with the same options and wait until one listens.

    Raises:
        StateError: it ended, or does not listen in time; the message has its last words.
    """
    output = output_path(config)
    make_private(config.state_dir, output.parent.name)
    process = _spawn([*_program(given), "gateway"], output)
    deadline = time.monotonic() + START_SECONDS
    while not listens(config):
        # Another process that was started at the same moment may have been first: then wait for its daemon.
        ended = process.poll() is not None and running_pid(config) is None
        if ended or time.monotonic() > deadline:
            last = output.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
            raise StateError("\n".join(["the daemon did not start:", *last]))
        await asyncio.sleep(LOOK_SECONDS)
    if running_pid(config) != process.pid:
        await _end_second(process)


async def _end_second(process: "subprocess.Popen[bytes]") -> None:
    # Left alone, it would take the folder as soon as the daemon that holds it is stopped.
    process.terminate()
    try:
        await asyncio.to_thread(process.wait, STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        await asyncio.to_thread(process.wait)


def _program(given: Options) -> list[str]:
    # -P: the current folder may be the agent's, and holds no module of ours.
    config = ["--config", str(given.config.absolute())] if given.config else []
    overrides = [word for name, value in given.overrides.items() for word in ("--set", f"{name}={value}")]
    return [sys.executable, "-P", "-m", "goclaw", *config, *overrides]


def _spawn(arguments: list[str], output: Path) -> "subprocess.Popen[bytes]":
    # A service manager that started our terminal expects notifications from it, not from the daemon.
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    finally:
        os.close(file)


def output_path(config: Config) -> Path:
    """Return the output file of a background daemon. Not rotated: only its first and last lines go there."""
    return config.state_dir / "logs" / "daemon.out"


def is_in_background(config: Config) -> bool:
    """Whether what this process prints goes to `output_path`."""
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), output_path(config).stat())
    except (OSError, ValueError):
        return False


def listens(config: Config) -> bool:
    """Whether a daemon holds this state folder and its socket is there."""
    return running_pid(config) is not None and config.socket_path.exists()


async def stop(config: Config) -> int | None:
    """End the daemon and wait for it; returns its pid, or None when none ran.

    Raises:
        StateError: it did not end in time.
    """
    pid = running_pid(config)
    if not pid:
        return None
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while running_pid(config) == pid:
        if time.monotonic() > deadline:
            raise StateError(f"the daemon (pid {pid}) did not end within {STOP_SECONDS:g} s; `kill -9 {pid}` is safe")
        await asyncio.sleep(LOOK_SECONDS)
    return pid
