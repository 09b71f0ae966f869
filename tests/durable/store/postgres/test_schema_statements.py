"""Every table and every statement of the product is taken by Postgres, and lists have an order there, too."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pkgutil import resolve_name

import psycopg
import pytest
from psycopg import pq
from sqlalchemy import Boolean, Float, Integer, Select, types

import goclaw
from goclaw.durable.store.database import Statement
from goclaw.durable.store.postgres.ownership_schema import jobs_schema
from goclaw.durable.store.postgres.schema import DIALECT, STEPS, definitions
from goclaw.durable.store.postgres.stored_files import files_metadata
from goclaw.durable.store.schema import metadata
from tests.postgres import NEWEST, OLDEST, running

_PROGRAMS = re.compile(r"__main__|broker_main|_worker$")
_ONE_ROW = re.compile(r"^SELECT (count|min|max|coalesce|sum|EXISTS|\(EXISTS)\b", re.IGNORECASE)
SETS = {
    "goclaw.durable.engine.statements.KNOWN": "one row",
    "goclaw.durable.engine.statements.STEPS": "a mapping by the step's name",
    "goclaw.durable.engine.views.stored_views._STATE": "one row",
    "goclaw.durable.engine.statements.MEETS": "one row",
    "goclaw.durable.engine.outbox._ONE": "one row",
    "goclaw.durable.engine.outbox._OF_MESSAGE": "asked whether any of them asks a question",
    "goclaw.conversation.schedules.quiet_hours._KNOWN": "one row",
    "goclaw.conversation.schedules.rows._NAMED": "one row",
    "goclaw.conversation.schedules.rows._ONE": "one row",
    "goclaw.conversation.schedules.rows._RUN_EXISTS": "one row",
    "goclaw.conversation.schedules.rows._LATEST_RUNS": "a mapping by job",
    "goclaw.durable.store.channel_state._LOCK": "one row",
    "goclaw.durable.store.file_labels._OF": "a mapping by path",
    "goclaw.durable.store.media.PICTURES": "a set of keys",
    "goclaw.durable.store.channel_state._OUTCOME": "one row",
    "goclaw.durable.store.channel_state._PREVIEWS": "a mapping by key",
    "goclaw.durable.store.channel_state._REMAINING": "one row",
    "goclaw.durable.store.forgetting._TASKS": "a set",
    "goclaw.durable.store.forgetting._IMAGES": "a set",
    "goclaw.durable.store.forgetting._ARTIFACTS": "a set",
    "goclaw.durable.store.forgetting._RESULTS": "a set",
    "goclaw.durable.store.forgetting._SENDERS": "a set",
    "goclaw.durable.store.forgetting._SENT": "a set",
    "goclaw.durable.store.forgetting._ATTACHED": "a set",
    "goclaw.durable.store.forgetting._ALL_IMAGES": "a set",
    "goclaw.durable.store.forgetting._ALL_SENT": "a set",
    "goclaw.durable.store.forgetting._OLD_SENT": "a set",
    "goclaw.durable.store.media.SHOWN": "a set",
    "goclaw.durable.store.media.ARTIFACTS": "a set",
    "goclaw.durable.store.media.ON_THEIR_WAY": "a set",
    "goclaw.durable.store.media.ATTACHED": "a set",
    "goclaw.durable.store.postgres.documents.LOCK_ENTRY": "one row",
    "goclaw.durable.store.postgres.stored_files._ENTRY": "one row",
    "goclaw.durable.store.reading._START": "one row",
    "goclaw.durable.store.reading._SHOWS": "asked whether there is any",
    "goclaw.durable.store.reading._KEPT": "any of them has the name",
    "goclaw.durable.store.reading._AT": "one row",
    "goclaw.durable.store.reading._UNSETTLED": "asked whether there is any",
    "goclaw.durable.store.reading._EXTENTS": "a mapping by session",
    "goclaw.durable.store.settings._ALL": "a mapping by name",
    "goclaw.durable.store.settings.FACT": "one row",
    "goclaw.durable.store.spending._AGENTS": "a set",
    "goclaw.durable.store.transcripts._START": "one row",
}
"""Queries without an order, and why they need none."""


def statements() -> dict[str, Statement]:
    """Every statement of a module of the product, by its name."""
    found: dict[int, tuple[str, Statement]] = {}
    for module in pkgutil.walk_packages(goclaw.__path__, "goclaw."):
        if _PROGRAMS.search(module.name) or module.name == "goclaw.testing":
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:
            continue  # of an extra that is not installed
        for name, value in vars(loaded).items():
            for suffix, each in members(value):
                found.setdefault(id(each), (f"{module.name}.{name}{suffix}", each))
    return dict(found.values())


def members(value: object) -> Iterator[tuple[str, Statement]]:
    """The statements that a constant is or holds."""
    if isinstance(value, Statement):
        yield "", value
    elif isinstance(value, dict):
        yield from ((f"[{key}]", each) for key, each in value.items() if isinstance(each, Statement))
    elif isinstance(value, list | tuple):
        yield from ((f"[{number}]", each) for number, each in enumerate(value) if isinstance(each, Statement))


def numbered(statement: Statement) -> tuple[str, list[int]]:
    """Its text for Postgres with `$1` …, and the types that psycopg gives the values (0: Postgres decides)."""
    compiled = statement.clause.compile(dialect=DIALECT)
    names = list[str]()

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", number, str(compiled))
    return text, [_oid(compiled.binds[name].type) for name in names]  # type: ignore[attr-defined]  # SQLCompiler's


def _oid(kind: types.TypeEngine[object]) -> int:
    name = {Boolean: "bool", Float: "float8", Integer: "int8"}.get(type(kind), "")
    return psycopg.postgres.types[name].oid if name else 0


@pytest.mark.parametrize("major", [OLDEST, NEWEST])
def test_every_statement_of_the_product_is_taken_by_postgres(major: int) -> None:
    known = statements()
    assert len(known) > 130, "statements of the product were not found"
    refused = {}
    with running(major) as server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(jobs_schema())
        for definition in (*definitions(), *(step.of_new_schema for step in STEPS)):
            connection.execute(definition.encode())
        for name, statement in known.items():
            text, kinds = numbered(statement)
            result = connection.pgconn.prepare(b"", text.encode(), kinds)
            if result.status != pq.ExecStatus.COMMAND_OK:
                refused[name] = f"{result.error_message.decode()}: {text}"
    assert refused == {}


def test_tables_on_postgres_compare_text_by_its_bytes_and_keep_partial_indexes() -> None:
    with running() as server, psycopg.connect(server.url, autocommit=True) as connection:
        for definition in definitions():
            connection.execute(definition.encode())
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        texts = "SELECT table_name, column_name, collation_name FROM information_schema.columns"
        of_ours = "WHERE table_schema = 'public' AND data_type IN ('text', 'character varying')"
        collations = connection.execute(f"{texts} {of_ours}").fetchall()
        partial = connection.execute("SELECT indexname FROM pg_indexes WHERE indexdef LIKE '% WHERE %'").fetchall()
    assert {name for (name,) in tables} == metadata.tables.keys() | files_metadata.tables.keys()
    assert len(collations) > 50
    assert [each for each in collations if each[2] != "C"] == []
    conditional = {
        index.name
        for table in metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    }
    assert len(conditional) == 4
    assert {name for (name,) in partial} == conditional


def test_every_list_has_an_order_or_says_why_it_needs_none() -> None:
    unordered = {id(resolve_name(name)): name for name in SETS}
    without, known = set(), statements()
    for name, statement in known.items():
        if not isinstance(statement.clause, Select):
            continue
        if id(statement) in unordered:
            del unordered[id(statement)]
            continue
        text = " ".join(str(statement.clause.compile(dialect=DIALECT)).split())
        ordered = " ORDER BY " in text.rpartition(") ")[2] or " ORDER BY " in text.rpartition(" FROM ")[2]
        if not ordered and not _ONE_ROW.search(text):
            without.add(name)
    assert without == set()
    assert unordered == {}, "no statements, or named twice"
