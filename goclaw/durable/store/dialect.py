"""The differences between SQLite and Postgres, as SQLAlchemy elements: a statement is written once.

Text columns have the collation "C" on Postgres, as SQLite compares bytes: the ranges that find a session's agents
(`>= "x:"` and `< "x;"`) would be empty in the order of a language.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Boolean, ColumnElement, DateTime, Float, Insert, Integer, String, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import SyntaxExtension
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import InternalTraversal

ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself only for plain INTEGER keys."""
NAME = String().with_variant(String(collation="C"), "postgresql")
"""Keys, names and states: compared by their bytes."""
TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""Texts of people and models, and JSON: compared by their bytes."""
MOMENT = Float().with_variant(DateTime(timezone=True), "postgresql")
"""A time by the store's own clock (`store_time`): seconds since the epoch in SQLite."""
NUMBERS = Text().with_variant(ARRAY(BigInteger), "postgresql")
"""Several whole numbers in one value (`numbers_of`): JSON in SQLite."""


class OnConflict(SyntaxExtension, ClauseElement):
    """The action of an INSERT when the key exists: nothing, or new values for the row of that key."""

    __visit_name__ = "on_conflict_of_goclaw"
    _traverse_internals: list[tuple[str, InternalTraversal]] = []  # noqa: RUF012 -- SQLAlchemy's own declaration

    def __init__(self, key: Sequence[str] = (), columns: Sequence[str] = ()) -> None:
        """`key`: the columns of the key; `columns`: those that get the values that were to be inserted."""
        self.key = key
        self.columns = columns

    def apply_to_insert(self, insert_stmt: Insert) -> None:
        """Render the clause after the values of an INSERT; called by SQLAlchemy."""
        insert_stmt.apply_syntax_extension_point(lambda existing: [self], "post_values")


@compiles(OnConflict)
def _on_conflict(element: OnConflict, compiler: SQLCompiler, **options: Any) -> str:
    if not element.columns:
        return "ON CONFLICT DO NOTHING"
    quote = compiler.preparer.quote
    values = ", ".join(f"{quote(column)} = excluded.{quote(column)}" for column in element.columns)
    return f"ON CONFLICT ({', '.join(map(quote, element.key))}) DO UPDATE SET {values}"


def _render(function: type[FunctionElement[Any]], **templates: str) -> None:
    """Have SQLAlchemy write a function as the template of each store: `{0}` is its first argument, `{key}` its key."""
    for store, template in templates.items():

        def write(found: FunctionElement[Any], compiler: SQLCompiler, of: str = template, **options: Any) -> str:
            return of.format(*(compiler.process(each, **options) for each in found.clauses), key=found.key)

        compiles(function, store)(write)


class contains(FunctionElement[bool]):
    """Whether a text contains a part: `contains(column, part)`."""

    type = Boolean()
    inherit_cache = True


_render(contains, sqlite="instr({0}, {1}) > 0", postgresql="strpos({0}, {1}) > 0")


class store_time(FunctionElement[float]):
    """The time by the store's clock, which all processes on Postgres have in common; a `MOMENT`."""

    type = MOMENT
    inherit_cache = True


_NOW = "round((julianday('now') - 2440587.5) * 86400.0, 3)"
_render(store_time, sqlite=_NOW, postgresql="clock_timestamp()")


class age_of(FunctionElement[float]):
    """The seconds that have passed since a column's `MOMENT`."""

    type = Float()
    inherit_cache = True


_render(age_of, sqlite=f"({_NOW} - {{0}})", postgresql="extract(epoch FROM clock_timestamp() - {0})::float8")


class numbers_of(FunctionElement[Any]):
    """All values of a column of whole numbers, in no order, as `NUMBERS`."""

    type = NUMBERS
    inherit_cache = True


_render(numbers_of, sqlite="json_group_array({0})", postgresql="array_agg({0})")


