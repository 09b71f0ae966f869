"""Files in the database: tables that only Postgres has, and their statements. With SQLite there is only a folder.

A file is stored in pieces, so that no statement has all of a large one. Several processes store files: each says which
version it replaces, and is refused where another one has replaced that (`ConstraintViolated`).
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, Table, bindparam, delete, select, update

from goclaw.common.core.records import record
from goclaw.durable.store.database import BoundStatement, ConstraintViolated, Database, Row, Statement, insert_into
from goclaw.durable.store.dialect import NAME
from goclaw.errors import StateError

PIECE = 1 << 20
"""Bytes of a file in one row."""

files_metadata = MetaData()

state_files = Table(
    "state_files",
    files_metadata,
    Column("path", NAME, primary_key=True, doc="Below the state folder."),
    Column("sha256", NAME, nullable=False),
    Column("mode", Integer, nullable=False),
    Column("changed_at", Float, nullable=False, doc="The file's own time."),
)

state_file_pieces = Table(
    "state_file_pieces",
    files_metadata,
    Column("path", NAME, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

_ADD = insert_into(state_files, "path", "sha256", "mode", "changed_at")
_PIECE = insert_into(state_file_pieces, "path", "number", "data")
_STAMP = Statement(
    update(state_files).where(state_files.c.path == bindparam("name")).values(changed_at=bindparam("at"))
)
_DROP_AS_KNOWN = Statement(
    delete(state_files).where(state_files.c.path == bindparam("name"), state_files.c.sha256 == bindparam("known"))
)
_DROP_OLD = Statement(
    delete(state_files).where(state_files.c.path == bindparam("name"), state_files.c.changed_at < bindparam("until"))
)
_is_stored = select(state_files.c.path).where(state_files.c.path == bindparam("of")).exists()
_DROP_WITHOUT = Statement(delete(state_files).where(state_files.c.path == bindparam("name"), ~_is_stored))
_DROP_PIECES = Statement(delete(state_file_pieces).where(state_file_pieces.c.path == bindparam("name")))
_DROP_LOOSE_PIECES = Statement(
    delete(state_file_pieces).where(state_file_pieces.c.path == bindparam("name"), ~_is_stored)
)
_OLD = Statement(
    select(state_files.c.path).where(state_files.c.changed_at < bindparam("until")).order_by(state_files.c.path)
)
LIST = Statement(select(state_files).order_by(state_files.c.path))
_ENTRY = Statement(select(state_files).where(state_files.c.path == bindparam("name")))
LOCK_ENTRY = Statement(select(state_files).where(state_files.c.path == bindparam("name")).with_for_update())
PIECES = Statement(
    select(state_files.c.sha256, state_file_pieces.c.data)
    .outerjoin_from(state_files, state_file_pieces, state_file_pieces.c.path == state_files.c.path)
    .where(state_files.c.path == bindparam("name"))
    .order_by(state_file_pieces.c.number)
)
"""Of an empty file one row without data."""


@record
class StoredFile:
    """A file in the database, but for its bytes."""

    sha256: str
    mode: int
    changed_at: float


def stored_file(data: bytes, mode: int, changed_at: float) -> StoredFile:
    """Describe a file with these bytes."""
    return StoredFile(hashlib.sha256(data).hexdigest(), mode, changed_at)


class StoredFiles:
    """The files of one schema, by their path below the state folder. All methods raise `DiskError` as `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> Mapping[str, StoredFile]:
        """Return all files without their bytes; omit names that lead out of a folder."""
        rows = await self._database.read(LIST())
        return {name: entry_of(row) for row in rows if is_plain(name := str(row["path"]))}

    async def get(self, name: str) -> StoredFile | None:
        """Return a file, but for its bytes; None where no such file is stored."""
        rows = await self._database.read(_ENTRY(name=name))
        return entry_of(rows[0]) if rows else None

    async def put(self, name: str, known: str | None, entry: StoredFile, data: bytes, *others: BoundStatement) -> int:
        """Replace the known version of a file; returns the number of its pieces. On disk when this returns.

        Args:
            name: its path below the state folder.
            known: the hash of the version that it replaces; None where it replaces no version.
            entry: what describes it.
            data: its bytes.
            others: statements for the same transaction.

        Raises:
            ConstraintViolated: another version is stored.
        """
        await self._database.write(*put_statements(name, known, entry, data), *others, durable=True)
        return -(-len(data) // PIECE)

    async def append(
        self, name: str, known: str, entry: StoredFile, number: int, tail: bytes, *others: BoundStatement
    ) -> None:
        """Add a piece with this number to a file, which `entry` describes with it; on disk when this returns.

        Raises:
            ConstraintViolated: another version than the known one is stored.
        """
        piece = _PIECE(path=name, number=number, data=tail)
        await self._database.write(*_exchange(name, known, entry), piece, *others, durable=True)

    async def data(self, name: str, entry: StoredFile) -> bytes:
        """Return the bytes of a file.

        Raises:
            ConstraintViolated: another version is stored by now, or none.
            StateError: they are not those that were stored.
        """
        return data_of(name, entry, await self._database.read(PIECES(name=name)))

    async def stamp(self, names: Sequence[str], at: float) -> bool:
        """Give files the time of a change. False: not all of them are stored."""
        done = await self._database.write(*(_STAMP(name=name, at=at) for name in names))
        return all(each.rowcount == 1 for each in done)

    async def remove(self, name: str, known: str, *others: BoundStatement) -> None:
        """Remove a file while it is the known version."""
        await self._database.write(*remove_statements(name, known), *others, durable=True)

    async def drop(
        self, files: Iterable[Sequence[str]], until: float, telling: Callable[[str], Iterable[BoundStatement]]
    ) -> None:
        """Remove files that were last changed before a moment, each with those that belong to it.

        Args:
            files: the names of each, and of those that go with it.
            until: a moment of the clock that stamps files.
            telling: returns what tells other processes that a file has gone.
        """
        statements = list[BoundStatement]()
        for name, *others in files:
            statements.append(_DROP_OLD(name=name, until=until))
            statements += [_DROP_WITHOUT(name=other, of=name) for other in others]
            statements += [_DROP_LOOSE_PIECES(name=each, of=name) for each in (name, *others)]
            statements += telling(name)
        await self._database.write(*statements, durable=True)

    async def old(self, until: float) -> list[str]:
        """Return the names of files that were last changed before a moment."""
        return [str(row["path"]) for row in await self._database.read(_OLD(until=until))]


def has_grown(data: bytes, size: int, sha256: str) -> bool:
    """Whether a file has only grown since it had this size and this hash."""
    return len(data) > size and hashlib.sha256(memoryview(data)[:size]).hexdigest() == sha256


def is_plain(name: str) -> bool:
    """Whether a name from the database leads to a file below a folder, and to no other place."""
    path = PurePosixPath(name)
    return str(path) == name != "." and not path.is_absolute() and ".." not in path.parts


def put_statements(name: str, known: str | None, entry: StoredFile, data: bytes) -> list[BoundStatement]:
    """Return the statements that replace the known version of a file; None: it replaces none.

    Where another version is stored, the database refuses them: the row exists.
    """
    pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
    return [
        *_exchange(name, known, entry),
        _DROP_PIECES(name=name),
        *(_PIECE(path=name, number=number, data=piece) for number, piece in enumerate(pieces)),
    ]


def remove_statements(name: str, known: str) -> list[BoundStatement]:
    """Return the statements that remove a file while it is the known version."""
    return [_DROP_AS_KNOWN(name=name, known=known), _DROP_LOOSE_PIECES(name=name, of=name)]


def data_of(name: str, entry: StoredFile, rows: Sequence[Row]) -> bytes:
    """Return the bytes of a file from the rows of `PIECES`.

    Raises:
        ConstraintViolated: another version is stored by now, or none.
        StateError: they are not those that were stored.
    """
    if not rows or rows[0]["sha256"] != entry.sha256:
        raise ConstraintViolated(f"{name} was replaced or removed meanwhile")
    data = b"".join(bytes(row["data"] or b"") for row in rows)
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise StateError(f"{name} is damaged in the database: restore a backup")
    return data


def entry_of(row: Row) -> StoredFile:
    """Return the description of a file in a row of it."""
    return StoredFile(str(row["sha256"]), int(row["mode"]), float(row["changed_at"]))


def _exchange(name: str, known: str | None, entry: StoredFile) -> list[BoundStatement]:
    gone = [_DROP_AS_KNOWN(name=name, known=known)] if known is not None else []
    return [*gone, _ADD(path=name, sha256=entry.sha256, mode=entry.mode, changed_at=entry.changed_at)]
