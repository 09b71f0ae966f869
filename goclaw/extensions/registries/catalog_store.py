"""The store of registries (`registry.db` in the state folder): entries fetched from others, and those served here.

The daemon, `goclaw registry` and `goclaw registry serve` use it side by side, none of them often: every call is one
transaction. All of it blocks; call it in a thread. The digest of a version is kept forever, also after its removal, so
that it never comes back with another content.
"""

import logging
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from goclaw.common.core.records import record
from goclaw.errors import StateError
from goclaw.extensions.registries.base import (
    MAX_BYTES,
    MAX_ENTRIES,
    SERVING,
    Entry,
    EntryKind,
    Packed,
    pack,
    unpack,
    version_order,
)
from goclaw.extensions.registries.file import FILE as FILE  # importers of the store find it here
from goclaw.extensions.registries.file import CatalogFile

log = logging.getLogger(__name__)

OWN = ""
"""Stands for the registry that is served here, among the names of others."""
MAX_PINS = 10 * MAX_ENTRIES
"""Remembered versions of one registry, removed ones included: a registry with ever new ones would fill the disk."""
_REVISION = "revision"
"""The fact that changes with the listed entries."""

Key: TypeAlias = tuple[str, str, str]
"""Kind, name and version."""


class ChangedEntry(StateError):
    """The version already exists with another content."""


class ForeignName(StateError):
    """The name belongs to another publisher."""


class CatalogFull(StateError):
    """The store is full."""


@record
class CatalogRow:
    """An entry as a registry lists it."""

    document: Mapping[str, Any]
    published_at: float
    """Epoch seconds; 0: not said."""
    latest: bool = False
    """Whether the registry itself calls it the newest."""
    via: tuple[str, ...] = ()
    """The ids of the registries through which it came."""


@record
class StoredEntry:
    """A stored entry."""

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
        """Return the sort key of versions: the last is the newest."""
        return (self.latest, *version_order(self.entry.version, self.published_at))


@record
class StoredLine:
    """A stored entry without its document."""

    registry: str
    key: Key
    sha256: str
    published_at: float
    latest: bool
    via: tuple[str, ...]
    size: int
    """Bytes of the document."""

    @property
    def order(self) -> tuple[Any, ...]:
        """Return the same key as `StoredEntry.order`."""
        return (self.latest, *version_order(self.key[2], self.published_at))


@record
class _New:
    """A version to be stored."""

    key: Key
    canonical: bytes
    sha256: str
    published_at: float
    said: tuple[int, str]
    """The data stored with the document: whether it is the newest, and the registries on its way, as JSON."""


@record
class TakenOver:
    """The result of storing a catalogue."""

    entries: int
    refused: tuple[str, ...] = ()
    """Entries left as they were, each with the reason, for people."""
    changed: tuple[str, ...] = ()
    """Refused entries whose content has changed: a person has to find out why."""


@record
class Sync:
    """The last fetch of a catalogue."""

    synced_at: float = 0.0
    """Epoch seconds of the last successful fetch; 0: never."""
    etag: str = ""
    problem: str = ""
    """Why the last fetch failed; empty: it did not."""


