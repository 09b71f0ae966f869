"""Messages to Postgres for statements and transactions, and its replies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psycopg import AsyncCursor

from goclaw.durable.store.database import BoundStatement, StatementResult, Transaction
from goclaw.durable.store.postgres.connecting import Connection, PostgresRow
from goclaw.durable.store.postgres.schema import DIALECT

_CHECK = b"SELECT check_epoch(%s, %s)"


def bind(statement: BoundStatement) -> tuple[bytes, Mapping[str, Any]]:
    """Return a statement's text and its values, without the character NUL, which no text of Postgres can have."""
    text, values = statement.compile(DIALECT)
    for name, value in values.items():
        if isinstance(value, str) and "\0" in value:
            values[name] = value.replace("\0", "")
        elif isinstance(value, list):
            values[name] = [each.replace("\0", "") if isinstance(each, str) else each for each in value]
    return text.encode(), values


async def send(writer: Connection, transaction: Transaction) -> list[AsyncCursor[PostgresRow]]:
    """Send the statements of a transaction, after the check of its epoch; return their cursors."""
    if transaction.fence is not None:
        await writer.execute(_CHECK, (transaction.fence.session, transaction.fence.epoch))
    return [await writer.execute(*bind(one)) for one in transaction.statements]


async def result_of(cursor: AsyncCursor[PostgresRow]) -> StatementResult:
    """Return the result of a statement."""
    rows = await cursor.fetchall() if cursor.description else []
    made = rows[0][0] if rows and (cursor.statusmessage or "").startswith("INSERT") else 0
    return StatementResult(cursor.rowcount, made if isinstance(made, int) else 0, rows)


def behind(group: Sequence[Transaction]) -> Iterator[BoundStatement]:
    """Return the statements to run after the commit of a group."""
    for transaction in group:
        for each in transaction.statements:
            if each.statement.behind is not None:
                yield each.statement.behind(**each.values)
