"""The store that is configured: opening it, and looking into it while another process has it open."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from goclaw.common.config.schema import Config
from goclaw.common.config.state import USED_STORE
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core import catalog
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import replace_file
from goclaw.durable.store.database import BoundStatement, Database, Row, StorePart
from goclaw.durable.store.file_writer import load_store
from goclaw.durable.store.settings import FACT
from goclaw.durable.store.sqlite.database import open_file, read_file
from goclaw.durable.store.sqlite.recovery import CLOCK
from goclaw.errors import StateError

if TYPE_CHECKING:
    from goclaw.durable.store.shared_files import SharedFiles


@asynccontextmanager
async def open_database(
    place: Path | PostgresPlace, clock: Clock = CLOCK, *, alone: bool = False
) -> AsyncIterator[Database]:
    """Open (and bring up to date, or make) the database at `place`; a damaged file is set aside first.

    `alone`: no other process may have it open. A file has the lock of its state folder for that.

    Raises:
        ConfigError: it is on Postgres, and the driver is not installed.
        StateError: it cannot be opened, was written by a newer GoClaw, or others have it open who may not.
    """
    if isinstance(place, Path):
        async with open_file(place, clock) as file:
            yield file
    else:
        async with postgres().open(place, clock, alone) as schema:
            yield schema


@asynccontextmanager
async def open_shared_files(
    place: Path | PostgresPlace, database: Database, folder: Path, clock: Clock
) -> "AsyncIterator[SharedFiles | None]":
    """Keep the state folder and the open store together until the block ends; None where the folder is all there is.

    Raises:
        StateError: they cannot be brought together.
    """
    if isinstance(place, Path):
        yield None
    else:
        async with postgres().files(database, folder, clock).open() as files:
            yield files


def former_store(config: Config) -> str | None:
    """Return the Postgres that a state folder was used with last, where `store` is not set any more; else None."""
    try:
        return None if config.store else (config.state_dir / USED_STORE).read_text().strip() or None
    except (OSError, ValueError):
        return None


def note_store(config: Config) -> None:
    """Remember which Postgres a state folder is used with.

    Raises:
        StateError: the disk refuses.
    """
    if not isinstance(place := config.store_place, PostgresPlace):
        return
    try:
        replace_file(config.state_dir / USED_STORE, f"{place.shown}\n")
    except OSError as error:
        raise StateError(f"{config.state_dir / USED_STORE} cannot be written: {error.strerror}") from error


def postgres() -> StorePart:
    """Return the store on Postgres.

    Raises:
        ConfigError: its driver is not installed.
    """
    return load_store(catalog.STORES["postgres"], StorePart)


def read_stored(place: Path | PostgresPlace, *statements: BoundStatement) -> list[Sequence[Row]]:
    """Answer queries while a daemon may use the database, without changing it; no rows where it was never made.

    Raises:
        ConfigError: it is on Postgres, and the driver is not installed.
        StateError: it cannot be read.
    """
    return read_file(place, statements) if isinstance(place, Path) else postgres().read(place, statements)


def is_there(place: Path | PostgresPlace) -> bool:
    """Whether there can be conversations at a place: Postgres is not asked."""
    return not isinstance(place, Path) or place.exists()


def stored_fact(place: Path | PostgresPlace, name: str) -> Any:
    """Return a fact of the daemon, which may be writing it, or None where it is not known.

    Raises:
        StateError: the database cannot be read.
    """
    [rows] = read_stored(place, FACT(name=name))
    return orjson.loads(rows[0][0]) if rows else None
