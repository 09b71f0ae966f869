"""What a conversation needs in memory, and the two things people ask of it: /clear and /compact."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from goclaw.clock import Clock
from goclaw.config.schema import CompactionSettings
from goclaw.context.compaction import Source, compact, is_due
from goclaw.context.health import CompactionHealth
from goclaw.context.window import Window
from goclaw.errors import ConfigError
from goclaw.events import Notice, Todo, TurnEvent
from goclaw.sessions.models import Models
from goclaw.store.settings import Settings
from goclaw.store.transcripts import StoredCompaction, Transcripts

log = logging.getLogger(__name__)

FEWEST_KEPT = 2
"""Messages that /compact keeps at least: the last question and its answer."""
SESSIONS_IN_MEMORY = 200
"""Conversations whose window stays loaded; the least recently used one goes, and is read again when it is needed."""


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """Somebody's /compact while a turn runs."""

    instructions: str
    report: Callable[[str], Awaitable[None]]
    """Takes the command's answer to whoever asked."""


@dataclass(slots=True)
class Session:
    """One conversation in memory."""

    key: str
    window: Window
    overhead: int = 0
    """Tokens of system prompt and tools in the latest request."""
    compacting: bool = False
    compact_request: CompactRequest | None = None
    running: bool = False
    """A turn works with it: it must stay in memory."""
    todos: tuple[Todo, ...] = ()
    """What the agent has noted as to be done."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the window is rebuilt."""


class Contexts:
    """The windows of all conversations."""

    def __init__(
        self,
        transcripts: Transcripts,
        stored: Settings,
        models: Models,
        settings: CompactionSettings,
        clock: Clock,
        publish: Callable[[TurnEvent], None],
    ) -> None:
        self._transcripts = transcripts
        self._stored = stored
        self._models = models
        self._settings = settings
        self._clock = clock
        self._publish = publish
        self._loaded: OrderedDict[str, Session] = OrderedDict()
        self.health = CompactionHealth(clock)

    async def session(self, key: str) -> Session:
        """The conversation, read from the store if it is not in memory."""
        session = self._loaded.get(key)
        if session is None:
            settings = await self._stored.of_session(key)
            todos = tuple(Todo(**todo) for todo in settings.get("todos", ()))
            fresh = Session(key, Window.of(*await self._transcripts.context(key)), todos=todos)
            session = self._loaded.setdefault(key, fresh)
        self._loaded.move_to_end(key)
        if len(self._loaded) > SESSIONS_IN_MEMORY:
            idle = next((known for known in self._loaded.values() if not known.running and known is not session), None)
            if idle is not None:
                del self._loaded[idle.key]
        return session

    @asynccontextmanager
    async def working(self, key: str) -> AsyncIterator[Session]:
        """The conversation for a turn of it."""
        session = await self.session(key)
        session.running = True
        try:
            yield session
        finally:
            session.running = False

    def forget(self, key: str) -> None:
        """Drop a conversation from memory (a turn of it ended half-way): the store knows better."""
        self._loaded.pop(key, None)

    async def clear(self, key: str, running_turn: str) -> None:
        """Start an empty context. What the turn that runs has said so far stays, so that it can go on."""
        last = await self._transcripts.clear(key, but_turn=running_turn, at=self._clock.now())
        if key in self._loaded:
            self._loaded[key].window.keep_from(last + 1)

    async def make_room(self, session: Session, context_window: int, *, too_long: bool) -> None:
        """Before a request: do what a /compact asked for, else compact if it is due or the provider said so."""
        request, session.compact_request = session.compact_request, None
        if request is not None:
            await request.report(await self.compact(session, request.instructions, forced=True))
            return
        tokens = session.window.tokens(session.overhead)
        if too_long or is_due(session.window, tokens, context_window, self._settings):
            await self.compact(session)

    async def compact(self, session: Session, instructions: str = "", *, forced: bool = False) -> str:
        """Compact now; returns the lines of `/compact`. `forced`: a person wants it, however short it is."""
        async with session.lock:
            session.compacting = True
            self._publish(Notice(session.key, "compacting the context"))
            try:
                settings = self._settings
                if forced:
                    settings = settings.model_copy(update={"min_messages": FEWEST_KEPT})
                done = await self._compact(session, instructions, settings)
            finally:
                session.compacting = False
        if done is None:
            return "Nothing to compact: the conversation is short enough to be kept whole."
        text = f"Compaction completed!\n  Tokens before: {done.tokens_before:,}\n  Summary source: {done.source}"
        if not forced:  # who asked for it reads the answer, the others are told
            self._publish(Notice(session.key, text))
        return f"{text}\n\nTokens after: {done.tokens_after:,}"

    async def _compact(
        self, session: Session, instructions: str, settings: CompactionSettings
    ) -> StoredCompaction | None:
        try:
            summarizers = await self._models.summarizers()
            context_window = (await self._models.agent()).context_window
        except ConfigError:
            summarizers, context_window = [], self._settings.reserve_tokens
        degraded = self.health.degraded
        if degraded:
            summarizers = [summarizer for summarizer in summarizers if summarizer.source is not Source.LLM]
        done = await compact(
            session.window,
            summarizers,
            settings,
            self._clock,
            tokens_before=session.window.tokens(session.overhead),
            overhead=session.overhead,
            budget=max(0, context_window // 2 - session.overhead),
            instructions=instructions,
            keep=lambda compaction: self._transcripts.add_compaction(session.key, compaction),
        )
        if done and not degraded:
            asked = any(summarizer.source is Source.LLM for summarizer in summarizers)
            self.health.record(worked=done.source == Source.LLM or not asked)
        return done
