"""A planted bug: a few lines of the source replaced by what somebody once shipped, and the tests that should notice."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Patch:
    """One replacement; `old` stands in the file exactly once."""

    path: str
    old: str
    new: str

    def places(self, root: Path) -> int:
        """How often `old` stands in the file as it is now."""
        path = root / self.path
        return path.read_text("utf-8").count(self.old) if path.is_file() else 0

    def apply(self, root: Path) -> None:
        """Write the bug into the copy of the tree at `root`."""
        path = root / self.path
        path.write_text(path.read_text("utf-8").replace(self.old, self.new, 1), "utf-8")


@dataclass(frozen=True, slots=True)
class Bug:
    """One mistake, perhaps in several places."""

    name: str
    origin: str
    """The advisory, or the class of attack."""
    patches: tuple[Patch, ...]
    tests: tuple[str, ...]
    """What should fail: files, or single tests, as pytest names them; the likeliest first."""


def bug(name: str, origin: str, path: str, old: str, new: str, *tests: str) -> Bug:
    """A bug in one place."""
    return Bug(name, origin, (Patch(path, old, new),), tests)
