"""Replacement of files and folders by new ones: all of them or none, whenever the process is killed.

New files lie ready beside their places (`<name>.restoring-<time>`); old ones move aside there
(`<name>.before-restore-<time>`) and are never deleted. A journal in the state folder decides: until it is there nothing
has changed, and once it is there the next command finishes the work (`cli.common.load` looks for it, `finish` is
repeatable). Imports little: every command pays for it.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from goclaw.files import flush, replace_file
from goclaw.records import record

JOURNAL = "restore.journal"
_OURS = re.compile(r".*\.(restoring|before-restore)-\d{8}T\d{6}Z(-wal|-shm|-journal)?")


@record
class Move:
    """One replacement: the old path goes `aside`, `fresh` comes in. Without `fresh` the place stays empty."""

    place: Path
    aside: Path
    fresh: Path | None = None


def fresh_name(path: Path, stamp: str) -> Path:
    """Return the path of the new file for `path`."""
    return path.with_name(f"{path.name}.restoring-{stamp}")


def aside_name(path: Path, stamp: str) -> Path:
    """Return the path of the old file of `path`. The log of a database keeps its ending, by which SQLite finds it."""
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
    text = json.dumps([[os.fspath(path) if path else None for path in _paths(move)] for move in moves])
    replace_file(state_dir / JOURNAL, text, reuse=True)
    flush(state_dir)
    finish(state_dir)


def finish(state_dir: Path) -> None:
    """Do what the journal says, as far as it is not done yet, and remove it. Needs the lock of the state folder."""
    moves = list(_read(state_dir / JOURNAL))
    for move in moves:
        _do(move)
    for folder in {move.place.parent for move in moves}:
        flush(folder)
    (state_dir / JOURNAL).unlink()
    flush(state_dir)


def _do(move: Move) -> None:
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


def _paths(move: Move) -> tuple[Path, Path, Path | None]:
    return move.place, move.aside, move.fresh


def _read(journal: Path) -> Iterator[Move]:
    for place, aside, fresh in json.loads(journal.read_text("utf-8")):
        yield Move(Path(place), Path(aside), Path(fresh) if fresh else None)