class CatalogStore:
    """The file at `path`; it need not exist, and reading makes none. Methods raise `StateError` if it is unusable."""

    def __init__(self, path: Path) -> None:
        self._file = CatalogFile(path)

    def publish(self, document: Mapping[str, Any], by: str, now: float) -> bool:
        """Store a version in this gateway's own registry; return whether it is new. An existing one is left unchanged.

        Raises:
            ValueError: it is not an entry.
            ChangedEntry: this version had another content.
            ForeignName: another user published this name first, of any kind and however capitalized.
            CatalogFull: other gateways would refuse a larger catalogue.
        """
        read = pack(document)
        entry, new = read.entry, _new(read, CatalogRow(document, now))
        with self._file.writing() as connection:
            others = "SELECT 1 FROM owners WHERE name = ? COLLATE NOCASE AND owner != ?"
            if connection.execute(others, (entry.name, by)).fetchone():
                raise ForeignName(f"{entry.kind} {entry.name} belongs to another publisher here; choose another name")
            connection.execute("INSERT OR IGNORE INTO owners VALUES (?, ?, ?)", (entry.kind, entry.name, by))
            known = _pins(connection, OWN, entry.name)
            if known.get(new.key, new.sha256) != new.sha256 or _rivals(new.key) & known.keys():
                raise ChangedEntry(
                    f"{entry.kind} {entry.name} {entry.version} is already published with other content; published "
                    "versions never change, so use a new version"
                )
            if new.key in _beside(connection, OWN, entry.name):
                return False
            _refuse_full(connection, new)
            _insert(connection, OWN, [new], by)
            return True

    def withdraw(self, kind: EntryKind, name: str, version: str, by: str | None) -> bool:
        """Remove a version from this gateway's own registry; return whether it existed.

        `by` None: the operator of the registry, who may remove every name. Raises `ForeignName` for others.
        """
        with self._file.writing() as connection:
            found = connection.execute("SELECT owner FROM owners WHERE kind = ? AND name = ?", (kind, name)).fetchone()
            if found and by is not None and found[0] != by:
                raise ForeignName(f"{kind} {name} belongs to another publisher here")
            return _delete(connection, OWN, [(kind, name, version)])

    def replace_catalog(self, registry: str, listed: Iterable[CatalogRow], now: float, etag: str = "") -> TakenOver:
        """Store the whole catalogue of another registry: entries that are no longer listed are removed.

        Invalid entries, and versions with changed content, are left out; the stored version stays.
        """
        refused: list[str] = []
        changed: list[str] = []
        # Before the file is locked: parsing a large catalogue takes seconds.
        read = {new.key: new for new in _read(listed, refused)}
        with self._file.writing() as connection:
            pins, beside = _pins(connection, registry), _beside(connection, registry)
            fresh: list[_New] = []
            for key, new in read.items():
                if (pinned := pins.get(key)) is None and len(pins) >= MAX_PINS:
                    refused.append(f"{' '.join(key)}: this registry has had {MAX_PINS:,} versions, and no more fit")
                elif pinned not in (None, new.sha256):
                    changed.append(f"{' '.join(key)} is not what it was; what is published should never change")
                elif pinned is None and (rivals := _rivals(key) & pins.keys()):
                    other = min(rivals)[0]
                    changed.append(f"{' '.join(key)} is there as {other} already; one version should be one thing")
                elif key not in beside:
                    pins[key] = new.sha256
                    fresh.append(new)
                elif beside[key] != new.said:
                    _update(connection, registry, new)
            _insert(connection, registry, fresh, "")
            _delete(connection, registry, [key for key in beside if key not in read])
            connection.execute(
                "INSERT OR REPLACE INTO syncs VALUES (?, ?, ?, '')", (registry, now, "" if refused or changed else etag)
            )
        return TakenOver(len(read), (*refused, *changed), tuple(changed))

    def record_try(self, registry: str, now: float, problem: str = "") -> None:
        """Record a fetch without a new catalogue: unchanged (no problem), or failed."""
        with self._file.writing() as connection:
            connection.execute(
                "INSERT INTO syncs VALUES (:registry, :well, '', :problem) ON CONFLICT DO UPDATE SET "
                "synced_at = max(synced_at, :well), problem = :problem",
                {"registry": registry, "well": 0.0 if problem else now, "problem": problem},
            )

    def sync(self, registry: str) -> Sync:
        """Return the last fetch of a registry."""
        rows = self._rows("SELECT synced_at, etag, problem FROM syncs WHERE registry = ?", registry)
        return Sync(*rows[0]) if rows else Sync()

    def entries(self, registry: str | None = None) -> list[StoredEntry]:
        """Return the entries of all registries or of one (`OWN`: this gateway's), by name, newest versions first."""
        rows = self._rows("SELECT * FROM entries WHERE ? IS NULL OR registry = ?", registry, registry)
        kept = sorted(_parse_rows(rows), key=lambda each: each.order, reverse=True)
        return sorted(kept, key=lambda each: (each.registry, each.entry.kind, each.entry.name))

    def versions(self, registry: str, kind: EntryKind, name: str) -> list[StoredEntry]:
        """Return the versions of one item, the newest first."""
        rows = self._rows("SELECT * FROM entries WHERE registry = ? AND kind = ? AND name = ?", registry, kind, name)
        return sorted(_parse_rows(rows), key=lambda each: each.order, reverse=True)

    def lines(self, registry: str) -> list[StoredLine]:
        """Return the entries of one registry, without their documents, unordered."""
        columns = "kind, name, version, sha256, published_at, latest, via, length(document) AS size"
        rows = self._rows(f"SELECT {columns} FROM entries WHERE registry = ?", registry)  # noqa: S608 - columns of ours
        return [
            StoredLine(registry, (row[0], row[1], row[2]), row[3], row[4], bool(row[5]), _via(row[6]), row[7])
            for row in rows
        ]

    def documents(self, lines: Iterable[StoredLine]) -> list[bytes | None]:
        """Return the documents of these, in their canonical form; None for a removed one."""
        with self._file.reading() as connection:
            return [_document(connection, line) if connection else None for line in lines]

    def list_own(self) -> set[tuple[str, str]]:
        """Return kind and name of every entry ever published in this gateway's own registry."""
        return {(row[0], row[1]) for row in self._rows("SELECT kind, name FROM owners")}

    def revision(self) -> str:
        """Return a value that changes whenever the listed entries change."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", _REVISION)
        return str(rows[0][0]) if rows else ""

    def fact(self, name: str, value: str) -> str:
        """Return the value stored under a name; store and return `value` if missing."""
        with self._file.writing() as connection:
            found = connection.execute(
                "INSERT INTO facts VALUES (:name, :value) ON CONFLICT DO UPDATE SET value = value RETURNING value",
                {"name": name, "value": value},
            ).fetchone()
        return str(found[0])

    def _rows(self, sql: str, *values: str | None) -> list[sqlite3.Row]:
        with self._file.reading() as connection:
            return connection.execute(sql, values).fetchall() if connection else []


def _new(read: Packed, listed: CatalogRow) -> _New:
    key = (read.entry.kind.value, read.entry.name, read.entry.version)
    said = (int(listed.latest), orjson.dumps(listed.via).decode())
    return _New(key, read.canonical, read.sha256, listed.published_at, said)


def _read(listed: Iterable[CatalogRow], refused: list[str]) -> Iterator[_New]:
    """Yield the valid entries; add the others to `refused`."""
    seen: set[Key] = set()
    for each in listed:
        try:
            new = _new(pack(each.document), each)
        except ValueError as error:
            refused.append(f"{str(each.document.get('name', '?'))[:100]!r}: {error}")
            continue
        if new.key in seen:
            refused.append(f"{' '.join(new.key)} is listed twice")
            continue
        seen.add(new.key)
        yield new


def _pins(connection: sqlite3.Connection, registry: str, name: str | None = None) -> dict[Key, str]:
    """Return the digests of a registry's versions, removed ones included."""
    rows = connection.execute(
        "SELECT kind, name, version, sha256 FROM pins WHERE registry = ? AND (? IS NULL OR name = ?)",
        (registry, name, name),
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def _rivals(key: Key) -> set[Key]:
    """Return the same version of the same name in the other kinds, which could be used in its place."""
    kind, name, version = key
    return {(other.value, name, version) for other in SERVING if other != kind} if kind in SERVING else set()


def _beside(connection: sqlite3.Connection, registry: str, name: str | None = None) -> dict[Key, tuple[int, str]]:
    """Return the stored versions of a registry, with the data that accompany each document."""
    rows = connection.execute(
        "SELECT kind, name, version, latest, via FROM entries WHERE registry = ? AND (? IS NULL OR name = ?)",
        (registry, name, name),
    )
    return {(row[0], row[1], row[2]): (row[3], row[4]) for row in rows}


def _insert(connection: sqlite3.Connection, registry: str, new: Sequence[_New], by: str) -> None:
    if not new:
        return
    connection.executemany(
        "INSERT OR IGNORE INTO pins VALUES (?, ?, ?, ?, ?)", [(registry, *each.key, each.sha256) for each in new]
    )
    connection.executemany(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(registry, *each.key, each.canonical, each.sha256, each.published_at, by, *each.said) for each in new],
    )
    _renew(connection)


