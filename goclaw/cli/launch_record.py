"""With what a daemon was started. It writes that down, so that `goclaw restart` can start it in the same way.

No value of a secret is kept, and none of a variable: only the names of what is in no file.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from goclaw.cli.frame import Options
from goclaw.codec import Codec
from goclaw.config.environment import COMMON_VARIABLES
from goclaw.config.keys import is_secret
from goclaw.config.layers import key_kind
from goclaw.config.load import Loaded
from goclaw.config.schema import Config
from goclaw.files import replace_file
from goclaw.records import record
from goclaw.state import running_pid

log = logging.getLogger(__name__)

FILE = "daemon.json"
STATE_DIR = "GOCLAW_STATE_DIR"
KEYS = "_API_KEY"
"""The suffix of environment variables in which providers' own tools look for a key."""
CONNECTION = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"})
"""Variables, in any case, that say how the internet is reached."""


@record
class LaunchRecord:
    """The options and variables a daemon was started with."""

    pid: int
    config: Path | None
    """The configuration file that was read."""
    overrides: dict[str, str]
    """Options `--set`, but for those that hold a secret."""
    missing: tuple[str, ...]
    """Names of values the next start must be given again: variables, and keys of secrets given with `--set`."""


_STARTED: Codec[LaunchRecord] = Codec(LaunchRecord)


def started(loaded: Loaded, given: Options) -> LaunchRecord:
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
    path = config.state_dir / FILE
    try:
        replace_file(path, _STARTED.to_json(launch), fsync=False, reuse=True)
    except OSError as error:
        # Without it `goclaw restart` must be given the options again, no more.
        log.warning("%s cannot be written: %s", path, error.strerror)


def recall(config: Config) -> LaunchRecord | None:
    """Return the record of the running daemon; None when none runs, or it stored none."""
    try:
        launch = _STARTED.from_json((config.state_dir / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return launch if launch.pid == running_pid(config) else None


def secret_overrides(loaded: Loaded) -> list[str]:
    """Return the keys of secrets that were given with `--set`."""
    return sorted(
        ".".join(map(str, loc))
        for layer in loaded.layers
        for loc, place in layer.places.items()
        if place == "command line" and is_secret(key_kind(tuple(map(str, loc))))
    )


def variables(loaded: Loaded, environ: Mapping[str, str]) -> list[str]:
    """Return the environment variables that this configuration uses, but for those that name its files.

    One whose key a file or a secret sets, too, is not among them: the daemon finds that without it.
    """
    return sorted({*_settings(loaded), *_others(environ)})


def _settings(loaded: Loaded) -> Iterator[str]:
    in_files: set[object] = set()
    for layer in loaded.layers:
        for loc, place in layer.places.items():
            variable = place.removeprefix("env ")
            if variable == place:
                in_files.add(loc)
            elif loc not in in_files and variable != STATE_DIR:
                yield variable


def _others(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        if value and (name.lower() in CONNECTION or (name.endswith(KEYS) and name not in COMMON_VARIABLES)):
            yield name
