"""The daemon as another process: start it, find it, end it, and the record of how it was started.

A daemon writes down the way it was started, so that `goclaw restart` can start it in the same way. No value of a
secret is kept, and none of a variable: only the names of those that are in no file.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from goclaw.common.config.keys import is_secret, kind_at
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import COMMON_VARIABLES, CommandLineSource, EnvironmentSource
from goclaw.common.config.state import make_private, running_pid
from goclaw.common.core.codec import Codec
from goclaw.common.core.files import replace_file
from goclaw.common.core.records import record
from goclaw.common.health.systemd import VARIABLES
from goclaw.errors import StateError
from goclaw.program.cli.base import Options

log = logging.getLogger(__name__)


START_SECONDS = 20.0
"""How long the daemon may take until its socket answers."""
LISTEN_SECONDS = 10.0
"""How long a command waits for a daemon that is starting, before it takes the state folder to be used otherwise."""
STOP_SECONDS = 40.0
"""How long it may take to end: the grace time for turns and deliveries, generously."""
LOOK_SECONDS = 0.05
LAST_WORDS = 5
"""Lines that are shown of a daemon that did not start."""

LAUNCH_FILE = "daemon.json"
STATE_DIR_VARIABLE = "GOCLAW_STATE_DIR"
KEY_SUFFIX = "_API_KEY"
"""The suffix of environment variables in which providers' own tools look for a key."""
CONNECTION = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"})
"""Variables, in any case, that say how the internet is reached."""


async def start_in_background(config: Config, given: Options, seconds: float = START_SECONDS) -> None:
    """Start a detached daemon with the same options and wait until one listens, at most so many seconds.

    Raises:
        StateError: it ended, or does not listen in time; the message has its last words.
    """
    output = output_path(config)
    make_private(config.state_dir, output.parent.name)
    # -P: the current folder may be the agent's, and holds no module of ours.
    process = _spawn([sys.executable, "-P", "-m", "goclaw", *option_words(given), "gateway"], output)
    deadline = time.monotonic() + seconds
    while not listens(config):
        # Another process that was started at the same moment may have been first: then wait for its daemon.
        ended = process.poll() is not None and running_pid(config) is None
        if ended or time.monotonic() > deadline:
            last = output.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
            raise StateError("\n".join(["the daemon did not start:", *last]))
        await asyncio.sleep(LOOK_SECONDS)
    if running_pid(config) != process.pid:
        # Left alone, it would take the folder as soon as the daemon that holds it is stopped.
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)


def option_words(given: Options) -> list[str]:
    """Return the options before a command as words of a command line."""
    config = ["--config", str(given.config.absolute())] if given.config else []
    overrides = [word for name, value in given.overrides.items() for word in ("--set", f"{name}={value}")]
    return [*config, *overrides]


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
    """Whether the output of this process goes to `output_path`."""
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), output_path(config).stat())
    except (OSError, ValueError):
        return False


def listens(config: Config) -> bool:
    """Whether a daemon holds this state folder and its socket exists."""
    return running_pid(config) is not None and config.socket_path.exists()


async def listens_soon(config: Config) -> bool:
    """Whether a daemon answers commands; one that is starting gets `LISTEN_SECONDS`."""
    deadline = time.monotonic() + LISTEN_SECONDS
    while not listens(config):
        if running_pid(config) is None or time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


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
            raise StateError(f"the daemon (pid {pid}) did not stop within {STOP_SECONDS:g} s; `kill -9 {pid}` is safe")
        await asyncio.sleep(LOOK_SECONDS)
    return pid


@record
class LaunchRecord:
    """The options and variables a daemon was started with."""

    pid: int
    config: Path | None
    """The configuration file that was read."""
    overrides: dict[str, str]
    """Options `--set`, except those with a secret."""
    missing: tuple[str, ...]
    """Names of values the next start must be given again: variables, and keys of secrets given with `--set`."""


_LAUNCH: Codec[LaunchRecord] = Codec(LaunchRecord)


def launch_record(loaded: Loaded, given: Options) -> LaunchRecord:
    """Return the launch record of this process."""
    secrets = secret_overrides(loaded)
    overrides = {
        name: value
        for name, value in given.overrides.items()
        if not any(secret == name or secret.startswith(f"{name}.") for secret in secrets)
    }
    path = loaded.path.absolute() if loaded.path else None
    return LaunchRecord(os.getpid(), path, overrides, (*variables(loaded, os.environ), *secrets))


def remember(config: Config, launch: LaunchRecord) -> None:
    """Store the record for `recall`. The caller must hold the lock of the state folder."""
    path = config.state_dir / LAUNCH_FILE
    try:
        replace_file(path, _LAUNCH.to_json(launch), fsync=False, reuse=True)
    except OSError as error:
        # Without it `goclaw restart` must be given the options again, no more.
        log.warning("%s cannot be written: %s", path, error.strerror)


def recall(config: Config) -> LaunchRecord | None:
    """Return the record of the running daemon; None when none runs, or it stored none."""
    try:
        launch = _LAUNCH.from_json((config.state_dir / LAUNCH_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return launch if launch.pid == running_pid(config) else None


def secret_overrides(loaded: Loaded) -> list[str]:
    """Return the keys of secrets that were given with `--set`."""
    return sorted(
        ".".join(map(str, loc))
        for source in loaded.sources
        if isinstance(source, CommandLineSource)
        for loc in source.places
        if is_secret(kind_at(Config, loc))
    )


def variables(loaded: Loaded, environ: Mapping[str, str]) -> list[str]:
    """Return the environment variables that this configuration uses, but for those that name its files.

    A variable is not among them if a file or a secret sets its key, too: the daemon finds that without it.
    """
    environment = next(source for source in loaded.sources if isinstance(source, EnvironmentSource))
    below = loaded.sources[loaded.sources.index(environment) + 1 :]
    found = {
        place.partition(" ")[2]
        for loc, place in environment.places.items()
        if not any(loc in source.places for source in below)
    }
    for name, value in environ.items():
        if value and (name.lower() in CONNECTION or (name.endswith(KEY_SUFFIX) and name not in COMMON_VARIABLES)):
            found.add(name)
    return sorted(found - {STATE_DIR_VARIABLE})
