"""Private notes: shown as `memory/users/<key>/` by a workspace, and kept where no command reaches.

Commands see the whole folder of a workspace, so the files of one person only lie elsewhere: in the state folder, one
folder per actor key. The path alone decides the owner, and each person's folder is opened as a root of its own: no
link, no `..` and no race leads from one into another. No tool reads files that a command puts at `memory/users` in the
workspace itself.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from goclaw.common.core.files import Writer, flush
from goclaw.common.core.records import record

USERS = "memory/users"
"""Where a workspace shows the folders of notes, each under the actor key of its person."""
ABOVE, SHOWN_AS = USERS.split("/")
"""The folder of the workspace that they are listed in, and their name there."""


def parts_of_note(name: str) -> tuple[str, str] | None:
    """Return the actor key in a relative path, and the path in that person's folder (`.`: itself); None: no notes'.

    Of `memory/users` itself the key is empty.
    """
    if name != USERS and not name.startswith(f"{USERS}/"):
        return None
    key, _, rest = name[len(USERS) + 1 :].partition("/")
    return key, rest or "."


@record
class Notes:
    """The private notes that one person sees in a workspace."""

    folder: Path | None
    """Holds one folder per actor key; None: there are no notes, and none can be made."""
    viewer: str | None = None
    """The person; None: everybody's notes are visible."""
    writer: Writer | None = None
    """Changes a note; None: the folder is all there is, and the lock of the file is enough."""

    @property
    def are_any(self) -> bool:
        """Whether there are notes to be listed. Blocks."""
        if self.folder is None:
            return False
        if self.viewer is None:
            return any(self.folder.glob("*"))
        is_name = "/" not in self.viewer and "\0" not in self.viewer and self.viewer not in ("", ".", "..")
        return is_name and (self.folder / self.viewer).is_dir()

    def shows(self, key: str) -> bool:
        """Whether the notes of this person may be seen."""
        return self.viewer in (None, key)

    def place(self, name: str) -> Path | None:
        """Return where the notes of that relative path lie on the disk; None: it is no path of notes."""
        if (parts := parts_of_note(name)) is None or self.folder is None:
            return None
        return self.folder.joinpath(*parts)

    def change(self, name: str) -> AbstractContextManager[None]:
        """Change the note of a relative path in the block; raises as `core.files.Writer`."""
        path = self.place(name)
        return self.writer(path) if self.writer and path else nullcontext()

    @contextmanager
    def open_folder(self, key: str, *, making: bool) -> Iterator[int]:
        """Open a person's folder, or that of all persons for an empty `key`; `making` makes it, unless the block fails.

        Raises:
            OSError: ENOENT if it is another person's or missing; with `making` EACCES if it is another person's.
        """
        if self.folder is None or not (self.shows(key) or not key):
            number = errno.EACCES if making else errno.ENOENT
            raise OSError(number, os.strerror(number), key)
        path = self.folder / key
        made = making and _make(path)
        folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield folder
        except BaseException:
            if made:
                with suppress(OSError):  # another process put something into it meanwhile, which stays
                    path.rmdir()
            raise
        finally:
            os.close(folder)


def _make(path: Path) -> bool:
    """Make a folder that is private; returns whether it was missing."""
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return False
    flush(path.parent)
    return True
