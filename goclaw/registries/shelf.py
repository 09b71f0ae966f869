"""The file of registries, `registry.db` in the state folder: what was fetched of others, and what is served here.

Every call opens the file, does one transaction and closes it: the daemon, `goclaw registry` and `goclaw registry serve`
use it side by side, none of them often. All of it blocks; call it in a thread. What a version is, is kept for ever,
also when the version itself is gone: it never comes back as something else.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from goclaw.errors import StateError
from goclaw.registries.base import Entry, EntryKind, canonical, digest, entry_of, version_order

FILE = "registry.db"
OWN = ""
"""Stands for the registry that is served here, among the names of others."""
BUSY_MS = 5_000
SCHEMA_VERSION = 1
_SCHEMA = (
    """CREATE TABLE entries (
        registry TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
        document BLOB NOT NULL, sha256 TEXT NOT NULL, published_at REAL NOT NULL, published_by TEXT NOT NULL,
        latest INTEGER NOT NULL, via TEXT NOT NULL,
        PRIMARY KEY (registry, kind, name, version)) WITHOUT ROWID""",
    """CREATE TABLE pins (
        registry TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
        sha256 TEXT NOT NULL, PRIMARY KEY (registry, kind, name, version)) WITHOUT ROWID""",
    """CREATE TABLE owners (
        kind TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID""",
    """CREATE TABLE syncs (
        registry TEXT PRIMARY KEY, synced_at REAL NOT NULL, tried_at REAL NOT NULL, etag TEXT NOT NULL,
        problem TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)


class ChangedEntry(StateError):
    """A version is there already, as something else."""


class ForeignName(StateError):
    """The name belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry as a registry lists it."""

    document: Mapping[str, Any]
    published_at: float
    """Epoch seconds; 0: not said."""
    latest: bool = False
    """The registry itself calls it the newest."""
    via: tuple[str, ...] = ()
    """The registries, by their ids, through which it came."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry that is kept."""

    registry: str
    entry: Entry
    document: Mapping[str, Any]
    sha256: str
    published_at: float
    published_by: str
    latest: bool
    via: tuple[str, ...]

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorts versions: the last is the newest."""
        return (self.latest, *version_order(self.entry.version, self.published_at))


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of taking a catalogue over."""

    entries: int
    refused: tuple[str, ...] = ()
    """Entries that were left as they were, each with the reason, for people."""


@dataclass(frozen=True, slots=True)
class Sync:
    """When a catalogue was fetched."""

    synced_at: float = 0.0
    """Epoch seconds of the last time that it went well; 0: never."""
    tried_at: float = 0.0
    etag: str = ""
    problem: str = ""
    """Why the last time did not."""


class Shelf:
    """The file at `path`; it need not exist. Every method raises `StateError` where it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def publish(self, document: Mapping[str, Any], by: str, now: float) -> bool:
        """Keep a version of this gateway's own registry; whether it is new. Nothing changes where it is there.

        Raises:
            ValueError: it is no entry.
            ChangedEntry: this version was something else.
            ForeignName: somebody else published this name first.
        """
        entry, sha256 = entry_of(document), digest(document)
        with self._opened() as connection:
            owner = connection.execute(
                "INSERT INTO owners VALUES (:kind, :name, :by) ON CONFLICT DO UPDATE SET owner = owner RETURNING owner",
                {"kind": entry.kind, "name": entry.name, "by": by},
            ).fetchone()[0]
            if owner != by:
                raise ForeignName(f"{entry.kind} {entry.name} belongs to somebody else here; choose another name")
            if not _pin(connection, OWN, entry, sha256):
                raise ChangedEntry(
                    f"{entry.kind} {entry.name} {entry.version} is published already as something else; "
                    "what is published never changes, so give it another version"
                )
            listed = Listed(document, now)
            return _insert(connection, OWN, entry, sha256, listed, by)

    def withdraw(self, kind: EntryKind, name: str, version: str, by: str) -> bool:
        """Remove a version of this gateway's own registry; whether it was there. Raises `ForeignName`."""
        with self._opened() as connection:
            found = connection.execute("SELECT owner FROM owners WHERE kind = ? AND name = ?", (kind, name)).fetchone()
            if found and found[0] != by:
                raise ForeignName(f"{kind} {name} belongs to somebody else here")
            done = connection.execute(
                "DELETE FROM entries WHERE registry = ? AND kind = ? AND name = ? AND version = ?",
                (OWN, kind, name, version),
            )
            return done.rowcount > 0

    def take(self, registry: str, listed: Sequence[Listed], now: float, etag: str = "") -> Taken:
        """Take the whole catalogue of another registry over: what is not listed any more goes.

        What is no entry, and a version that has become something else, is left out; the version as it was stays.
        """
        refused: list[str] = []
        seen: set[tuple[str, str, str]] = set()
        with self._opened() as connection:
            for each in listed:
                try:
                    entry, sha256 = entry_of(each.document), digest(each.document)
                except ValueError as error:
                    refused.append(f"{str(each.document.get('name', '?'))[:100]!r}: {error}")
                    continue
                if (key := (entry.kind, entry.name, entry.version)) in seen:
                    refused.append(f"{' '.join(key)} is listed twice")
                    continue
                seen.add(key)
                if not _pin(connection, registry, entry, sha256):
                    refused.append(f"{' '.join(key)} is not what it was; what is published should never change")
                    continue
                _insert(connection, registry, entry, sha256, each, "")
            _drop_others(connection, registry, seen)
            connection.execute(
                "INSERT OR REPLACE INTO syncs VALUES (?, ?, ?, ?, '')", (registry, now, now, "" if refused else etag)
            )
        return Taken(len(seen), tuple(refused))

    def tried(self, registry: str, now: float, problem: str = "") -> None:
        """A catalogue was asked for: nothing had changed (no problem), or it could not be had."""
        with self._opened() as connection:
            connection.execute(
                "INSERT INTO syncs VALUES (:registry, :well, :now, '', :problem) ON CONFLICT DO UPDATE SET "
                "synced_at = max(synced_at, :well), tried_at = :now, problem = :problem",
                {"registry": registry, "now": now, "well": 0.0 if problem else now, "problem": problem},
            )

    def sync(self, registry: str) -> Sync:
        """When that was."""
        with self._opened() as connection:
            found = connection.execute(
                "SELECT synced_at, tried_at, etag, problem FROM syncs WHERE registry = ?", (registry,)
            ).fetchone()
        return Sync(*found) if found else Sync()

    def entries(self, registry: str | None = None) -> list[Kept]:
        """All that is kept, of all registries or of one (`OWN`: this gateway's), by name, the newest versions first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT * FROM entries WHERE :registry IS NULL OR registry = :registry", {"registry": registry}
            ).fetchall()
        kept = sorted((_kept(row) for row in rows), key=lambda each: each.order, reverse=True)
        return sorted(kept, key=lambda each: (each.registry, each.entry.kind, each.entry.name))

    def versions(self, registry: str, kind: EntryKind, name: str) -> list[Kept]:
        """The versions of one thing, the newest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT * FROM entries WHERE registry = ? AND kind = ? AND name = ?", (registry, kind, name)
            ).fetchall()
        return sorted((_kept(row) for row in rows), key=lambda each: each.order, reverse=True)

    def fact(self, name: str, value: str) -> str:
        """What is kept under a name; `value` from now on, where nothing is."""
        with self._opened() as connection:
            found = connection.execute(
                "INSERT INTO facts VALUES (:name, :value) ON CONFLICT DO UPDATE SET value = value RETURNING value",
                {"name": name, "value": value},
            ).fetchone()
        return str(found[0])

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the file."""
        try:
            connection = sqlite3.connect(self._path, timeout=BUSY_MS / 1_000, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                self._make_ready(connection)
                connection.row_factory = sqlite3.Row
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise StateError(
                f"{self._path} cannot be used ({error}); if it is damaged, get it back with `goclaw restore`, or move "
                "it away: what was fetched is fetched anew, what was published here has to be published again"
            ) from error

    def _make_ready(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == SCHEMA_VERSION:
            return
        if found:
            raise StateError(f"{self._path} is of a newer GoClaw (schema {found}); update this one")
        self._path.chmod(0o600)
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _pin(connection: sqlite3.Connection, registry: str, entry: Entry, sha256: str) -> bool:
    """Whether the version is what it was, or new."""
    found = connection.execute(
        "INSERT INTO pins VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET sha256 = sha256 RETURNING sha256",
        (registry, entry.kind, entry.name, entry.version, sha256),
    ).fetchone()
    return bool(found[0] == sha256)


def _insert(connection: sqlite3.Connection, registry: str, entry: Entry, sha256: str, listed: Listed, by: str) -> bool:
    """Keep an entry; of one that is there, what the registry says beside its document. Whether it is new."""
    key = (registry, entry.kind, entry.name, entry.version)
    beside = (int(listed.latest), orjson.dumps(listed.via).decode())
    updated = connection.execute(
        "UPDATE entries SET latest = ?, via = ? WHERE registry = ? AND kind = ? AND name = ? AND version = ?",
        (*beside, *key),
    )
    if updated.rowcount:
        return False
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*key, canonical(listed.document), sha256, listed.published_at, by, *beside),
    )
    return True


def _drop_others(connection: sqlite3.Connection, registry: str, seen: set[tuple[str, str, str]]) -> None:
    kept = connection.execute("SELECT kind, name, version FROM entries WHERE registry = ?", (registry,)).fetchall()
    connection.executemany(
        "DELETE FROM entries WHERE registry = ? AND kind = ? AND name = ? AND version = ?",
        [(registry, *row) for row in kept if tuple(row) not in seen],
    )


def _kept(row: sqlite3.Row) -> Kept:
    document = orjson.loads(row["document"])
    return Kept(
        row["registry"],
        entry_of(document),
        document,
        row["sha256"],
        row["published_at"],
        row["published_by"],
        bool(row["latest"]),
        tuple(orjson.loads(row["via"])),
    )
