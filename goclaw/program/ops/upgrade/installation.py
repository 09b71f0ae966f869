"""Recognition of how GoClaw was installed, and what each way of installing can do for an upgrade."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Protocol

import orjson

import goclaw
from goclaw.common.core.records import record
from goclaw.errors import StateError
from goclaw.program.ops.upgrade.changes import Source
from goclaw.program.ops.upgrade.journal import Journal

DISTRIBUTION = "goclaw"
CALL_SECONDS = 1800.0
"""Longer than an installation of all dependencies takes over a slow line."""

_OF_CONFIGURATION = re.compile(r"^GOCLAW_|^TELEGRAM_BOT_TOKEN$|_API_KEY$")
"""Variables that our configuration reads; an installer runs programs of others."""

Say = Callable[[str], None]
"""Prints one line for the person who waits."""


@record
class Release:
    """A version that can be installed."""

    version: str
    name: str
    """As the person, or git, calls it: a tag, a branch, a requirement."""
    commit: str = ""
    """In git."""


class Installation(Protocol):
    """A way of installing GoClaw."""

    @property
    def home(self) -> Path:
        """The environment that GoClaw runs from: its path stays the same over upgrades."""
        ...

    @property
    def description(self) -> str:
        """Name the way of installing and the place, for people."""
        ...

    def check(self) -> None:
        """Look whether an upgrade can work here.

        Raises:
            StateError: it cannot; the message has the remedy.
        """
        ...

    def find_release(self, ref: str) -> tuple[Release, Source]:
        """Return the newest release, or the one called `ref`, and its texts; changes nothing.

        Raises:
            StateError: no such release, or its source cannot be reached.
        """
        ...

    def fetch(self, release: Release) -> None:
        """Get what belongs to the release onto this machine, as far as `install` does not."""
        ...

    def journal(self, release: Release, old: str) -> Journal:
        """Return the journal of an upgrade to the release that has not begun."""
        ...

    def install(self, release: Release, journal: Journal) -> None:
        """Make the environment `journal.beside`, ready to take the place of `home`.

        Raises:
            StateError: it cannot be made.
        """
        ...

    def way_back(self, old: str) -> str:
        """Return the command that installs the version `old` again."""
        ...


def command(
    words: Sequence[str | Path],
    *,
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    is_ours: bool = False,
) -> str:
    """Run a program to its end and return its output.

    Args:
        words: the program and its arguments.
        folder: where it runs; not given: the current one.
        variables: more for its environment.
        is_ours: it is GoClaw, and gets the variables of its configuration, too; others get no key of a model or a bot.

    Raises:
        StateError: it cannot be run, or failed; the message has its last words.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    if not is_ours:
        environment = {name: value for name, value in environment.items() if not _OF_CONFIGURATION.search(name)}
    # Nobody is asked for a password in the middle of an upgrade: that would wait for ever.
    environment |= {"GIT_TERMINAL_PROMPT": "0", "PIP_NO_INPUT": "1", **(variables or {})}
    shown = " ".join(map(str, words))
    try:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CALL_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise StateError(f"`{shown}`: {error.filename} is missing; install it and try again") from error
    except subprocess.TimeoutExpired as error:
        raise StateError(f"`{shown}` did not finish within {CALL_SECONDS:g} s") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-5:]
        raise StateError("\n".join([f"`{shown}` failed:", *last]))
    return done.stdout


def find_metadata() -> Distribution | None:
    """Return the metadata of the installed GoClaw; None: it was not installed, only put on the path."""
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def direct_url() -> Mapping[str, Any]:
    """Return where GoClaw was installed from, if that was no index (PEP 610); empty: an index."""
    found = find_metadata()
    text = found.read_text("direct_url.json") if found else None
    try:
        known = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    return known if isinstance(known, dict) else {}


def tree() -> Path:
    """Return the folder that holds the package `goclaw`."""
    return Path(goclaw.__file__).resolve().parent.parent


def is_environment() -> bool:
    """Whether this Python is that of a virtual environment."""
    return sys.prefix != sys.base_prefix


def base_python() -> Path:
    """Return the interpreter that the environment was made with."""
    return Path(getattr(sys, "_base_executable", sys.executable))


def rewrite_paths(files: Sequence[Path], old: Path, new: Path) -> None:
    """Replace one path by another in text files; one that is binary, or a link, is left alone.

    Raises:
        OSError: a file cannot be read or written.
    """
    # Not `/a/b-c` where `/a/b` is meant.
    pattern = re.compile(re.escape(os.fsencode(old)) + rb"(?![\w.-])")
    for path in files:
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        changed = pattern.sub(lambda _: os.fsencode(new), content)
        if b"\0" not in content and changed != content:
            fresh = path.with_name(f"{path.name}.new")
            fresh.write_bytes(changed)
            fresh.chmod(path.stat().st_mode & 0o7777)
            fresh.replace(path)


def scripts_of(environment: Path) -> list[Path]:
    """Return the files of an environment that name its own path."""
    return [*(environment / "bin").iterdir(), environment / "pyvenv.cfg"]


def packages_of(environment: Path) -> Path:
    """Return the folder of an environment's packages.

    Raises:
        StateError: it has none.
    """
    found = sorted(environment.glob("lib/python3*/site-packages"))
    if not found:
        raise StateError(f"{environment}: has no lib/python3*/site-packages, so it is not a Python environment")
    return found[-1]
