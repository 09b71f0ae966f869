"""The state as the old version left it, kept from its end until the new version has taken over.

It keeps the things that a start may change: databases with their logs, small files, private notes, approved prompt
files. It does not keep things that only grow or are not touched before the commit: media, logs, secrets, workspaces.
Needs the lock of the state folder in both directions.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from goclaw.common.config.state import LOCK, NOTES, UPGRADE_JOURNAL, UPGRADE_UNCOMMITTED
from goclaw.common.core.files import flush
from goclaw.program.ops.backup.swap import is_ours, remove
from goclaw.program.ops.upgrade import journal

FOLDER = "upgrade-snapshot"
FOLDERS = (NOTES, "prompt-files")
_OWN = {LOCK, UPGRADE_JOURNAL, f"{UPGRADE_JOURNAL}.new", UPGRADE_UNCOMMITTED, journal.LOCK}
_LOGS = ("-wal", "-shm", "-journal")


def create(state_dir: Path) -> None:
    """Copy the state; the copy has its name when it is whole and on disk.

    Raises:
        OSError: it cannot be written.
    """
    fresh = state_dir / f"{FOLDER}.new"
    for old in (fresh, state_dir / FOLDER):
        remove(old)
    fresh.mkdir(mode=0o700)
    for path in _list_files(state_dir):
        if path.is_dir():
            shutil.copytree(path, fresh / path.name, symlinks=True)
        else:
            shutil.copy2(path, fresh / path.name)
    os.sync()
    fresh.rename(state_dir / FOLDER)
    flush(state_dir)


def put_back(state_dir: Path) -> bool:
    """Put the files of the snapshot back; files that it does not have stay, but for the logs of databases.

    May be cut anywhere and done again. Returns whether there was a snapshot.

    Raises:
        OSError: a file cannot be written.
    """
    kept = state_dir / FOLDER
    if not kept.is_dir():
        return False
    # A log belongs to the file that it was written for, so it goes before that changes.
    for path in _list_files(state_dir):
        if path.name.endswith(_LOGS) and path.is_file():
            path.unlink()
    for folder, _, names in os.walk(kept):
        place = state_dir / Path(folder).relative_to(kept)
        place.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            fresh = place / f"{name}.putting-back"
            remove(fresh)
            shutil.copy2(Path(folder, name), fresh, follow_symlinks=False)
            fresh.replace(place / name)
    os.sync()
    return True


def drop(state_dir: Path) -> None:
    """Remove the snapshot."""
    for name in (FOLDER, f"{FOLDER}.new"):
        remove(state_dir / name)


def _list_files(state_dir: Path) -> Iterator[Path]:
    for path in sorted(state_dir.iterdir()):
        if path.name in _OWN or is_ours(path.name) or ".damaged-" in path.name or path.suffix == ".bak":
            continue
        is_folder = path.is_dir() and path.name in FOLDERS
        if is_folder or (path.is_file() and not path.is_symlink()):
            yield path
