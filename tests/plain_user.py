"""A plain user, for tests that root runs. `python -m tests.plain_user <arguments of goclaw>` is GoClaw as that user.

Where only root can reach the Python or the checkout (they lie below a home folder), that folder is covered, for this
process and its children alone, by an empty one with nothing but these two in it.
"""

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

NOBODY = 65534
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
_EVERYBODY = 0o755
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Give up root's rights and become GoClaw."""
    become()
    os.execv(sys.executable, [sys.executable, "-m", "goclaw", *sys.argv[1:]])  # noqa: S606 -- the purpose of this file


def become() -> None:
    """Give up root's rights for good.

    Raises:
        OSError: a folder is in the way, and nothing can be mounted here.
    """
    uncover([sys.base_prefix, sys.prefix, Path(__file__).parents[1]])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def refusal() -> str:
    """Why root cannot do that here; an empty text if it can."""
    tried = subprocess.run(
        [sys.executable, "-m", __spec__.name, "version"], capture_output=True, text=True, timeout=60, check=False
    )
    return tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""


def uncover(folders: Iterable[str | Path]) -> None:
    """Let every user reach these folders, in a mount namespace of this process's own.

    Raises:
        OSError: nothing can be mounted here.
    """
    places = {Path(folder).resolve() for folder in folders}
    covers = {above for place in places if (above := closed_above(place))}
    if not covers:
        return
    _made(_libc.unshare(_CLONE_NEWNS))
    _mount(None, Path("/"), None, _MS_REC | _MS_PRIVATE)
    covered = {place: os.open(place, os.O_PATH) for place in places if covers.intersection(place.parents)}
    for cover in covers:
        _mount(b"none", cover, b"tmpfs", 0)
        cover.chmod(_EVERYBODY)
    for place, descriptor in covered.items():
        place.mkdir(_EVERYBODY, parents=True, exist_ok=True)
        _mount(b"/proc/self/fd/%d" % descriptor, place, None, _MS_BIND)
        os.close(descriptor)


def closed_above(place: Path) -> Path | None:
    """Return the outermost folder on the way to a place that other users cannot enter; None where all can be."""
    on_the_way = [*reversed(place.parents), place]
    return next((folder for folder in on_the_way if not folder.stat().st_mode & stat.S_IXOTH), None)


def _mount(source: bytes | None, place: Path, kind: bytes | None, flags: int) -> None:
    _made(_libc.mount(source, os.fsencode(place), kind, flags, None))


def _made(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
