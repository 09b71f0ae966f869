"""What is kept of registries (`registry.db` in the state folder): what was fetched of others, what is served here.

The daemon, `goclaw registry` and `goclaw registry serve` use it side by side, none of them often: every call is one
transaction. All of it blocks; call it in a thread. What a version is, is kept for ever, also when the version itself is
gone: it never comes back as something else.
"""

import logging
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from goclaw.errors import StateError
from goclaw.records import record
from goclaw.registries.base import (
    MAX_BYTES,
    MAX_ENTRIES,
    SERVING,
    Entry,
    EntryKind,
    Packed,
    packed,
    unpacked,
    version_order,
)
from goclaw.registries.file import FILE as FILE  # whoever keeps a shelf finds it here
from goclaw.registries.file import ShelfFile

log = logging.getLogger(__name__)

OWN = ""
"""Stands for the registry that is served here, among the names of others."""
MAX_PINS = 10 * MAX_ENTRIES
"""Versions of one registry that are remembered, also of those that are gone: one that lists others every time would
fill the disk."""
_REVISION = "revision"
"""The fact that is another one after each change of what is listed."""

Key: TypeAlias = tuple[str, str, str]
"""Kind, name and version."""


class ChangedEntry(StateError):
    """A version is there already, as something else."""


class ForeignName(StateError):
    """The name belongs to somebody else."""


class FullShelf(StateError):
    """There is no room for more."""


@record
class CatalogRow:
    """An entry as a registry lists it."""

    document: Mapping[str, Any]
    published_at: float
    """Epoch seconds; 0: not said."""
    latest: bool = False
    """The registry itself calls it the newest."""
    via: tuple[str, ...] = ()
    """The registries, by their ids, through which it came."""


@record
class StoredEntry:
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


@record
class StoredLine:
    """An entry that is kept, without its document."""

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
        """As `StoredEntry.order`."""
        return (self.latest, *version_order(self.key[2], self.published_at))


@record
class _New:
    """A version on its way into the file."""

    key: Key
    canonical: bytes
    sha256: str
    published_at: float
    said: tuple[int, str]
    """What is said beside the document: whether it is the newest, and the way that it came, as JSON."""


@record
class TakenOver:
    """What came of taking a catalogue over."""

    entries: int
    refused: tuple[str, ...] = ()
    """Entries that were left as they were, each with the reason, for people."""
    changed: tuple[str, ...] = ()
    """Those of them that are not what they were: somebody has to look who is to blame."""


@record
class Sync:
    """When a catalogue was fetched."""

    synced_at: float = 0.0
    """Epoch seconds of the last time that it went well; 0: never."""
    etag: str = ""
    problem: str = ""
    """Why the last time did not."""


