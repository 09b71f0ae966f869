"""The files of a state folder that Postgres has, too, as they are on this machine's disk. Everything here blocks.

Which files: those that `STATE_PATHS` says, and the media of `store.blobs`; by their path below the folder. The audit
log alone may have another name in the database: each folder has a log of its own.
"""

import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path

import orjson

from goclaw.common.auth.audit_chain import Blanking, blank_files, lacking, locked
from goclaw.common.config.state import IN_STORE, MEDIA, SET_ASIDE, SHARED_FILES, Locality, locality_of, state_path_of
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import file_version, only_writer, replace_file
from goclaw.common.health.resources import disk_error
from goclaw.durable.store.postgres.state_merge import is_audit, is_mergeable
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
        self._seen: dict[str, tuple[tuple[int, ...], bool, str]] = {}
        """Versions of the files when they were last read, whether that was twice (see `FileLook`), and their hashes."""
        self._unnamed: set[str] = set()
        """Names of files that were told of because they are no text."""

    def names(self) -> Iterator[str]:
        """Yield the files that belong into the database, without media."""
        for pattern in IN_STORE:
            for place in sorted(self.path.glob(pattern)):
                for path in sorted(place.rglob("*")) if place.is_dir() else (place,):
                    name = str(path.relative_to(self.path))
                    if path.is_file() and not path.is_symlink() and not _is_passing(name) and self._is_text(name):
                        yield name.replace(AUDIT, audit_of(self.chain), 1) if name.startswith(AUDIT) else name

    def _is_text(self, name: str) -> bool:
        """Whether a name is Unicode, as the database needs it; the log names one that is not, once."""
        try:
            name.encode()
        except UnicodeEncodeError:
            if name not in self._unnamed:
                self._unnamed.add(name)
                log.error("%s is not stored in the database: its name is not UTF-8; rename it", ascii(name)[1:-1])
            return False
        return True

    def is_ours(self, name: str) -> bool:
        """Whether a stored file belongs into this folder: the audit logs of others do not, nor other names."""
        own = audit_of(self.chain)
        if is_audit(name):
            return is_plain(name) and (name == own or name.startswith(f"{own}."))
        return bool(key_of(name)) or (is_plain(name) and _is_stored(name))

    def place(self, name: str) -> Path:
        """Return where a stored file lies."""
        own = audit_of(self.chain)
        return self.path / (name.replace(own, AUDIT, 1) if is_audit(name) else name)

    def read(self, name: str) -> tuple[bytes, StoredFile]:
        """Return a file.

        Raises:
            FileNotFoundError: it has gone.
        """
        path = self.place(name)
        version = file_version(path)
        with path.open("rb") as file:
            found, data = os.fstat(file.fileno()), file.read()
        entry = stored_file(data, found.st_mode & 0o777, found.st_mtime)
        if not key_of(name):
            self._seen[name] = (version, self._seen.get(name, ((),))[0] == version, entry.sha256)
        return data, entry

    def base_of(self, name: str) -> bytes | None:
        """Return a file if versions that are made from it can be merged; None: it has gone, or they cannot."""
        with suppress(FileNotFoundError):
            return self.read(name)[0] if is_mergeable(name) else None
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

    def exchange(self, name: str, known: str | None, data: bytes | None, entry: StoredFile | None) -> bool:
        """Replace the known version of a file, or remove it. False: it holds another version by now.

        Args:
            name: the file.
            known: the hash of the version that it replaces; None where it replaces no version.
            data: its bytes; None: it is removed.
            entry: its mode and time.

        Raises:
            DiskError: it cannot be written.
        """
        path = self.place(name)
        try:
            self._make_folders(path.parent)
            # As those who change users.json, tokens and the audit log do.
            with locked(path) if is_audit(name) else only_writer(path.parent):
                if self.hash_of(name) != known:
                    return False
                if data is None or entry is None:
                    path.unlink(missing_ok=True)
                else:
                    self.write(name, data, entry)
        except OSError as error:
            raise disk_error(error, path, "written") from error
        return True

    def hash_of(self, name: str) -> str | None:
        """Return the hash of a file; None where it does not exist, or is a folder by now, or below a file."""
        try:
            return self.read(name)[1].sha256
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def blank(self, wanted: Blanking) -> None:
        """Blank the words of lines in this folder's audit log, if it has one.

        Raises:
            DiskError: it cannot be written.
        """
        path = self.path / AUDIT
        try:
            if path.parent.is_dir():
                blank_files(path, wanted)
        except OSError as error:
            raise disk_error(error, path, "written") from error

    def has_lines(self, lines: Mapping[int, str], *, dropped: bool) -> bool:
        """Whether this folder's audit log goes on from lines, in whichever of its files they are by now.

        Args:
            lines: hashes by number.
            dropped: whether it may be that all of them stood before those that are kept.

        Raises:
            DiskError: it cannot be read.
        """
        path = self.path / AUDIT
        try:
            left, lowest = lacking(path, lines) if path.parent.is_dir() else (set(lines), 0)
        except OSError as error:
            raise disk_error(error, path, "read") from error
        return all(number < lowest for number in left) and (dropped or len(left) < len(lines))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; there are none of that name: fine."""
        for name in names:
            self.place(name).unlink(missing_ok=True)

    def hashes(self) -> dict[str, str]:
        """Return the hash of each file, without media; empty where it cannot be read."""
        found = {}
        for name in self.names():
            try:
                found[name] = self.read(name)[1].sha256
            except FileNotFoundError:
                pass
            except OSError:
                found[name] = ""
        return found

    def changes(self, known: Mapping[str, str]) -> tuple[list[str], Collection[str]]:
        """Return the names of the files with a hash other than the known one, and of known ones that have gone.

        Raises:
            StateError: the folder has been emptied.
        """
        changed, found = [], set()
        for name in self.names():
            found.add(name)
            version, is_sure, sha256 = self._seen.get(name, ((), False, ""))
            try:
                if not is_sure or version != file_version(self.place(name)):
                    sha256 = self.read(name)[1].sha256
            except FileNotFoundError:
                continue
            except OSError:
                sha256 = ""  # that it cannot be read is seen where it is brought together
            if sha256 != known.get(name):
                changed.append(name)
        gone = known.keys() - found
        if gone and not (self.path / SHARED_FILES).exists():
            raise StateError(f"{self.path} was emptied or is no longer mounted: nothing is removed elsewhere")
        return changed, gone

    def media_keys(self) -> set[str]:
        """Return the keys of the media that are whole."""
        folder = self.path / MEDIA
        keys = (
            {key for path in folder.iterdir() if (key := key_of(f"{MEDIA}/{path.name}"))} if folder.is_dir() else set()
        )
        return {key for key in keys if all((self.path / name).exists() for name in of_media(key))}

    def all_hashes(self) -> dict[str, str]:
        """Return the hash of each file, with media."""
        names = (name for key in self.media_keys() for name in of_media(key))
        return self.hashes() | {name: self.read(name)[1].sha256 for name in names}

    def is_newer(self, name: str, entry: StoredFile | None) -> bool:
        """Whether the folder's file is of a later time, as after a restore of an older database."""
        path = self.place(name)
        return entry is not None and path.exists() and path.stat().st_mtime > entry.changed_at

    def set_aside(self, name: str) -> bool:
        """Move a file out of the way of the database's; False: it cannot be moved. The log says which."""
        aside = self.path / self.aside(name)
        try:
            self._make_folders(aside.parent)
            self.place(name).rename(aside)
        except OSError as error:
            log.error("%s is another one in the database, but this one counts, for it cannot be moved: %s", name, error)
            return False
        log.error("%s is another one in the database, which counts: this one is now %s", name, aside)
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

    def read_notes(self) -> tuple[dict[str, str], set[str], str | None]:
        """Return hashes of files and keys of media as of when the database had the same, and the audit log's name.

        Raises:
            StateError: they cannot be read.
        """
        path = self.path / SHARED_FILES
        try:
            found = orjson.loads(path.read_bytes())
            return dict(found["files"]), set(found["media"]), found.get("audit")
        except FileNotFoundError:
            return {}, set(), None
        except (LookupError, ValueError, TypeError, OSError) as error:
            raise StateError(f"{path} cannot be read: remove it ({error})") from error

    def write_notes(self, files: Mapping[str, str], media: Iterable[str]) -> None:
        """Keep what `read_notes` returns.

        Raises:
            DiskError: they cannot be written.
        """
        path = self.path / SHARED_FILES
        try:
            notes = {"files": files, "media": sorted(media), "audit": self.chain}
            replace_file(path, orjson.dumps(notes), reuse=True)
        except OSError as error:
            raise disk_error(error, path, "written") from error


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


def _is_stored(name: str) -> bool:
    found = state_path_of(name)
    return found is not None and found.in_store and not _is_passing(name)


def _is_passing(name: str) -> bool:
    """Whether a file is about to take the place of another one, or was set aside."""
    is_new = fnmatchcase(name, "*.json.new") or fnmatchcase(Path(name).name, ".*.tmp")
    return is_new or locality_of(name) is not Locality.SHARED
