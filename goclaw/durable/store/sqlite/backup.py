"""A consistent copy of the database, made while a daemon goes on writing, and the queries on a copy.

This is the one place where a second process opens the database. It only reads: SQLite keeps a reader's view as it was
when it began (WAL), the daemon's writes go on meanwhile, and the reader's locks end with its process however that dies.
All that the daemon notices is a write-ahead log that grows until the copy is done.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from goclaw.durable.store.media import (
    ARTIFACTS,
    ATTACHED,
    HAS_MEDIA,
    ON_THEIR_WAY,
    SHOWN,
    blobs_of,
    kept_artifacts,
    media_of,
    uploads_of,
)
from goclaw.durable.store.sqlite.database import BUSY_MS, run
from goclaw.durable.store.sqlite.migrations import MIGRATIONS
from goclaw.errors import StateError

NEWEST = 1 + len(MIGRATIONS)
"""The schema that this GoClaw writes."""


def copy_database(source: Path, target: Path) -> int:
    """Copy the database at `source` as it is now to the new file `target` (mode 0600), check it, return its schema.

    The copy is one file without a separate log, and holds nothing that was deleted from the source.

    Raises:
        StateError: it is missing, damaged, of a newer GoClaw, or the disk is full.
    """
    if not source.exists():
        raise StateError(f"{source}: there is no database yet; GoClaw has not run with this state folder")
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with closing(_read_only(source)) as connection:
            refuse_newer(source, connection.execute("PRAGMA user_version").fetchone()[0])
            # Not the backup API: that copies pages as they are, with what was deleted still in them.
            connection.execute("VACUUM INTO ?", (str(target),))
        return check_database(target)
    except sqlite3.Error as error:
        raise StateError(f"{source} cannot be copied: {error}") from error


def check_database(path: Path) -> int:
    """Check every page and index of a database that is not in use; returns its schema.

    Raises:
        StateError: it is damaged, no database of GoClaw, or of a newer one.
    """
    try:
        with closing(_read_only(path)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('messages', 'inbox')")
            known = tables.fetchone()[0] == 2
    except sqlite3.Error as error:
        raise StateError(f"{path.name} is damaged: {error}") from error
    refuse_newer(path, version)
    if found != "ok":
        raise StateError(f"{path.name} is damaged: {found}")
    if version < 1 or not known:
        raise StateError(f"{path.name} is not a GoClaw database")
    return version


def schema_of_file(path: Path) -> int | None:
    """Return the schema of a database, which a daemon may be writing, or None where no file exists.

    Raises:
        StateError: it cannot be read.
    """
    if not path.exists():
        return None
    try:
        with closing(_read_only(path)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise StateError(f"{path} cannot be read: {error}") from error


def refuse_newer(path: Path, version: int) -> None:
    """Refuse a schema that this GoClaw does not know.

    Raises:
        StateError: it is newer.
    """
    if version > NEWEST:
        raise StateError(
            f"{path.name} has schema {version}, this GoClaw knows up to {NEWEST}: "
            "it was written by a newer version. Install that version."
        )


def referred_media(path: Path) -> set[str]:
    """Return keys of the pictures and files that the conversations and deliveries in a database refer to."""
    with closing(_read_only(path)) as connection:
        images = connection.execute("SELECT images FROM messages WHERE images IS NOT NULL").fetchall()
        kept = _artifacts(connection)
        sent = connection.execute("SELECT body FROM deliveries WHERE instr(body, ?)", (HAS_MEDIA,)).fetchall()
        attached = run(connection, ATTACHED()).fetchall()
    known = {*blobs_of(row[0] for row in [*images, *kept]), *media_of(row[0] for row in sent)}
    return known | uploads_of(row[0] for row in attached)


def needed_media(path: Path) -> set[str]:
    """Return the keys that must be on the disk: the others may have been removed (`media.max_megabytes`)."""
    with closing(_read_only(path)) as connection:
        shown, sent = (run(connection, bound).fetchall() for bound in (SHOWN(), ON_THEIR_WAY()))
        kept = _artifacts(connection)
        attached = run(connection, ATTACHED()).fetchall()
    known = {*blobs_of(row[0] for row in shown), *kept_artifacts(row[0] for row in kept)}
    known |= media_of(row[0] for row in sent)
    return known | uploads_of(row[0] for row in attached)


def _artifacts(connection: sqlite3.Connection) -> Sequence[tuple[str]]:
    """Return the columns of rows with artifacts; a database of an older schema has none."""
    known = any(row[1] == "artifacts" for row in connection.execute("PRAGMA table_info(messages)"))
    return run(connection, ARTIFACTS()).fetchall() if known else ()


def _read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    return connection
