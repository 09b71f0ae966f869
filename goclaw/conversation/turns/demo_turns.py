"""Exclusion of the demo model's turns from the context of real models.

The demo says in each answer that no AI is connected; a real model that reads this repeats it. While the demo
answers no summary, checkpoint or note is written; the first real model after it sees none of those turns.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace

from goclaw.conversation.sessions.state import DEMO_SINCE, VIEW, Contexts, DemoSince, Session
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.transcripts import LAST_ROW
from goclaw.llm.open import DEMO


class DemoTurns:
    """Notes where the demo began to answer in a session, and leaves its turns out when a real model follows."""

    def __init__(self, contexts: Contexts, stored: Settings) -> None:
        self._contexts = contexts
        self._stored = stored

    async def before_request(
        self, session: Session, turn: str, spec: str, tell: Callable[[str], Awaitable[None]]
    ) -> None:
        """Note the model of the next request.

        Args:
            session: the conversation.
            turn: the running turn, which stays in the context.
            spec: the model.
            tell: sends a line to the people of the conversation when turns of the demo are left out from now on.
        """
        is_demo = spec.partition(":")[0] == DEMO
        since = session.settings.demo
        if is_demo and since is None:
            first = _first_row(session, turn)
            is_whole = not session.window.summary and all(entry.row >= first for entry in session.window.entries)
            await self._note(session, DemoSince(first, is_whole))
        elif since is not None and not is_demo:
            if _shows(session, since, turn):
                # First, because a turn resumed after a crash finds nothing left to report; people are informed once.
                await tell(_describe(spec, since))
            await self._leave_out(session, turn, since)
            await self._note(session, None)

    async def _note(self, session: Session, since: DemoSince | None) -> None:
        await self._stored.set(session.key, DEMO_SINCE, asdict(since) if since else None)
        session.settings.demo = since

    async def _leave_out(self, session: Session, turn: str, since: DemoSince) -> None:
        if since.is_whole:
            await self._contexts.clear(session.key)
            return
        async with session.lock:
            window = session.window
            turns = (since.row, _first_row(session, turn) - 1)
            view = replace(window.view, left_out=(*window.view.left_out, turns))
            window.reduce(view)
            await self._stored.set(session.key, VIEW, asdict(view))


def _first_row(session: Session, turn: str) -> int:
    """Return the first row of the running turn."""
    return next((entry.row for entry in session.window.entries if entry.turn == turn), LAST_ROW)


def _shows(session: Session, since: DemoSince, turn: str) -> bool:
    """Whether the context has anything of the demo's turns; after a /clear it has not."""
    first, window = _first_row(session, turn), session.window
    stub = since.is_whole and bool(window.summary)
    return stub or any(since.row <= entry.row < first for entry in window.entries)


def _describe(spec: str, since: DemoSince) -> str:
    fresh = "starts with a fresh context" if since.is_whole else "continues where a real model stopped"
    return f"{spec} answers now and {fresh}. It does not see your messages with the demo; they stay in the transcript."
