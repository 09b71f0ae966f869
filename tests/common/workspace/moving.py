"""Moves private notes again and again, each time killed some changes of the disk later, and once more after it.

Started by `test_old_notes.py` with a folder. Prints one line for each kill: `copied` or `decided`, by where it came, or
what is wrong. A process of its own, because it forks.
"""

import os
import shutil
import sys
from pathlib import Path

from goclaw.common.workspace import move_notes
from tests.program.ops.backup.dying import MOST, die_at
from tests.program.ops.backup.support import tree

NOTES = {"ann/a.md": b"ann's", "ann/deep/b.md": b"ann's, too", "bob/a.md": b"bob's"}
SHARED = {"memory/all.md": b"everybody's"}


def laid(folder: Path) -> tuple[Path, Path]:
    """Make a workspace with private notes as earlier versions kept them; returns it and the place for the notes."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "state").mkdir(parents=True)
    for path, content in {**{f"memory/users/{name}": text for name, text in NOTES.items()}, **SHARED}.items():
        (folder / "work" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "work" / path).write_bytes(content)
    return folder / "work", folder / "state" / "notes"


def moved_until(work: Path, notes: Path, change: int) -> bool:
    """Move them in a child that dies at `change`; returns whether it came to its end."""
    child = os.fork()
    if child == 0:
        die_at(change)
        move_notes(notes, [work])
        os._exit(0)
    return not os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(folder: Path) -> None:
    os.sync = lambda: None  # against power cuts alone, and it waits for the disk of the whole machine
    for change in range(1, MOST):
        work, notes = laid(folder)
        ended, there, left = moved_until(work, notes, change), tree(notes) if notes.exists() else {}, tree(work)
        nowhere = [name for name in NOTES if name not in there and f"memory/users/{name}" not in left]
        stage = "decided" if there else "copied"
        move_notes(notes, [work])
        found = (tree(notes), tree(work), sorted(path.name for path in notes.parent.iterdir()))
        is_right = found == (NOTES, SHARED, ["notes"]) and not nowhere
        sys.stdout.write(f"{'ended' if ended else stage if is_right else f'wrong: {found} {nowhere}'}\n")
        if ended:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
