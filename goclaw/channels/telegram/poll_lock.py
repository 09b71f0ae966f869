"""The lock that makes one process the only poller of a bot on this machine.

Telegram disconnects one of two pollers, so there is one per bot on this machine, across state folders. The lock is one
of the operating system on a file in the user's runtime folder: it ends with the process however that dies, so it is
never stale. The file's name has a hash of the bot's token and server; its content names the poller.
"""

import fcntl
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

LOCK_TRIES = 20
"""Attempts to take a lock whose file disappears meanwhile."""
MAX_LOCK_NOTE = 4_096
"""Maximum bytes read of the lock's holder."""


class BotInUse(Exception):
    """Another process polls for this bot; the message says which."""


@contextmanager
def only_poller(token: str, base_url: str, state_dir: Path) -> Iterator[None]:
    """Hold the bot's lock on this machine until the block ends.

    Where no folder can hold the lock, the block runs without: Telegram itself still reports two pollers (409).

    Raises:
        BotInUse: another process does; the message is `another GoClaw (pid 5, /home/ann/.goclaw)`.
    """
    name = _lock_name(token, base_url)
    with ExitStack() as stack:
        # All of them: not every user who starts a daemon has the same environment.
        for folder in _lock_folders():
            stack.enter_context(_acquire(folder / name, f"pid {os.getpid()}, {state_dir}"))
        yield


@contextmanager
def _acquire(path: Path, note: str) -> Iterator[None]:
    """Hold one lock; its file exists only while it is held."""
    descriptor = _open_and_lock(path)
    if descriptor is None:
        yield
        return
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, note.encode(errors="replace"), 0)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _open_and_lock(path: Path) -> int | None:
    """Open and lock the file; None if it cannot be locked for another reason than a holder."""
    for _ in range(LOCK_TRIES):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            log.debug("%s is no lock: %s", path, error.strerror)
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(path, descriptor):
                return descriptor
        except BlockingIOError:
            note = os.pread(descriptor, MAX_LOCK_NOTE, 0).decode(errors="replace")
            os.close(descriptor)
            raise BotInUse(f"another GoClaw ({note})" if note else "another GoClaw") from None
        except OSError as error:
            log.debug("%s is no lock: %s", path, error.strerror)
        os.close(descriptor)
    return None


def _is_there(path: Path, descriptor: int) -> bool:
    """Whether what we locked is still what others will find: the last holder may just have taken it away."""
    found, held = path.stat(), os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def _lock_name(token: str, base_url: str) -> str:
    """Return the lock's file name: half a hash reveals nothing of the token: its secret part has over 200 bits."""
    digest = hashlib.sha256(f"{base_url.rstrip('/')}\n{token}".encode()).hexdigest()
    return f"goclaw-telegram-{digest[:32]}.lock"


def _lock_folders() -> Iterator[Path]:
    """Yield the user's runtime folder, and one that exists without a login as well; those that are ours alone."""
    candidates = [Path(runtime)] if (runtime := os.environ.get("XDG_RUNTIME_DIR")) else []
    try:
        candidates.append(Path(tempfile.gettempdir()) / f"goclaw-{os.geteuid()}")
    except FileNotFoundError as error:  # none can be written to: a container with a root that can only be read
        log.debug("no temporary folder can hold a lock: %s", error)
    for folder in candidates:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            log.debug("%s cannot hold a lock: %s", folder, error.strerror)
            continue
        # In a folder of others they could take the lock, or lead us to another file.
        if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            yield folder
