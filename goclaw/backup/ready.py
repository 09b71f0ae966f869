"""Lays what is new beside the places where it belongs, and keeps the list of moves that `swap` will make of it."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from goclaw.backup.swap import Move, aside_name, fresh_name, is_ours, leftovers
from goclaw.config.files import lies_inside
from goclaw.errors import StateError


class StagedRestore:
    """Restored files ready to be swapped in. The present state is not changed; `discard` removes them."""

    def __init__(self, now: float) -> None:
        self.moves: list[Move] = []
        self._stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        self._places: list[Path] = []
        self._laid: list[Path] = []

    def new_folder(self, place: Path) -> Path:
        """Make a private folder beside `place`, for as long as the restore takes."""
        folder = self._lay(fresh_name(place, self._stamp))
        folder.mkdir(mode=0o700)
        return folder

    def put(self, new: Path, place: Path) -> Path:
        """Put the file or folder `new` beside `place`, links of which are followed; returns where it lies.

        Raises:
            StateError: the place lies inside that of another thing, or around it.
            OSError: the disk is full, or nothing can be written there.
        """
        return self._put(new, self._taken(place))

    def put_folder(self, new: Path, place: Path) -> None:
        """Put a folder, which may be a mount point, or may lie where nothing can be renamed beside it."""
        real = self._taken(place)
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

    def kept(self) -> list[Path]:
        """Return the folders in which replaced entries lie now, under a name with `mark` in it."""
        asides = [move.aside for move in self.moves if os.path.lexists(move.aside)]
        return list(
            dict.fromkeys((aside.parent if self.mark in aside.parent.name else aside).parent for aside in asides)
        )

    @property
    def mark(self) -> str:
        """Suffix of replaced files and folders."""
        return f".before-restore-{self._stamp}"

    def discard(self) -> None:
        """Remove what was laid down and was not moved to its place."""
        for path in self._laid:
            remove(path)

    def _taken(self, place: Path) -> Path:
        real = Path(os.path.realpath(place))
        for other in self._places:
            if lies_inside(real, other) or lies_inside(other, real):
                raise StateError(f"{real} and {other} lie one inside the other; give them folders of their own")
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
            raise StateError(f"{aside} exists: there was a restore a moment ago. Try again")
        self.moves.append(Move(place, aside, fresh))

    def _lay(self, path: Path) -> Path:
        """Remember a path that is about to be made, without what an earlier restore that was killed left there."""
        before = path.name.partition(".restoring-")[0]
        for old in leftovers(path.parent):
            if old.name.startswith(f"{before}.restoring-"):
                remove(old)
        self._laid.append(path)
        return path


def remove(path: Path) -> None:
    """Remove a file or a whole folder, whatever its rights; nothing is there: fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