def _update(connection: sqlite3.Connection, registry: str, new: _New) -> None:
    connection.execute(
        "UPDATE entries SET latest = ?, via = ? WHERE registry = ? AND kind = ? AND name = ? AND version = ?",
        (*new.said, registry, *new.key),
    )
    _renew(connection)


def _delete(connection: sqlite3.Connection, registry: str, keys: Sequence[Key]) -> bool:
    """Delete entries; return whether any existed."""
    if not keys:
        return False
    done = connection.executemany(
        "DELETE FROM entries WHERE registry = ? AND kind = ? AND name = ? AND version = ?",
        [(registry, *key) for key in keys],
    )
    if done.rowcount > 0:
        _renew(connection)
    return done.rowcount > 0


def _renew(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (_REVISION, secrets.token_hex(8)))


def _refuse_full(connection: sqlite3.Connection, new: _New) -> None:
    number, size = connection.execute(
        "SELECT count(*), coalesce(sum(length(document)), 0) FROM entries WHERE registry = ?", (OWN,)
    ).fetchone()
    pins = connection.execute("SELECT count(*) FROM pins WHERE registry = ?", (OWN,)).fetchone()[0]
    if number >= MAX_ENTRIES or size + len(new.canonical) > MAX_BYTES or pins >= MAX_PINS:
        raise CatalogFull(
            f"this registry has {number:,} versions of {size >> 20} MB together, and no more fit "
            f"({MAX_ENTRIES:,}, {MAX_BYTES >> 20} MB): withdraw old ones"
        )


def _document(connection: sqlite3.Connection, line: StoredLine) -> bytes | None:
    row = connection.execute(
        "SELECT document FROM entries WHERE registry = ? AND kind = ? AND name = ? AND version = ? AND sha256 = ?",
        (line.registry, *line.key, line.sha256),
    ).fetchone()
    return bytes(row[0]) if row else None


def _via(text: str) -> tuple[str, ...]:
    return tuple(orjson.loads(text))


def _parse_rows(rows: Iterable[sqlite3.Row]) -> Iterator[StoredEntry]:
    for row in rows:
        try:
            entry, document = unpack(bytes(row["document"]), row["sha256"]), orjson.loads(row["document"])
        except (ValueError, TypeError) as error:
            # A corrupt bit on the disk, or stricter rules: the others are fine.
            log.warning("%s %s %s is not used: %s", row["kind"], row["name"], row["version"], error)
            continue
        yield StoredEntry(
            row["registry"],
            entry,
            document,
            row["sha256"],
            row["published_at"],
            row["published_by"],
            bool(row["latest"]),
            _via(row["via"]),
        )
