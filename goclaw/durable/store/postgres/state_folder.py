"""The files of a state folder that Postgres has, too, as they are on this machine's disk. Everything here blocks.

They are the documents that `STATE_PATHS` says, the audit log, and the media of `store.blobs`; each by its path below
the folder. The audit log alone may have another name in the database: each folder has a log of its own.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path

import orjson

from goclaw.common.config.state import IN_STORE, MEDIA, SET_ASIDE, SHARED_FILES, Locality, locality_of, state_path_of
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import replace_file
from goclaw.common.health.resources import disk_error
from goclaw.durable.store.postgres.stored_files import StoredFile, is_plain, stored_file
from goclaw.errors import StateError

log = logging.getLogger(__name__)

AUDIT = "logs/audit.jsonl"
"""The newest file of the folder's audit log; older ones have a number behind it."""
_OF_MEDIA = re.compile(rf"{re.escape(MEDIA)}/([0-9a-f]{{64}})(?:\.type)?")


class StateFolder:
    """One state folder."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.chain = ""
        """The name of this folder's audit log among those that the database has."""
        self._clock = clock

    def documents(self) -> Iterator[str]:
        """Yield the names of the documents that the folder has."""
        for pattern in IN_STORE:
            for place in sorted(self.path.glob(pattern)):
                for path in sorted(place.rglob("*")) if place.is_dir() else (place,):
                    name = str(path.relative_to(self.path))
                    if path.is_file() and not path.is_symlink() and is_document(name):
                        yield name

    def document_at(self, path: Path) -> str:
        """Return the name of the document that a path below the folder stands for; empty: no document."""
        place = Path(os.path.realpath(path.parent), path.name)
        root = os.path.realpath(self.path)
        if not place.is_relative_to(root) or place.is_symlink() or place.is_dir():
            return ""
        name = str(place.relative_to(root))
        return name if is_document(name) else ""

    def audits(self) -> list[str]:
        """Return the names that the files of the audit log have in the database."""
        found = sorted(path.relative_to(self.path) for path in self.path.glob(f"{AUDIT}*") if path.is_file())
        return [str(name).replace(AUDIT, audit_of(self.chain), 1) for name in found]

    def media_keys(self) -> set[str]:
        """Return the keys of the media that are whole."""
        folder = self.path / MEDIA
        keys = (
            {key for path in folder.iterdir() if (key := key_of(f"{MEDIA}/{path.name}"))} if folder.is_dir() else set()
        )
        return {key for key in keys if all((self.path / name).exists() for name in of_media(key))}

    def hashes(self) -> dict[str, str]:
        """Return the hash of each file: documents, audit log and media."""
        media = [name for key in self.media_keys() for name in of_media(key)]
        return {name: self.read(name)[1].sha256 for name in (*self.documents(), *self.audits(), *media)}

    def is_ours(self, name: str) -> bool:
        """Whether a stored file belongs into this folder: the audit logs of others do not, nor other names."""
        own = audit_of(self.chain)
        if is_audit(name):
            return is_plain(name) and (name == own or name.startswith(f"{own}."))
        return bool(key_of(name)) or is_document(name)

    def place(self, name: str) -> Path:
        """Return where a stored file lies."""
        own = audit_of(self.chain)
        return self.path / (name.replace(own, AUDIT, 1) if is_audit(name) else name)

    def read(self, name: str) -> tuple[bytes, StoredFile]:
        """Return a file.

        Raises:
            FileNotFoundError: it has gone.
        """
        with self.place(name).open("rb") as file:
            found, data = os.fstat(file.fileno()), file.read()
        return data, stored_file(data, found.st_mode & 0o777, found.st_mtime)

    def find(self, name: str) -> tuple[bytes, StoredFile] | None:
        """Return a file; None where it does not exist, or is a folder by now, or below a file."""
        with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return self.read(name)
        return None

    def write(self, name: str, data: bytes, entry: StoredFile) -> None:
        """Put a file in its place.

        Raises:
            DiskError: it cannot be written.
        """
        path = self.place(name)
        try:
            self._make_folders(path.parent)
            if path.is_dir():
                path.rmdir()  # one that is empty; elsewhere it went with its last file
            replace_file(path, data, mode=entry.mode)
            os.utime(path, (entry.changed_at, entry.changed_at))
        except OSError as error:
            raise disk_error(error, path, "written") from error

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; there are none of that name: fine."""
        for name in names:
            with suppress(NotADirectoryError):
                self.place(name).unlink(missing_ok=True)

    def set_aside(self, name: str) -> bool:
        """Move a file out of the way of the database's; False: it cannot be moved. The log says which."""
        aside = self.path / self.aside(name)
        try:
            self._make_folders(aside.parent)
            self.place(name).rename(aside)
        except OSError as error:
            log.error("%s differs from the database, but this copy counts, because it cannot be moved: %s", name, error)
            return False
        log.error(
            "%s was edited here, but the database counts: the edit is now %s. Use `goclaw store edit %s` instead",
            name,
            aside,
            name,
        )
        return True

    def _make_folders(self, path: Path) -> None:
        """Make folders below the state folder, each for its owner alone."""
        for folder in [*reversed(path.relative_to(self.path).parents), path.relative_to(self.path)]:
            (self.path / folder).mkdir(mode=0o700, exist_ok=True)

    def aside(self, name: str) -> str:
        """Return the name under which a file is set aside now; no file has it."""
        stamp = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y%m%dT%H%M%SZ")
        places = (Path(SET_ASIDE, f"{stamp}-{number}" if number else stamp, name) for number in count())
        return str(next(place for place in places if not (self.path / place).exists()))

    def read_notes(self) -> tuple[dict[str, str], str | None]:
        """Return the hash of each document as the folder last got or sent it, and the name of its audit log.

        Raises:
            StateError: they cannot be read.
        """
        path = self.path / SHARED_FILES
        try:
            found = orjson.loads(path.read_bytes())
            files = dict[str, str](found["files"])
        except FileNotFoundError:
            return {}, None
        except (LookupError, ValueError, TypeError, OSError) as error:
            raise StateError(f"{path} cannot be read: remove it ({error})") from error
        # The notes of an older GoClaw have no name: one gateway used the database, and its log had none.
        chain = found.get("audit", "" if AUDIT in files else None)
        return {name: sha256 for name, sha256 in files.items() if is_document(name)}, chain

    def write_notes(self, documents: Mapping[str, str], chain: str | None) -> None:
        """Keep what `read_notes` returns.

        Raises:
            DiskError: they cannot be written.
        """
        path = self.path / SHARED_FILES
        try:
            # `media` is for gateways of the version before.
            replace_file(path, orjson.dumps({"files": documents, "media": [], "audit": chain}), reuse=True)
        except OSError as error:
            raise disk_error(error, path, "written") from error


def is_document(name: str) -> bool:
    """Whether a file of this name belongs into the database as a document."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False  # no text of Postgres can have it
    found = state_path_of(name) if is_plain(name) else None
    return found is not None and found.in_store and not _is_passing(name)


def is_audit(name: str) -> bool:
    """Whether a file is of an audit log."""
    return name.startswith("logs/audit") and ".jsonl" in name


def audit_of(chain: str) -> str:
    """Return the name of the newest file of an audit log in the database."""
    return f"logs/audit-{chain}.jsonl" if chain else AUDIT


def of_media(key: str) -> tuple[str, str]:
    """Return the names of the two files of media: the type first, for a key is never seen without it."""
    return f"{MEDIA}/{key}.type", f"{MEDIA}/{key}"


def key_of(name: str) -> str:
    """Return the key of the media that a file belongs to; empty: it belongs to none."""
    found = _OF_MEDIA.fullmatch(name)
    return found[1] if found else ""


def _is_passing(name: str) -> bool:
    """Whether a file is about to take the place of another one, or was set aside."""
    is_new = fnmatchcase(name, "*.json.new") or fnmatchcase(Path(name).name, ".*.tmp")
    return is_new or locality_of(name) is not Locality.SHARED
