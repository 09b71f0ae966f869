"""The SQLite file of registries: opening, creation, and errors. `catalog_store` has its content.

It has a rollback journal, no write-ahead log: several short-lived processes open it for one transaction each, and a log
would lie next to it forever. SQLite gives a journal the permissions of its file (0600).
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from goclaw.common.config.state import make_private
from goclaw.errors import StateError

FILE = "registry.db"
"""The file's name in the state folder."""
BUSY_SECONDS = 5.0
SCHEMA_VERSION = 1
_SCHEMA = (
    """CREATE TABLE entries (
        registry TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
        document BLOB NOT NULL, sha256 TEXT NOT NULL, published_at REAL NOT NULL, published_by TEXT NOT NULL,
        latest INTEGER NOT NULL, via TEXT NOT NULL,
        PRIMARY KEY (registry, kind, name, version))""",
    """CREATE TABLE pins (
        registry TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
        sha256 TEXT NOT NULL, PRIMARY KEY (registry, kind, name, version)) WITHOUT ROWID""",
    """CREATE TABLE owners (
        kind TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID""",
    """CREATE TABLE syncs (
        registry TEXT PRIMARY KEY, synced_at REAL NOT NULL, etag TEXT NOT NULL, problem TEXT NOT NULL)
        WITHOUT ROWID""",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_TABLES = frozenset({"entries", "pins", "owners", "syncs", "facts"})
_creating = threading.Lock()
"""Closing any descriptor of a file ends all locks that the process has on it (fcntl(2)): while one thread makes the
file, no other opens it."""
_UNAVAILABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR)


class CatalogFile:
    """The file at `path`; it need not exist. Both methods raise `StateError` if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a transaction that may change the file. The file is made if it is missing (mode 0600)."""
        self._make()
        with _in_words(self._path), closing(self._connect()) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            if not self._is_ready(connection):
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Yield a consistent view of the file; None if it does not exist yet."""
        with _creating:
            exists = self._path.exists()
        if not exists:
            yield None
            return
        with _in_words(self._path), closing(self._connect()) as connection:
            connection.execute("BEGIN")
            yield connection if self._is_ready(connection) else None

    def _make(self) -> None:
        make_private(self._path.parent)
        with _creating:
            if self._path.exists():
                return
            try:
                self._path.touch(mode=0o600)
            except OSError as error:
                raise StateError(f"{self._path}: cannot be created: {error.strerror}") from None

    def _connect(self) -> sqlite3.Connection:
        # `rw`: reading does not recreate a file that was removed meanwhile. After a killed writer the next process
        # rolls its journal back, so that reading needs write access, too.
        address = f"{self._path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        connection.row_factory = sqlite3.Row
        return connection

    def _is_ready(self, connection: sqlite3.Connection) -> bool:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise StateError(f"a newer GoClaw wrote {self._path} (schema {found}): install that version")
        return bool(found == SCHEMA_VERSION)


def copy_catalog(source: Path, target: Path) -> bool:
    """Copy the file to the new file `target` (mode 0600), and check it; return whether there was one.

    Raises:
        StateError: it is damaged, of a newer GoClaw, or the disk is full.
    """
    with CatalogFile(source).reading() as connection:
        if connection is None:
            return False
        connection.execute("COMMIT")
        target.touch(mode=0o600, exist_ok=False)
        connection.execute("VACUUM INTO ?", (str(target),))
    check_catalog(target)
    return True


def check_catalog(path: Path) -> None:
    """Check every page of a file that is not in use.

    Raises:
        StateError: it is damaged, no file of registries, or of a newer GoClaw.
    """
    with CatalogFile(path).reading() as connection:
        if connection is None:
            raise StateError(f"{path.name} is no file of registries")
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        parts = connection.execute("SELECT type, name FROM sqlite_master WHERE type != 'index'").fetchall()
    if found != "ok":
        raise StateError(f"{path.name} is damaged: {found}")
    # Nothing else: a foreign trigger or view in it would act in every use.
    if {tuple(part) for part in parts} != {("table", name) for name in _TABLES}:
        raise StateError(f"{path.name} is no file of registries")


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(_words(path, error)) from error


def _words(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another program has locked {path} for {BUSY_SECONDS:g} s; try again"
    if code == sqlite3.SQLITE_FULL:
        return f"{path} cannot be written because its disk is full. Make room and try again; nothing was changed"
    if code in _UNAVAILABLE:
        return f"{path} cannot be used ({error}); give it to the user who runs GoClaw, on a disk that can be written"
    return (
        f"{path} cannot be used ({error}): restore it with `goclaw restore`, or move it away; then GoClaw fetches "
        "entries again, and you have to publish yours again"
    )
