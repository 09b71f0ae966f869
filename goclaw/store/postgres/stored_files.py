"""Files in the database: tables that only Postgres has, and what is done to them. With SQLite a folder is all there is.

A file is stored in pieces, so that no statement has all of a large one.
"""

import hashlib
from collections.abc import Iterable, Mapping

from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, Table, bindparam, delete, select, update

from goclaw.core.records import record
from goclaw.errors import StateError
from goclaw.store.database import Database, Row, Statement, insert_into, upsert_into
from goclaw.store.dialect import NAME

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

_PUT = upsert_into(state_files, ("path",), "sha256", "mode", "changed_at")
_PIECE = insert_into(state_file_pieces, "path", "number", "data")
_PUT_FIRST = insert_into(state_files, "path", "sha256", "mode", "changed_at", ignore_conflict=True)
_FIRST_PIECE = insert_into(state_file_pieces, "path", "number", "data", ignore_conflict=True)
_STAMP = Statement(
    update(state_files).where(state_files.c.path == bindparam("name")).values(changed_at=bindparam("at"))
)
_DROP = Statement(delete(state_files).where(state_files.c.path == bindparam("name")))
_DROP_PIECES = Statement(delete(state_file_pieces).where(state_file_pieces.c.path == bindparam("name")))
_LIST = Statement(select(state_files).order_by(state_files.c.path))
_ENTRY = Statement(select(state_files).where(state_files.c.path == bindparam("name")))
_PIECES = Statement(
    select(state_file_pieces.c.data)
    .where(state_file_pieces.c.path == bindparam("name"))
    .order_by(state_file_pieces.c.number)
)


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
        """Return all files, but for their bytes."""
        return {str(row["path"]): _entry(row) for row in await self._database.read(_LIST())}

    async def get(self, name: str) -> StoredFile | None:
        """Return a file, but for its bytes; None where no such file is stored."""
        rows = await self._database.read(_ENTRY(name=name))
        return _entry(rows[0]) if rows else None

    async def put(self, name: str, entry: StoredFile, data: bytes) -> int:
        """Store a file in the place of one of this name; returns its pieces. On disk when this returns."""
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
        await self._database.write(
            _DROP_PIECES(name=name),
            _PUT(path=name, sha256=entry.sha256, mode=entry.mode, changed_at=entry.changed_at),
            *(_PIECE(path=name, number=number, data=piece) for number, piece in enumerate(pieces)),
            durable=True,
        )
        return len(pieces)

    async def put_first(self, name: str, entry: StoredFile, data: bytes) -> StoredFile | None:
        """Store a file of one piece at most, unless there is one of this name; return that. None: it is stored.

        Of several processes that do so at the same time one stores its file.
        """
        await self._database.write(
            _PUT_FIRST(path=name, sha256=entry.sha256, mode=entry.mode, changed_at=entry.changed_at),
            _FIRST_PIECE(path=name, number=0, data=data),
            durable=True,
        )
        found = await self.get(name)
        return found if found is None or found.sha256 != entry.sha256 else None

    async def append(self, name: str, entry: StoredFile, number: int, tail: bytes) -> None:
        """Add a piece with this number to a file, which `entry` describes with it; on disk when this returns."""
        await self._database.write(
            _PUT(path=name, sha256=entry.sha256, mode=entry.mode, changed_at=entry.changed_at),
            _PIECE(path=name, number=number, data=tail),
            durable=True,
        )

    async def data(self, name: str, entry: StoredFile) -> bytes:
        """Return the bytes of a file.

        Raises:
            StateError: they are not those that were stored.
        """
        data = b"".join(bytes(row[0]) for row in await self._database.read(_PIECES(name=name)))
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise StateError(f"{name} is damaged in the database: restore a backup")
        return data

    async def stamp(self, names: Iterable[str], at: float) -> None:
        """Give files the time of a change."""
        await self._database.write(*(_STAMP(name=name, at=at) for name in names))

    async def drop(self, names: Iterable[str]) -> None:
        """Remove files, all or none; there are none of that name: fine."""
        await self._database.write(*(each(name=name) for name in names for each in (_DROP, _DROP_PIECES)), durable=True)


def _entry(row: Row) -> StoredFile:
    return StoredFile(str(row["sha256"]), int(row["mode"]), float(row["changed_at"]))
