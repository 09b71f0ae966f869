"""Device nodes for commands of root's: bubblewrap shows the machine's, and root's user id may change their modes."""

import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from goclaw.tools.execution.sandbox.scratch import scratch_folder

_NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
"""Those of bubblewrap's `--dev`, with their numbers (Documentation/admin-guide/devices.txt)."""
_MODE = 0o666


@asynccontextmanager
async def own_devices() -> AsyncIterator[Path | None]:
    """Make the nodes, for the time of the block; None for a plain user, and where root may make none."""
    if os.geteuid() != 0:
        yield None
        return
    async with scratch_folder() as folder:
        yield folder if _make(folder) else None


def binds(folder: Path) -> Iterator[str]:
    """Yield bubblewrap's options that put the nodes of `folder` over the machine's, with the modes they should have."""
    for name in _NODES:
        node = folder / name
        node.chmod(_MODE)
        yield from ("--dev-bind", str(node), f"/dev/{name}")


def _make(folder: Path) -> bool:
    try:
        for name, numbers in _NODES.items():
            os.mknod(folder / name, _MODE | stat.S_IFCHR, os.makedev(*numbers))
        os.close(os.open(folder / "null", os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        return False  # a container without CAP_MKNOD, or a file system without devices
    return True
