"""Conversations that are long, or many, already when the daemon starts."""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.open import open_database
from goclaw.durable.store.sqlite.database import run
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of

QUESTION = "What did we say about the harbour, and which of the boats was it that came back late? " * 2
ANSWER = "The blue one. It left at six with two people on board and was back after dark, because of the wind. " * 2
"""About 200 characters each: what people write in chats, and what a short answer is."""
OUTPUT = "".join(f"{number:06}  the log of the harbour, as a command prints it\n" for number in range(600))
"""What a tool returned: about 30 kB, the most that a model is shown of a command."""
TURNS_OF_A_SESSION, TURNS_AT_ONCE = 50, 500


async def write_history(database: Path, sessions: Iterable[str], messages: int) -> None:
    """Give every session a conversation of so many messages, questions and answers in turn."""
    async with open_database(database) as opened:
        transcripts = Transcripts(opened)
        for session in sessions:
            statements = [transcripts.ensure_session(session, 0.0)]
            for number in range(messages // 2):
                turn = f"history:{session}:{number}"
                question = Origin(session, turn, "user", 0.0, session, "<context>Friday 2026-11-20</context>")
                statements += rows_of(UserMessage(f"{number}. {QUESTION}"), question)
                statements += rows_of(AssistantMessage(f"{number}. {ANSWER}"), Origin(session, turn, "model:1", 0.0))
            await opened.write(*statements)


async def fill(database: Path, size: int) -> None:
    """Make a database of so many bytes: conversations with tools, most of it their results, in sessions of nobody.

    The rows are the product's own. They are written past its writer, with nothing that a crash would need.
    """
    async with open_database(database) as opened:
        transcripts = Transcripts(opened)
    turns = size // len(OUTPUT)
    await asyncio.to_thread(_write_turns, database, transcripts, turns)


def _write_turns(database: Path, transcripts: Transcripts, turns: int) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        for first in range(0, turns, TURNS_AT_ONCE):
            connection.execute("BEGIN")
            for number in range(first, min(first + TURNS_AT_ONCE, turns)):
                for statement in _turn(transcripts, number):
                    run(connection, statement)
            connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")


def _turn(transcripts: Transcripts, number: int) -> Iterator[BoundStatement]:
    session, turn = f"telegram:{9_000_000 + number // TURNS_OF_A_SESSION}", f"history:{number}"
    if number % TURNS_OF_A_SESSION == 0:
        yield transcripts.ensure_session(session, 0.0)
    call = ToolCall(f"call_{number}", "exec", {"command": "cat harbour.log"})
    yield from rows_of(UserMessage(f"{number}. {QUESTION}"), Origin(session, turn, "user", 0.0, session))
    yield from rows_of(AssistantMessage("", (call,)), Origin(session, turn, "model:1", 0.0))
    yield from rows_of(ToolResult(call.id, call.name, OUTPUT), Origin(session, turn, f"tool:{call.id}", 0.0))
    yield from rows_of(AssistantMessage(f"{number}. {ANSWER}"), Origin(session, turn, "model:2", 0.0))
