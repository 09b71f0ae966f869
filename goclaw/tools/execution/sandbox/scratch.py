"""Temporary folders of commands, and of the daemon for commands: each goes with its block, or at the next start.

A folder is locked while it may be in use. The kernel releases a lock when its process ends, however it ends: a folder
that can be locked was left by a killed daemon, and is removed.
"""

import asyncio
import fcntl
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from goclaw.common.core.supervise import finish_despite_cancel
from goclaw.tools.execution.sandbox.descriptors import closing

log = logging.getLogger(__name__)

SCRATCH_PREFIX = "goclaw-exec-"


@asynccontextmanager
async def scratch_folder() -> AsyncIterator[Path]:
    """Make a new folder that only its owner can enter, for the time of the block.

    Raises:
        OSError: there is no room for one.
    """
    async with AsyncExitStack() as stack:

        async def make() -> Path:
            folder, lock = await asyncio.to_thread(_make)
            stack.enter_context(closing(lock))
            stack.push_async_callback(asyncio.to_thread, shutil.rmtree, folder, ignore_errors=True)
            return folder

        yield await finish_despite_cancel(make(), "making a temporary folder")


@contextmanager
def lock_new_folder() -> Iterator[Path]:
    """Make a folder as `scratch_folder` does, in a thread."""
    folder, lock = _make()
    with closing(lock):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove this user's folders that belong to daemons that are gone."""
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
        with suppress(OSError):  # of another user, in use, or just gone
            if folder.lstat().st_uid == os.getuid() and stat.S_ISDIR(folder.lstat().st_mode):
                with closing(_lock(folder)):
                    shutil.rmtree(folder)
                    swept += 1
    if swept:
        log.info("removed the temporary folders of a daemon that was killed: %d", swept)


def _make() -> tuple[Path, int]:
    """Return a new folder, and its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # a daemon that starts took it for one that was left
        except OSError:
            folder.rmdir()
            raise
        if folder.exists():
            return folder, lock
        os.close(lock)


def _lock(folder: Path) -> int:
    """Return a descriptor that holds the folder's lock. Raises BlockingIOError: another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