class CatalogStore:
    """The file at `path`; it need not exist, and reading makes none. Methods raise `StateError` if it is unusable."""

    def __init__(self, path: Path) -> None:
        self._file = ShelfFile(path)

    def publish(self, document: Mapping[str, Any], by: str, now: float) -> bool:
        """Keep a version of this gateway's own registry; whether it is new. Nothing changes where it is there.

        Raises:
            ValueError: it is no entry.
            ChangedEntry: this version was something else.
            ForeignName: somebody else published this name first, as whatever kind and however capitalized.
            FullShelf: more would be refused by those who fetch it.
        """
        read = packed(document)
        entry, new = read.entry, _new(read, CatalogRow(document, now))
        with self._file.writing() as connection:
            others = "SELECT 1 FROM owners WHERE name = ? COLLATE NOCASE AND owner != ?"
            if connection.execute(others, (entry.name, by)).fetchone():
                raise ForeignName(f"{entry.kind} {entry.name} belongs to somebody else here; choose another name")
            connection.execute("INSERT OR IGNORE INTO owners VALUES (?, ?, ?)", (entry.kind, entry.name, by))
            known = _pins(connection, OWN, entry.name)
            if known.get(new.key, new.sha256) != new.sha256 or _rivals(new.key) & known.keys():
                raise ChangedEntry(
                    f"{entry.kind} {entry.name} {entry.version} is published already as something else; "
                    "what is published never changes, so give it another version"
                )
            if new.key in _beside(connection, OWN, entry.name):
                return False
            _refuse_full(connection, new)
            _insert(connection, OWN, [new], by)
            return True

    def withdraw(self, kind: EntryKind, name: str, version: str, by: str | None) -> bool:
        """Remove a version of this gateway's own registry; whether it was there.

        `by` None: whoever runs the registry, to whom every name belongs. Raises `ForeignName` for others.
        """
        with self._file.writing() as connection:
            found = connection.execute("SELECT owner FROM owners WHERE kind = ? AND name = ?", (kind, name)).fetchone()
            if found and by is not None and found[0] != by:
                raise ForeignName(f"{kind} {name} belongs to somebody else here")
            return _delete(connection, OWN, [(kind, name, version)])

    def take(self, registry: str, listed: Sequence[CatalogRow], now: float, etag: str = "") -> TakenOver:
        """Take the whole catalogue of another registry over: what is not listed any more goes.

        What is no entry, and a version that has become something else, is left out; the version as it was stays.
        """
        refused: list[str] = []
        changed: list[str] = []
        # Before the file is locked: reading a large catalogue takes seconds.
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
                "INSERT OR REPLACE INTO syncs VALUES (?, ?, ?, '')",
                (registry, now, "" if refused or changed else etag),
            )
        return TakenOver(len(read), (*refused, *changed), tuple(changed))

    def tried(self, registry: str, now: float, problem: str = "") -> None:
        """A catalogue was asked for: nothing had changed (no problem), or it could not be had."""
        with self._file.writing() as connection:
            connection.execute(
                "INSERT INTO syncs VALUES (:registry, :well, '', :problem) ON CONFLICT DO UPDATE SET "
                "synced_at = max(synced_at, :well), problem = :problem",
                {"registry": registry, "well": 0.0 if problem else now, "problem": problem},
            )

    def sync(self, registry: str) -> Sync:
        """When that was."""
        rows = self._rows("SELECT synced_at, etag, problem FROM syncs WHERE registry = ?", registry)
        return Sync(*rows[0]) if rows else Sync()

    def entries(self, registry: str | None = None) -> list[StoredEntry]:
        """All that is kept, of all registries or of one (`OWN`: this gateway's), by name, the newest versions first."""
        rows = self._rows("SELECT * FROM entries WHERE ? IS NULL OR registry = ?", registry, registry)
        kept = sorted(_kept(rows), key=lambda each: each.order, reverse=True)
        return sorted(kept, key=lambda each: (each.registry, each.entry.kind, each.entry.name))

    def versions(self, registry: str, kind: EntryKind, name: str) -> list[StoredEntry]:
        """The versions of one thing, the newest first."""
        rows = self._rows("SELECT * FROM entries WHERE registry = ? AND kind = ? AND name = ?", registry, kind, name)
        return sorted(_kept(rows), key=lambda each: each.order, reverse=True)

    def lines(self, registry: str) -> list[StoredLine]:
        """What is kept of one registry, without its documents, in no order."""
        columns = "kind, name, version, sha256, published_at, latest, via, length(document) AS size"
        rows = self._rows(f"SELECT {columns} FROM entries WHERE registry = ?", registry)  # noqa: S608 - columns of ours
        return [
            StoredLine(registry, (row[0], row[1], row[2]), row[3], row[4], bool(row[5]), _via(row[6]), row[7])
            for row in rows
        ]

    def documents(self, lines: Iterable[StoredLine]) -> list[bytes | None]:
        """The documents of these, in their canonical form; None for one that is gone."""
        with self._file.reading() as connection:
            return [_document(connection, line) if connection else None for line in lines]

    def owned(self) -> set[tuple[str, str]]:
        """Kind and name of all that was ever published in this gateway's own registry."""
        return {(row[0], row[1]) for row in self._rows("SELECT kind, name FROM owners")}

    def revision(self) -> str:
        """Another one whenever something that is listed has changed."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", _REVISION)
        return str(rows[0][0]) if rows else ""

    def fact(self, name: str, value: str) -> str:
        """What is kept under a name; `value` from now on, where nothing is."""
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
    """What can be taken over; `refused` gets the rest."""
    seen: set[Key] = set()
    for each in listed:
        try:
            new = _new(packed(each.document), each)
        except ValueError as error:
            refused.append(f"{str(each.document.get('name', '?'))[:100]!r}: {error}")
            continue
        if new.key in seen:
            refused.append(f"{' '.join(new.key)} is listed twice")
            continue
        seen.add(new.key)
        yield new


def _pins(connection: sqlite3.Connection, registry: str, name: str | None = None) -> dict[Key, str]:
    """What the versions of a registry are and were."""
    rows = connection.execute(
        "SELECT kind, name, version, sha256 FROM pins WHERE registry = ? AND (? IS NULL OR name = ?)",
        (registry, name, name),
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def _rivals(key: Key) -> set[Key]:
    """The same version of the same name as another kind, by which it would be used in its place."""
    kind, name, version = key
    return {(other.value, name, version) for other in SERVING if other != kind} if kind in SERVING else set()


def _beside(connection: sqlite3.Connection, registry: str, name: str | None = None) -> dict[Key, tuple[int, str]]:
    """What is there of a registry, with what that says of each beside its document."""
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
    """Whether something was there."""
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
        raise FullShelf(
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


def _kept(rows: Iterable[sqlite3.Row]) -> Iterator[StoredEntry]:
    for row in rows:
        try:
            entry, document = unpacked(bytes(row["document"]), row["sha256"]), orjson.loads(row["document"])
        except (ValueError, TypeError) as error:
            # A bit that fell over on the disk, or rules that have become stricter: the others are fine.
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
