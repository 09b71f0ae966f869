"""The shared folder, shown as `shared/` by a workspace that belongs to one person, and kept elsewhere.

For the workspace's own resolver the name alone leads there: the folder is opened as a root of its own, and what a
command puts at that name is not looked at. Commands get there by a symbolic link of that name, and may write in the
real folder as in the workspace.
"""

from contextlib import suppress
from pathlib import Path

SHARED = "shared"
"""Where a person's workspace shows the folder."""


def part_of_shared(name: str) -> str | None:
    """Return the path in the shared folder (`.`: itself) of a relative path; None: it is no path of it."""
    if name != SHARED and not name.startswith(f"{SHARED}/"):
        return None
    return name[len(SHARED) + 1 :] or "."


def link_shared(root: Path, shared: Path) -> bool:
    """Have `shared` in the workspace at `root` lead to the shared folder, for commands. Blocks.

    A link that leads elsewhere is replaced; returns False where something else has the name.

    Raises:
        OSError: the link cannot be made.
    """
    link, target = root / SHARED, shared.resolve()
    with suppress(OSError):  # nothing is there, or no link
        if link.readlink() == target:
            return True
        link.unlink()
    with suppress(FileExistsError):  # made by another process meanwhile, or in the way
        link.symlink_to(target)
    return link.is_symlink()
