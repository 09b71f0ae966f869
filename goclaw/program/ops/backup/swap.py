"""Replacement of files and folders by new ones: all of them or none, whenever the process is killed.

New files lie ready next to their places (`<name>.restoring-<time>`, laid by `StagedRestore`); old ones move aside there
(`<name>.before-restore-<time>`) and are never deleted. A journal in the state folder decides: until it exists nothing
has changed, and once it exists the next command finishes the work (`cli.options.load` looks for it, `finish` is
repeatable). Imports little: every command pays for it.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from goclaw.common.core.files import flush, lies_inside, replace_file
from goclaw.common.core.records import record
from goclaw.errors import StateError

JOURNAL = "restore.journal"
_OURS = re.compile(r".*\.(restoring|before-restore)-\d{8}T\d{6}Z(-wal|-shm|-journal)?")


@record
class Move:
    """One replacement: the old path goes `aside`, `fresh` comes in. Without `fresh` the place stays empty."""

    place: Path
    aside: Path
    fresh: Path | None = None


def stamp_of(at: float) -> str:
    """Return a time for the name of a file: `20261121T125000Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")


def fresh_name(path: Path, stamp: str) -> Path:
    """Return the path of the new file for `path`."""
    return path.with_name(f"{path.name}.restoring-{stamp}")


def aside_name(path: Path, stamp: str) -> Path:
    """Return the path of the old file of `path`. The log of a database keeps its ending, so that SQLite finds it."""
    for ending in ("-wal", "-shm", "-journal"):
        if path.name.endswith(f".db{ending}"):
            return path.with_name(f"{path.name.removesuffix(ending)}.before-restore-{stamp}{ending}")
    return path.with_name(f"{path.name}.before-restore-{stamp}")


def is_ours(name: str) -> bool:
    """Whether a file or folder is one of those that a restore makes."""
    return _OURS.fullmatch(name) is not None


def leftovers(folder: Path) -> list[Path]:
    """Return files left by a restore that was killed before its journal was written; they are not needed."""
    return [path for path in folder.iterdir() if is_ours(path.name) and ".restoring-" in path.name]


def pending(state_dir: Path) -> bool:
    """Whether a restore was cut between its decision and its end."""
    return (state_dir / JOURNAL).exists()


def swap(state_dir: Path, moves: Sequence[Move]) -> None:
    """Decide and do it. Everything `fresh` must be complete; it is brought to the disk first.

    Raises:
        OSError: before the decision, with nothing changed; or after it (a folder became read-only, say): `finish` goes
            on where this ended.
    """
    os.sync()
    text = json.dumps([[str(move.place), str(move.aside), move.fresh and str(move.fresh)] for move in moves])
    replace_file(state_dir / JOURNAL, text, reuse=True)
    flush(state_dir)
    finish(state_dir)


def finish(state_dir: Path) -> None:
    """Carry out the journal, as far as it is not done yet, and remove it. Needs the lock of the state folder."""
    written = json.loads((state_dir / JOURNAL).read_text("utf-8"))
    moves = [Move(Path(place), Path(aside), Path(fresh) if fresh else None) for place, aside, fresh in written]
    for move in moves:
        _do_move(move)
    for folder in {move.place.parent for move in moves}:
        flush(folder)
    (state_dir / JOURNAL).unlink()
    flush(state_dir)


def _do_move(move: Move) -> None:
    """Do the moves; each state that a kill can leave leads to the same end."""
    place, aside, fresh = move.place, move.aside, move.fresh
    if fresh is not None and not os.path.lexists(fresh):
        return
    if os.path.lexists(place) and not os.path.lexists(aside):
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        _set_aside(place, aside, keep=fresh is not None)
    if fresh is not None:
        fresh.replace(place)


def _set_aside(place: Path, aside: Path, *, keep: bool) -> None:
    if keep and place.is_file():
        try:
            # A second name first: so the place of a file is never empty, not even for a moment.
            aside.hardlink_to(place)
        except OSError:
            pass  # a file system without links
        else:
            return
    place.rename(aside)


class StagedRestore:
    """Restored files ready to be swapped in. The present state is not changed; `discard` removes them."""

    def __init__(self, now: float) -> None:
        self.moves: list[Move] = []
        self._stamp = stamp_of(now)
        self._places: list[Path] = []
        self._laid: list[Path] = []

    def new_folder(self, place: Path) -> Path:
        """Make a private folder next to `place`, for the time of the restore."""
        folder = self._lay(fresh_name(place, self._stamp))
        folder.mkdir(mode=0o700)
        return folder

    def put(self, new: Path, place: Path) -> Path:
        """Put the file or folder `new` next to `place`, following links; returns where it lies.

        Raises:
            StateError: the place lies inside that of another thing, or around it.
            OSError: the disk is full, or nothing can be written there.
        """
        return self._put(new, self._add_place(place))

    def put_folder(self, new: Path, place: Path) -> None:
        """Put a folder, which may be a mount point, or may lie where nothing can be renamed next to it."""
        real = self._add_place(place)
        if not real.is_dir() or (os.access(real.parent, os.W_OK) and not real.is_mount()):
            self._put(new, real)
            return
        inner, aside = self._lay(real / f".restoring-{self._stamp}"), real / f".before-restore-{self._stamp}"
        shutil.move(new, inner)
        for name in sorted({entry.name for folder in (real, inner) for entry in folder.iterdir()}):
            fresh = inner / name
            if not is_ours(name):
                self.moves.append(Move(real / name, aside / name, fresh if os.path.lexists(fresh) else None))

    def empty(self, place: Path) -> None:
        """Let the place be empty afterwards."""
        self._move(Path(os.path.realpath(place)))

    def withdraw(self, fresh: Path) -> None:
        """Let a place be as it is, although something lies ready for it."""
        self.moves = [move for move in self.moves if move.fresh != fresh]

    def list_replaced_folders(self) -> list[Path]:
        """Return the folders that hold the replaced entries now, under a name with `mark` in it."""
        asides = [move.aside for move in self.moves if os.path.lexists(move.aside)]
        return list(
            dict.fromkeys((aside.parent if self.mark in aside.parent.name else aside).parent for aside in asides)
        )

    @property
    def mark(self) -> str:
        """Suffix of replaced files and folders."""
        return f".before-restore-{self._stamp}"

    def discard(self) -> None:
        """Remove entries that were laid down and not moved to their places."""
        for path in self._laid:
            remove(path)

    def _add_place(self, place: Path) -> Path:
        real = Path(os.path.realpath(place))
        for other in self._places:
            if lies_inside(real, other) or lies_inside(other, real):
                raise StateError(f"{real} and {other} are inside one another; use separate folders")
        self._places.append(real)
        return real

    def _put(self, new: Path, place: Path) -> Path:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._lay(fresh_name(place, self._stamp))
        # Across file systems this copies; links in it stay links.
        shutil.move(new, fresh)
        self._move(place, fresh)
        return fresh

    def _move(self, place: Path, fresh: Path | None = None) -> None:
        aside = aside_name(place, self._stamp)
        if os.path.lexists(aside):
            raise StateError(f"{aside} exists: another restore ran a moment ago. Try again")
        self.moves.append(Move(place, aside, fresh))

    def _lay(self, path: Path) -> Path:
        """Remember a path that is about to be made, without leftovers there of an earlier restore that was killed."""
        before = path.name.partition(".restoring-")[0]
        for old in leftovers(path.parent):
            if old.name.startswith(f"{before}.restoring-"):
                remove(old)
        self._laid.append(path)
        return path


def remove(path: Path) -> None:
    """Remove a file or a whole folder, whatever its rights; a missing one is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
