"""`goclaw store copy`: everything that the database has, from SQLite to Postgres or back, exactly.

Not a backup: turns and deliveries that are under way stay so, and go on where the copy is used. So nothing may use
either side meanwhile: the state folder is locked, and with it each schema. The copy becomes a file of SQLite first,
in a folder next to the database. Into Postgres it comes in one transaction, into the state folder by one swap of
files (`ops.backup.swap`): whenever this is killed, the target has all or is as it was. The source is never changed.
"""

import asyncio
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import func, select

from goclaw.common.auth.audit import FACT
from goclaw.common.config.schema import Config
from goclaw.common.config.state import USED_STORE, open_state
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.durable.store.database import Database, Statement
from goclaw.durable.store.open import open_database, postgres
from goclaw.durable.store.schema import metadata
from goclaw.durable.store.sqlite.backup import check_database, copy_database
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.durable.store.sums import TableSum, differing, in_use, rows_of_file, sums_of_file, texts_with_nul
from goclaw.errors import StateError
from goclaw.program.ops.backup.archive import DATABASE
from goclaw.program.ops.backup.swap import StagedRestore, leftovers, pending, remove, swap

FOLDER = "goclaw.db.copying-"
"""Beginning of the name of the folder in which a copy is made ready."""

Place = Path | PostgresPlace


@record
class StoreCopied:
    """The result of a copy."""

    sums: Mapping[str, TableSum]
    """The rows of each table and their checksum, equal on both sides."""
    shortened: int
    """Texts that lost the character NUL, which Postgres cannot keep."""
    files: int
    """Files of the state folder that Postgres and the folder have: users, notes, pictures and so on."""
    kept: Path | None
    """The former content of the target, as a file of SQLite; None: it had none."""


def describe(place: Place) -> str:
    """Return a place of the database in words for people."""
    return str(place) if isinstance(place, Path) else place.shown


async def copy_store(config: Config, source: Place, target: Place, clock: Clock, *, replace: bool) -> StoreCopied:
    """Copy all rows from one place to the other and compare their checksums; a file is the state folder's.

    Args:
        config: has the state folder, which is locked meanwhile.
        source: where the rows are; it is brought to the newest schema on Postgres, and else never changed.
        target: where they go. Its rows are refused, or kept in a file where `replace` is true.
        clock: dates the names of kept files.
        replace: whether the target may have rows.

    Raises:
        ConfigError: the driver of Postgres is not installed.
        StateError: a daemon uses one of the two, they are the same, the target has rows, the source is damaged or not
            there, or one of the two cannot be used. The target is as it was then.
    """
    if source == target:
        raise StateError(f"{describe(source)} is both the source and the target of the copy")
    with open_state(config), _workplace(config.state_dir) as folder:
        files, chain = 0, ""
        # Before files of the state folder are changed.
        if isinstance(target, Path) and not replace and target.exists() and (found := rows_of_file(target)):
            raise StateError(in_use(str(target), found))
        async with AsyncExitStack() as stack:
            if isinstance(source, PostgresPlace):
                if not await asyncio.to_thread(postgres().exists, source):
                    raise StateError(f"{source.shown}: there is no database yet; GoClaw has not run with it")
                # No daemon can use it from here on.
                database = await stack.enter_async_context(open_database(source, clock, alone=True))
                files, chain = await _fetch_files(database, config, clock)
            copy = folder / DATABASE
            sent = await asyncio.to_thread(_export, source, copy)
            if isinstance(source, PostgresPlace):
                await asyncio.to_thread(_name_audit, copy, chain)
            staged = StagedRestore(clock.now())
            if isinstance(target, Path):
                kept = await asyncio.to_thread(_put_file, config, copy, target, staged)
                await asyncio.to_thread((config.state_dir / USED_STORE).unlink, missing_ok=True)
                return StoreCopied(sent, 0, files, kept)
            kept = config.database_path.with_name(f"{DATABASE}{staged.mark}")
            # Before the rows, which make the target one that is in use.
            files = await _send_files(target, config, clock, replace=replace)
            came = await asyncio.to_thread(_put_rows, copy, target, kept, replace=replace)
            return StoreCopied(came, texts_with_nul(copy), files, kept if kept.exists() else None)


