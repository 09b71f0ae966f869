"""One-time move of private notes from workspaces, where earlier versions kept them, into the state folder.

All files are first copied into a sibling folder of the target; a rename commits the move; then the originals are
removed. A move killed before the rename starts over, one killed after it resumes from a journal, so no note is ever
lost. Once the target exists nothing is moved again: files that commands put at `memory/users` later are no private
notes.
"""

import itertools
import json
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import BinaryIO

from goclaw.common.core.files import flush, only_writer, replace_file
from goclaw.common.core.records import record
from goclaw.common.workspace.notes import USERS
from goclaw.common.workspace.openat2 import has_openat2, open_beneath

log = logging.getLogger(__name__)

_MOST = 10_000
"""Files of one name."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@record
class _Copied:
    """A file in a workspace, as it was copied."""

    path: str
    """Below the workspace's `memory/users`."""
    inode: int
    size: int
    changed: int
    """Nanoseconds since the epoch. A file that has changed since stays."""


def move_notes(notes: Path, workspaces: Iterable[Path]) -> None:
    """Make the folder `notes`, with the private notes of these workspaces in it if it was missing. Blocks.

    Of two files with one name, that of the earlier workspace keeps it, and the other becomes `name-2.ending`.

    Raises:
        OSError: the disk is full, for one. Nothing has changed then.
    """
    journal = notes.with_name(f"{notes.name}.journal")
    if notes.is_dir() and not journal.exists():
        return
    with only_writer(notes.parent):
        _move(notes, journal, workspaces)


def _move(notes: Path, journal: Path, workspaces: Iterable[Path]) -> None:
    if not notes.is_dir():
        fresh = notes.with_name(f"{notes.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        folders = [os.path.join(root, USERS) for root in dict.fromkeys(map(os.path.realpath, workspaces))]  # noqa: PTH118 -- text of the journal
        copied = {folder: [astuple(note) for note in _copy_all(folder, fresh)] for folder in folders}
        if any(copied.values()):
            os.sync()
            replace_file(journal, json.dumps(copied), reuse=True)
        else:
            journal.unlink(missing_ok=True)
        fresh.rename(notes)
        flush(notes.parent)
    if journal.exists():
        _remove_copies(journal, notes)


def _copy_all(folder: str, target: Path) -> Iterator[_Copied]:
    for place, _, names, descriptor in _walk(Path(folder)):
        for name in names:
            path = Path(place, name)
            try:
                source = os.open(name, _OPEN, dir_fd=descriptor)
            except OSError as error:
                log.warning("%s is left in %s, where commands can read it: %s", path, folder, error.strerror)
                continue
            with os.fdopen(source, "rb") as file:
                found = os.fstat(source)
                if stat.S_ISREG(found.st_mode):
                    _copy(file, target / path, found)
                    yield _Copied(str(path), found.st_ino, found.st_size, found.st_mtime_ns)


def _walk(folder: Path) -> Iterator[tuple[str, list[str], list[str], int]]:
    """Yield the folders below the `memory/users` of a workspace; none where a link leads out of that."""
    descriptors: list[int] = []
    try:
        top = os.open(folder.parents[1], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        descriptors.append(top)
        users = open_beneath(top, USERS, os.O_RDONLY | os.O_DIRECTORY, by_walk=not has_openat2(top))
        descriptors.append(users)
        yield from os.fwalk(".", dir_fd=users)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        log.warning("what is in %s is no private note: %s", folder, error.strerror)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _copy(source: BinaryIO, target: Path, found: os.stat_result) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = (target, *(target.with_name(f"{target.stem}-{number}{target.suffix}") for number in range(2, _MOST)))
    free = next(path for path in names if not os.path.lexists(path))
    with free.open("xb") as file:
        free.chmod(0o600)
        shutil.copyfileobj(source, file)
    os.utime(free, ns=(found.st_atime_ns, found.st_mtime_ns))


def _remove_copies(journal: Path, notes: Path) -> None:
    copied = json.loads(journal.read_text("utf-8"))
    for folder, files in copied.items():
        try:
            for file in itertools.starmap(_Copied, files):
                _remove(Path(folder, file.path), file)
            for place, _, _ in os.walk(folder, topdown=False):
                with suppress(OSError):  # what was not copied is left in it
                    Path(place).rmdir()
        except OSError as error:
            log.warning(
                "private notes were copied to %s, and cannot be removed from %s, where commands read them: %s",
                *(notes, folder, error.strerror),
            )
            return
    journal.unlink()
    log.info("%d private notes were moved from workspaces to %s", sum(map(len, copied.values())), notes)


def _remove(path: Path, copied: _Copied) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # removed before a kill
    if (found.st_ino, found.st_size, found.st_mtime_ns) == (copied.inode, copied.size, copied.changed):
        path.unlink()
    else:
        log.warning("%s has changed since it was copied: it stays, where commands read it", path)
