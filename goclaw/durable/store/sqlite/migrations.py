"""Making a database file, and bringing an old one up to the tables of `store.schema`.

A new file is made whole, an old one is backed up and changed step by step. The version is SQLite's `user_version`. A
step never changes once released; a new one is appended.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from goclaw.common.health.resources import disk_error
from goclaw.durable.store.schema import MATERIAL_KEY, metadata
from goclaw.errors import StateError

_TO_2 = """
ALTER TABLE compactions ADD COLUMN pays INTEGER;
CREATE TABLE checkpoints (
    id INTEGER NOT NULL PRIMARY KEY, session VARCHAR NOT NULL, created_at FLOAT NOT NULL,
    covers_to INTEGER NOT NULL, tokens INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX checkpoints_by_session ON checkpoints (session, id);
CREATE TABLE usage (
    id INTEGER NOT NULL PRIMARY KEY, session VARCHAR NOT NULL, turn VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL, model VARCHAR NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, cost FLOAT, created_at FLOAT NOT NULL
);
CREATE INDEX usage_by_session ON usage (session, id);
CREATE INDEX usage_by_time ON usage (created_at);
CREATE TABLE session_settings (
    session VARCHAR NOT NULL, name VARCHAR NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session, name)
);
CREATE TABLE daemon_facts (name VARCHAR NOT NULL PRIMARY KEY, value TEXT NOT NULL);
"""
_TO_3 = """
ALTER TABLE deliveries ADD COLUMN progress TEXT;
CREATE INDEX messages_with_images ON messages (session, id) WHERE images IS NOT NULL;
CREATE TABLE approval_rules (
    id INTEGER NOT NULL PRIMARY KEY, question VARCHAR NOT NULL, holder VARCHAR NOT NULL, tool VARCHAR NOT NULL,
    place TEXT NOT NULL, pattern TEXT NOT NULL, label TEXT NOT NULL, made_by VARCHAR NOT NULL,
    by_owner BOOLEAN NOT NULL, made_at FLOAT NOT NULL,
    CONSTRAINT approval_rules_once UNIQUE (question, pattern)
);
CREATE INDEX approval_rules_by_holder ON approval_rules (holder, tool);
CREATE TABLE tasks (
    id VARCHAR NOT NULL PRIMARY KEY, session VARCHAR NOT NULL, person VARCHAR NOT NULL, label TEXT NOT NULL,
    output VARCHAR NOT NULL, began_at FLOAT NOT NULL, state VARCHAR NOT NULL, ended_at FLOAT, code INTEGER,
    note TEXT NOT NULL, told BOOLEAN NOT NULL
);
CREATE INDEX tasks_by_session ON tasks (session, person);
ALTER TABLE messages ADD COLUMN material TEXT;
ALTER TABLE messages ADD COLUMN hint TEXT;
ALTER TABLE messages ADD COLUMN call_hint TEXT;
ALTER TABLE messages ADD COLUMN artifacts TEXT;
CREATE INDEX messages_with_artifacts ON messages (session, id) WHERE artifacts IS NOT NULL;
ALTER TABLE usage ADD COLUMN person VARCHAR NOT NULL DEFAULT '';
CREATE INDEX usage_by_person ON usage (person, created_at);
INSERT INTO daemon_facts (name, value) VALUES ('material_key', '"' || lower(hex(randomblob(32))) || '"');
"""
_TO_4 = "ALTER TABLE compactions ADD COLUMN outside TEXT"
_SEED = f"INSERT INTO daemon_facts (name, value) VALUES ('{MATERIAL_KEY}', '\"' || lower(hex(randomblob(32))) || '\"')"  # noqa: S608  # our name
_TO_5 = """
CREATE TABLE schedules (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR NOT NULL, person VARCHAR NOT NULL, body TEXT NOT NULL,
    state VARCHAR NOT NULL, next FLOAT, running VARCHAR NOT NULL DEFAULT '', failures INTEGER NOT NULL DEFAULT '0',
    note TEXT NOT NULL DEFAULT '', made_at FLOAT NOT NULL, CONSTRAINT schedules_name UNIQUE (name)
);
CREATE INDEX schedules_by_next ON schedules (next) WHERE next IS NOT NULL;
CREATE INDEX schedules_by_person ON schedules (person);
CREATE TABLE schedule_runs (
    id INTEGER NOT NULL PRIMARY KEY, job INTEGER NOT NULL, due FLOAT NOT NULL, state VARCHAR NOT NULL,
    turn VARCHAR NOT NULL, began_at FLOAT NOT NULL, ended_at FLOAT, text TEXT NOT NULL DEFAULT '', cost FLOAT,
    CONSTRAINT schedule_runs_once UNIQUE (job, due)
);
CREATE INDEX schedule_runs_by_turn ON schedule_runs (turn);
CREATE TABLE held_messages (
    seq INTEGER NOT NULL PRIMARY KEY, id VARCHAR NOT NULL, session VARCHAR NOT NULL, person VARCHAR NOT NULL,
    chat VARCHAR NOT NULL, body TEXT NOT NULL, held_at FLOAT NOT NULL, until FLOAT,
    CONSTRAINT held_messages_id UNIQUE (id)
);
CREATE INDEX held_messages_by_until ON held_messages (until) WHERE until IS NOT NULL;
"""
_TO_6 = "ALTER TABLE messages ADD COLUMN denied BOOLEAN"
_TO_7 = """
CREATE TABLE media_groups (
    name VARCHAR NOT NULL PRIMARY KEY, chat INTEGER NOT NULL, sender INTEGER NOT NULL, members TEXT,
    is_handed_over BOOLEAN NOT NULL DEFAULT '0',
    changed_at FLOAT NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3))
);
CREATE INDEX media_groups_of_chat ON media_groups (chat);
CREATE TABLE media_parts (
    name VARCHAR NOT NULL, part INTEGER NOT NULL, message TEXT NOT NULL, PRIMARY KEY (name, part),
    FOREIGN KEY (name) REFERENCES media_groups (name) ON DELETE CASCADE
);
CREATE TABLE previews (
    channel VARCHAR NOT NULL, key VARCHAR NOT NULL, session VARCHAR NOT NULL, message INTEGER NOT NULL,
    noted_at FLOAT NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3)), PRIMARY KEY (channel, key)
);
CREATE INDEX previews_of_session ON previews (session);
"""
_TO_8 = """
CREATE TABLE file_labels (
    folder VARCHAR NOT NULL, path VARCHAR NOT NULL, stamp VARCHAR NOT NULL, PRIMARY KEY (folder, path)
);
"""
_TO_9 = """
ALTER TABLE schedules RENAME TO former_schedules;
CREATE TABLE schedules (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR NOT NULL, person VARCHAR NOT NULL, body TEXT NOT NULL,
    state VARCHAR NOT NULL, next FLOAT, running VARCHAR NOT NULL DEFAULT '', failures INTEGER NOT NULL DEFAULT '0',
    note TEXT NOT NULL DEFAULT '', made_at FLOAT NOT NULL, CONSTRAINT schedules_name UNIQUE (person, name)
);
INSERT INTO schedules SELECT id, name, person, body, state, next, running, failures, note, made_at
    FROM former_schedules ORDER BY id;
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'former_schedules')
    WHERE name = 'schedules' AND EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'former_schedules');
