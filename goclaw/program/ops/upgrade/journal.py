"""Journal of an upgrade, in the state folder: replaced atomically, flushed, read by the next command after a kill."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from goclaw.common.config.state import UPGRADE_JOURNAL, UPGRADE_UNCOMMITTED
from goclaw.common.core.codec import Codec
from goclaw.common.core.files import flush, replace_file
from goclaw.common.core.records import record
from goclaw.errors import StateError

LOCK = "upgrade.lock"


class Phase(StrEnum):
    """The work that has to follow a killed upgrade."""

    PREPARING = "preparing"
    """Nothing has changed; the new files are removed."""
    SWITCHING = "switching"
    """Without the commit: undone. With it: finished."""
    UNDOING = "undoing"
    """Undone to the end."""
    SETTLING = "settling"
    """The new version has taken over: finished."""


@record
class Journal:
    """One upgrade. Read by the old version and by the new one: fields are only ever added, with a default."""

    phase: Phase
    old: str
    """Version that runs."""
    new: str
    """Version that is to run."""
    home: Path
    """The environment (a folder as `venv` makes it) whose place both versions take."""
    beside: Path
    """Where the new environment is made; after the exchange the old one lies there."""
    identity: tuple[int, int] = (0, 0)
    """Device and inode of the new environment: whichever path has them leads to it."""
    root: Path | None = None
    """The git checkout, of an installation that is one."""
    source: Path | None = None
    """The exported tree that the new environment imports GoClaw from, of a checkout."""
    commit: str = ""
    """The commit to check out at the end."""
    backup: Path | None = None

    @property
    def is_exchanged(self) -> bool:
        """Whether the new environment has the place."""
        return identity(self.home) == self.identity


_CODEC: Codec[Journal] = Codec(Journal)


def identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a folder, a link to it not followed; zeros where there is nothing."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def write(state_dir: Path, journal: Journal) -> None:
    """Put the journal on disk.

    Raises:
        OSError: it cannot be written; the one before it still is.
    """
    replace_file(state_dir / UPGRADE_JOURNAL, _CODEC.to_json(journal), reuse=True)
    flush(state_dir)


def read(state_dir: Path) -> Journal | None:
    """Return the journal, or None outside an upgrade.

    Raises:
        StateError: it cannot be read.
    """
    path = state_dir / UPGRADE_JOURNAL
    try:
        return _CODEC.from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StateError(
            f"{path}: cannot be read ({str(error).splitlines()[0]}); it records how far an upgrade got. Ask for help "
            "before you remove it: program and data may have different versions"
        ) from error


def remove(state_dir: Path) -> None:
    """End the upgrade: nothing is left to be done."""
    (state_dir / UPGRADE_JOURNAL).unlink(missing_ok=True)
    flush(state_dir)


def is_uncommitted(state_dir: Path) -> bool:
    """Whether the new version has not begun to work yet."""
    return (state_dir / UPGRADE_UNCOMMITTED).exists()


def mark_uncommitted(state_dir: Path) -> None:
    """Ask the next daemon to commit."""
    replace_file(state_dir / UPGRADE_UNCOMMITTED, "", reuse=True)
    flush(state_dir)


def unmark(state_dir: Path) -> None:
    """Take the marker away, of an upgrade that is undone."""
    (state_dir / UPGRADE_UNCOMMITTED).unlink(missing_ok=True)
    flush(state_dir)


@contextmanager
def only_upgrade(state_dir: Path) -> Iterator[None]:
    """One upgrade or recovery at a time; the lock ends with the process however that dies.

    Raises:
        StateError: another one is under way.
    """
    descriptor = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError("another `goclaw upgrade` is running; wait for it to end") from None
        yield
    finally:
        os.close(descriptor)