class has_number(FunctionElement[bool]):
    """Whether a column of `NUMBERS` has a number: `has_number(column, number)`; false where the column is NULL."""

    type = Boolean()
    inherit_cache = True


_render(
    has_number,
    sqlite="EXISTS (SELECT 1 FROM json_each({0}) WHERE json_each.value = {1})",
    postgresql="coalesce({1} = ANY ({0}), false)",
)


class utc_day(FunctionElement[str]):
    """The day in UTC of a column of epoch seconds: `2026-11-21`."""

    type = String()
    inherit_cache = True


_render(
    utc_day,
    sqlite="date({0}, 'unixepoch')",
    postgresql="to_char(to_timestamp({0}) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
)


class json_text(FunctionElement[str]):
    """A text in a column of JSON: `json_text(column, key)`; NULL where the object has no such key."""

    type = String()
    inherit_cache = False

    def __init__(self, column: ColumnElement[str], key: str) -> None:
        super().__init__(column)
        self.key = key


class json_flag(json_text):
    """Whether a column of JSON says true under a key."""

    type = Boolean()  # type: ignore[assignment]  # another one than of its base, as SQLAlchemy's functions have
    inherit_cache = False


_IN_SQLITE = "json_extract({0}, '$.{key}')"
_IN_POSTGRES = r"(regexp_replace({0}, '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g')::json ->> '{key}')"
"""Postgres opens no JSON in which any text has the character NUL, also not to look at another key."""
_render(json_text, sqlite=_IN_SQLITE, postgresql=_IN_POSTGRES)
_render(json_flag, sqlite=f"coalesce({_IN_SQLITE}, 0) = 1", postgresql=f"coalesce({_IN_POSTGRES} = 'true', false)")


SETTLED_BY = "tx"
"""The column of `messages` on Postgres alone that has the transaction which wrote the row."""


class is_settled(FunctionElement[bool]):
    """Whether no row with a lower number than this one can appear any more: `is_settled(messages.c.id)`.

    SQLite numbers and commits rows in one order. On Postgres a transaction may commit after one that took a higher
    number: a row counts once every transaction has ended that began before its own did.
    """

    type = Boolean()
    inherit_cache = True


_render(is_settled, sqlite="1")


@compiles(is_settled, "postgresql")
def _is_settled_in_postgres(element: is_settled, compiler: SQLCompiler, **options: Any) -> str:
    (column,) = element.clauses
    table = compiler.preparer.format_table(column.table)
    return f"{table}.{SETTLED_BY} < pg_snapshot_xmin(pg_current_snapshot())"


REPLICA = "replica"
"""The column of `steps` and `tasks` on Postgres alone that has the process which wrote the row, by a default."""
SEEN_SECONDS = 10
"""Seconds for which a process that was not seen may live, unless `replica.stall_seconds` says more."""
IS_SEEN = f"seen_at > clock_timestamp() - make_interval(secs => greatest({SEEN_SECONDS}, 1.25 * stall_seconds))"
"""Whether a process, by its row of `replicas`, may live: longer than others wait before they take its sessions."""


class is_of_the_dead(FunctionElement[bool]):
    """Whether the process that wrote a row is gone: `is_of_the_dead(tasks.c.id)`, asked at a start.

    A file of SQLite, and a schema that is not shared, have one process at a time, which wrote nothing before.
    """

    type = Boolean()
    inherit_cache = True


_render(is_of_the_dead, sqlite="1")


@compiles(is_of_the_dead, "postgresql")
def _is_of_the_dead_in_postgres(element: is_of_the_dead, compiler: SQLCompiler, **options: Any) -> str:
    (column,) = element.clauses
    table = compiler.preparer.format_table(column.table)
    lives = f"EXISTS (SELECT 1 FROM replicas WHERE replicas.id = {table}.{REPLICA} AND {IS_SEEN})"  # noqa: S608  # our own
    return f"{table}.{REPLICA} IS DISTINCT FROM current_setting('goclaw.replica', true) AND NOT {lives}"
