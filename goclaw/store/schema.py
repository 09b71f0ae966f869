"""The tables, as SQLAlchemy Core, and bringing a database file up to them. SQLite today; Postgres later.

Times are seconds since the epoch; what is JSON is kept as text. Nothing here is ever deleted by the daemon but `steps`
(a turn's scratch journal, gone when the turn has ended), settled rows of `inbox` and `deliveries` past their keep time,
and conversations that were ordered to be forgotten (`/forget`, `retention.days`).

A new file is made whole, an old one is backed up and changed step by step. The version is SQLite's `user_version`. A
step never changes once released; a new one is appended.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from goclaw.config.state import Locality
from goclaw.errors import StateError
from goclaw.health.resources import disk_error

metadata = MetaData()

LOCALITY = "locality"
"""Key of `Table.info`: which processes of a deployment need the table's rows, a `Locality`."""
_SHARED = {LOCALITY: Locality.SHARED}

ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself only for plain INTEGER keys."""

sessions = Table(
    "sessions",
    metadata,
    Column("key", String, primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("context_start", ROW_ID, nullable=False, server_default="0", doc="`/clear` hides rows up to this one."),
    info=_SHARED,
)

messages = Table(
    "messages",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("turn", String, nullable=False, doc="The inbox id that this belongs to."),
    Column("step", String, nullable=False, doc="The step whose transaction wrote it."),
    Column("role", String, nullable=False, doc="user, assistant, tool_use or tool_result"),
    Column("text", Text, nullable=False),
    Column("name", String, doc="Tool name of tool_use and tool_result."),
    Column("call_id", String, doc="Pairs a tool_use with its tool_result."),
    Column("input", Text, doc="Arguments of a tool_use."),
    Column("is_error", Boolean, nullable=False, server_default="0"),
    Column("images", Text, doc="Pictures of a user message or of a result: [[blob, mime], …]."),
    Column(
        "material",
        Text,
        doc="Of a user's text what was not said now: [[start, end, origin, kind, author], …]; of a result its kind.",
    ),
    Column("hint", Text, doc="What came of a call, in one line for people."),
    Column("call_hint", Text, doc="Beside its result, what a call did, in one line for people."),
    Column("artifacts", Text, doc="What a call kept for people: [[blob, mime, kind, name, size], …]."),
    Column("context", Text, nullable=False, server_default="", doc="Time, sender, channel: sent before a user's text."),
    Column("native_provider", String, doc="Whose native form `native` is."),
    Column("native_schema", Integer),
    Column("native", Text, doc="An answer as its provider wants it replayed: opaque."),
    Column("sender", String, nullable=False, server_default="", doc="Actor key of a user message."),
    Column("created_at", Float, nullable=False),
    Index("messages_by_session", "session", "id"),
    Index("messages_with_images", "session", "id", sqlite_where=text("images IS NOT NULL")),
    Index("messages_with_artifacts", "session", "id", sqlite_where=text("artifacts IS NOT NULL")),
    info=_SHARED,
)

compactions = Table(
    "compactions",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("summary", Text, nullable=False),
    Column("source", String, nullable=False, doc="checkpoint, LLM, fallback model, emergency truncation; cleared"),
    Column("first_kept", ROW_ID, nullable=False, doc="Row id of the first message that the context still holds."),
    Column("tokens_before", Integer, nullable=False),
    Column("tokens_after", Integer, nullable=False),
    Column("retry_owed", Boolean, nullable=False, server_default="0"),
    Column("pays", ROW_ID, doc="The compaction whose summary this one replaces."),
    Column("outside", Text, doc="Sources outside the conversation of what it stands for: [source, …]."),
    Index("compactions_by_session", "session", "id"),
    info=_SHARED,
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("covers_to", ROW_ID, nullable=False, doc="Row id of the last message that it covers."),
    Column("tokens", Integer, nullable=False, doc="Size of the context when it was made."),
    Column("body", Text, nullable=False, doc="The Checkpoint: summary, topics, key decisions, open questions."),
    Index("checkpoints_by_session", "session", "id"),
    info=_SHARED,
)

usage = Table(
    "usage",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("session", String, nullable=False),
    Column("turn", String, nullable=False),
    Column("purpose", String, nullable=False, doc="answer, summary, checkpoint, flush or sampling"),
    Column("model", String, nullable=False, doc="The model that answered, `provider:name`."),
    Column("input", Integer, nullable=False, doc="Tokens, with what the provider read from and wrote to its cache."),
    Column("output", Integer, nullable=False),
    Column("cache_read", Integer, nullable=False),
    Column("cache_write", Integer, nullable=False),
    Column("cost", Float, doc="US dollars; empty where the price is unknown."),
    Column("created_at", Float, nullable=False),
    Column("person", String, nullable=False, server_default="", doc="Actor key of whoever it was for, for two days."),
    Index("usage_by_session", "session", "id"),
    Index("usage_by_time", "created_at"),
    Index("usage_by_person", "person", "created_at"),
    info=_SHARED,
)

session_settings = Table(
    "session_settings",
    metadata,
    Column("session", String, primary_key=True),
    Column("name", String, primary_key=True, doc="model, todos …"),
    Column("value", Text, nullable=False),
    info=_SHARED,
)

daemon_facts = Table(
    "daemon_facts",
    metadata,
    Column("name", String, primary_key=True, doc="What the daemon remembers over restarts: the health of summaries …"),
    Column("value", Text, nullable=False),
    info=_SHARED,
)

inbox = Table(
    "inbox",
    metadata,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of arrival."),
    Column("id", String, nullable=False),
    Column("session", String, nullable=False),
    Column("kind", String, nullable=False, doc="message or compact"),
    Column("body", Text, nullable=False, doc="The Inbound."),
    Column("state", String, nullable=False, doc="new, next (it takes another's place), stopping or done"),
    Column("received_at", Float, nullable=False),
    Column("ended_at", Float),
    UniqueConstraint("id", name="inbox_id"),
    Index("inbox_open", "state", "seq"),
    info=_SHARED,
)

steps = Table(
    "steps",
    metadata,
    Column("turn", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("state", String, nullable=False, doc="intent, parked or done"),
    Column("output", Text, doc="The outcome; of a parked step the question."),
    info=_SHARED,
)

approval_rules = Table(
    "approval_rules",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("question", String, nullable=False, doc="The approval that it was made with."),
    Column("holder", String, nullable=False, doc="Actor key of the person for whom it holds."),
    Column("tool", String, nullable=False),
    Column("place", Text, nullable=False, doc="Containment and workspace that it holds in, as JSON."),
    Column("pattern", Text, nullable=False, doc="What is allowed, as the tool says it."),
    Column("label", Text, nullable=False, doc="The same for people."),
    Column("made_by", String, nullable=False, doc="Actor key of whoever approved."),
    Column("by_owner", Boolean, nullable=False, doc="Whether that was the owner of the state folder."),
    Column("made_at", Float, nullable=False),
    UniqueConstraint("question", "pattern", name="approval_rules_once"),
    Index("approval_rules_by_holder", "holder", "tool"),
    info=_SHARED,
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", String, primary_key=True),
    Column("session", String, nullable=False),
    Column("person", String, nullable=False, doc="Actor key of whoever it runs for."),
    Column("label", Text, nullable=False, doc="The command, for people."),
    Column("output", String, nullable=False, doc="Where all that it said is kept."),
    Column("began_at", Float, nullable=False),
    Column("state", String, nullable=False, doc="running, completed, failed, stopped or lost"),
    Column("ended_at", Float),
    Column("code", Integer, doc="Exit code."),
    Column("note", Text, nullable=False),
    Column("told", Boolean, nullable=False, doc="Whether the model knows of its end."),
    Index("tasks_by_session", "session", "person"),
    info=_SHARED,
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of delivery within a chat."),
    Column("id", String, nullable=False),
    Column("channel", String, nullable=False),
    Column("chat", String, nullable=False),
    Column("body", Text, nullable=False, doc="The Delivery."),
    Column("state", String, nullable=False, doc="pending, sending, sent or failed"),
    Column("receipt", Text),
    Column("error", Text),
    Column("progress", Text, doc="What is there already of a message in several parts."),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("id", name="deliveries_id"),
    Index("deliveries_open", "state", "seq"),
    info=_SHARED,
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("name", String, nullable=False),
    Column("person", String, nullable=False, doc="Actor key of its maker."),
    Column("body", Text, nullable=False, doc="The Job."),
    Column("state", String, nullable=False, doc="active, paused, stopped or done"),
    Column("next", Float, doc="When it is due; empty unless it is active."),
    Column("running", String, nullable=False, server_default="", doc="The turn of its run that has not ended."),
    Column("failures", Integer, nullable=False, server_default="0", doc="Failed runs since one that went well."),
    Column("note", Text, nullable=False, server_default="", doc="Why it was stopped, for people."),
    Column("made_at", Float, nullable=False),
    UniqueConstraint("name", name="schedules_name"),
    Index("schedules_by_next", "next", sqlite_where=text("next IS NOT NULL")),
    Index("schedules_by_person", "person"),
    sqlite_autoincrement=True,  # ids of runs begin with the job's: one of a job that is gone must not come again
    info=_SHARED,
)

schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("job", ROW_ID, nullable=False),
    Column("due", Float, nullable=False),
    Column("state", String, nullable=False, doc="running, done, failed, stopped or missed"),
    Column("turn", String, nullable=False, doc="The id of its turn or delivery."),
    Column("began_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("text", Text, nullable=False, server_default="", doc="The beginning of its answer, or what went wrong."),
    Column("cost", Float, doc="US dollars."),
    UniqueConstraint("job", "due", name="schedule_runs_once"),
    Index("schedule_runs_by_turn", "turn"),
    info=_SHARED,
)

held_messages = Table(
    "held_messages",
    metadata,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True, doc="Order of arrival."),
    Column("id", String, nullable=False, doc="The id of the delivery."),
    Column("session", String, nullable=False),
    Column("person", String, nullable=False, doc="Actor key of the person for whom it was made."),
    Column("chat", String, nullable=False, doc="Channel, chat and thread."),
    Column("body", Text, nullable=False, doc="The Delivery."),
    Column("held_at", Float, nullable=False),
    Column("until", Float, doc="When quiet hours end; empty: it has gone."),
    UniqueConstraint("id", name="held_messages_id"),
    Index("held_messages_by_until", "until", sqlite_where=text("until IS NOT NULL")),
    info=_SHARED,
)


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
MATERIAL_KEY = "material_key"
"""Key for the marks around foreign text (`agent.context.untrusted_content`): in the file, out of reach of tools."""
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
MIGRATIONS: Sequence[str] = (_TO_2, _TO_3, _TO_4, _TO_5)
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
        _make_indexes(connection)


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


def _make_indexes(connection: sqlite3.Connection) -> None:
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    for index in (index for table in metadata.sorted_tables for index in table.indexes if index.name not in found):
        connection.execute(str(CreateIndex(index).compile(dialect=sqlite.dialect())))


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