DROP TABLE former_schedules;
CREATE INDEX schedules_by_next ON schedules (next) WHERE next IS NOT NULL;
CREATE INDEX schedules_by_person ON schedules (person);
"""
MIGRATIONS: Sequence[str] = (_TO_2, _TO_3, _TO_4, _TO_5, _TO_6, _TO_7, _TO_8, _TO_9)
"""SQL scripts: the first brings version 1 to version 2, and so on. A table is spelt out: it says what it was then."""


_FOUND = (
    "SELECT m.name, c.name, c.pk > 0 FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'"
)


class UnfitSchema(StateError):
    """The tables of a file are not those of its version: something else has changed them."""


def missing_parts(connection: sqlite3.Connection) -> str:
    """Name the tables and columns that a file of the newest version lacks, in one read; empty if it has all."""
    found: dict[str, set[tuple[str, bool]]] = {}
    for table, column, in_key in connection.execute(_FOUND):
        found.setdefault(table, set()).add((column, bool(in_key)))
    missing = []
    for table in metadata.sorted_tables:
        columns = found.get(str(table.name))
        if columns is None:
            missing.append(f"there is no table {table.name}")
        elif gone := [c.name for c in table.columns if (c.name, c.primary_key) not in columns]:
            missing.append(f"the table {table.name} has no {', '.join(gone)}")
    return "; ".join(missing)


def migrate(path: Path, steps: Sequence[str] = MIGRATIONS) -> None:
    """Make the file at `path`, or bring it to the newest version, with a backup `<name>.v<old version>.bak` before.

    Indexes that are gone are made again.

    Raises:
        StateError: it is of a newer version than this GoClaw knows, or cannot be changed or read.
        UnfitSchema: its tables are not those of its version.
    """
    try:
        if not path.exists():
            _make(path, 1 + len(steps))
            return
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            _bring_up(connection, path, steps)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table, no such column, one that is there already
            raise UnfitSchema(f"it cannot be brought up to date: {error}") from error
        raise StateError(str(disk_error(error, path, "opened"))) from error
    except (sqlite3.DatabaseError, OSError) as error:
        raise StateError(str(disk_error(error, path, "opened"))) from error
    path.chmod(0o600)


def _bring_up(connection: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    version, newest = connection.execute("PRAGMA user_version").fetchone()[0], 1 + len(steps)
    if version > newest:
        raise StateError(
            f"{path} has schema {version}, this GoClaw knows up to {newest}: "
            "it was written by a newer version. Install that version, or restore an older backup."
        )
    if version == 0:
        _create(connection, newest)
    for number in range(max(version, 1), newest):
        if version:
            _back_up(connection, path.with_name(f"{path.name}.v{number}.bak"))
            _step(connection, steps[number - 1], number + 1)
    if steps is MIGRATIONS:
        if version < newest and (missing := missing_parts(connection)):
            raise UnfitSchema(missing)
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
        for index in (index for table in metadata.sorted_tables for index in table.indexes if index.name not in found):
            connection.execute(str(CreateIndex(index).compile(dialect=sqlite.dialect())))


def _make(path: Path, version: int) -> None:
    """Make a new file; it gets its name when it is whole: an empty one was not left so by us."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
        fresh.chmod(0o600)
        _create(connection, version)
        connection.execute("PRAGMA journal_mode=WAL")
    fresh.rename(path)


def _create(connection: sqlite3.Connection, version: int) -> None:
    dialect = sqlite.dialect()
    connection.execute("BEGIN IMMEDIATE")
    for table in metadata.sorted_tables:
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    connection.execute(_SEED)
    connection.execute(f"PRAGMA user_version={version}")
    connection.execute("COMMIT")


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    """Make a copy; it gets its name when it is whole: half of one must not pass for a backup."""
    unfinished = target.with_name(f"{target.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(unfinished)) as copy:
        unfinished.chmod(0o600)
        connection.backup(copy)
    unfinished.rename(target)


def _step(connection: sqlite3.Connection, script: str, version: int) -> None:
    """Run one script in one transaction: it applies whole or not at all."""
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{script};\nPRAGMA user_version={version};\nCOMMIT;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