@contextmanager
def _workplace(state_dir: Path) -> Iterator[Path]:
    """Make a private folder, without leftovers of a copy that was killed."""
    for left in [*leftovers(state_dir), *state_dir.glob(f"{FOLDER}*")]:
        remove(left)
    try:
        with TemporaryDirectory(prefix=FOLDER, dir=state_dir) as folder:
            yield Path(folder)
    except (OSError, sqlite3.Error) as error:
        raise StateError(f"the database could not be copied: {error}") from error


async def _fetch_files(source: Database, config: Config, clock: Clock) -> tuple[int, str]:
    """Let the state folder have the files that Postgres has; changes in it since then come along.

    Returns how many they are, and the name of the folder's audit log. Those of other gateways come below `logs`.
    """
    files = postgres().files(source, config.state_dir, clock)
    await files.begin()
    await files.media.sync()
    await files.audits.fetch()
    return await files.compare(), files.audits.chain


def _name_audit(copy: Path, chain: str) -> None:
    """Have the file `copy` know the end of the audit log that this state folder has, which is the only one from now."""
    own = f"{FACT}:{chain}" if chain else FACT
    with closing(sqlite3.connect(copy)) as file, file:
        file.execute("DELETE FROM daemon_facts WHERE (name = ? OR name LIKE ?) AND name <> ?", (FACT, f"{FACT}:%", own))
        file.execute("UPDATE daemon_facts SET name = ? WHERE name = ?", (FACT, own))


async def _send_files(target: PostgresPlace, config: Config, clock: Clock, *, replace: bool) -> int:
    """Let Postgres have the files of the state folder, unless it has rows where none may be."""
    async with open_database(target, clock, alone=True) as database:
        if not replace and (found := await _rows(database)):
            raise StateError(in_use(target.shown, found))
        files = postgres().files(database, config.state_dir, clock)
        await files.send_all()
        return await files.compare()


async def _rows(database: Database) -> Mapping[str, int]:
    """Return the rows of each table that has any, but for what every start writes."""
    counts = {str(each.name): Statement(select(func.count()).select_from(each))() for each in metadata.sorted_tables}
    found = {name: (await database.read(count))[0][0] for name, count in counts.items() if name != "daemon_facts"}
    return {name: rows for name, rows in found.items() if rows}


def _export(source: Place, copy: Path) -> Mapping[str, TableSum]:
    """Write the rows of the source into the new file `copy`, of the newest schema and without a separate log."""
    if isinstance(source, Path):
        copy_database(source, copy)
        migrate(copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as file:
            file.execute("PRAGMA journal_mode=DELETE")
        return sums_of_file(copy)
    sent = postgres().copy_to_file(source, copy)
    check_database(copy)
    if different := list(differing(sent, sums_of_file(copy))):
        raise StateError(f"{source.shown}: the copied data differ from the source: {', '.join(different)}")
    return sent


def _put_rows(copy: Path, target: PostgresPlace, kept: Path, *, replace: bool) -> Mapping[str, TableSum]:
    """Put the rows of `copy` into Postgres; with `replace` the old rows become the file `kept`."""
    if replace and postgres().exists(target):
        postgres().copy_to_file(target, kept)
    try:
        return postgres().replace_with_file(target, copy, not replace)
    except BaseException:
        kept.unlink(missing_ok=True)
        raise


def _put_file(config: Config, copy: Path, target: Path, staged: StagedRestore) -> Path | None:
    """Put the file `copy` in its place; returns where the one that was there lies now."""
    try:
        # The logs first: one belongs to the file that it was written for, and to no other.
        for ending in ("-wal", "-shm"):
            staged.empty(target.with_name(f"{target.name}{ending}"))
        staged.put(copy, target)
        swap(config.state_dir, staged.moves)
    finally:
        if not pending(config.state_dir):
            staged.discard()
    aside = target.with_name(f"{target.name}{staged.mark}")
    return aside if aside.exists() else None
