"""Conversations that are long already when the daemon starts."""

from collections.abc import Iterable
from pathlib import Path

from goclaw.core.messages import AssistantMessage, UserMessage
from goclaw.store.database import open_database
from goclaw.store.transcripts import Origin, Transcripts, rows_of

QUESTION = "What did we say about the harbour, and which of the boats was it that came back late? " * 2
ANSWER = "The blue one. It left at six with two people on board and was back after dark, because of the wind. " * 2
"""About 200 characters each: what people write in chats, and what a short answer is."""


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
