"""When and how a conversation's context is made smaller, and how well that goes. The how in itself is `context`."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace

from goclaw.clock import Clock
from goclaw.config.schema import CompactionSettings
from goclaw.context.compaction import (
    Basis,
    CompactionPorts,
    Job,
    Ready,
    Source,
    Summarizer,
    SummaryPorts,
    compact,
    is_due,
)
from goclaw.context.health import CompactionHealth
from goclaw.context.thinning import thinnable_before
from goclaw.errors import ConfigError
from goclaw.events import Notice, TurnEvent
from goclaw.llm.base import Finished
from goclaw.sessions.models import Models
from goclaw.sessions.state import VIEW, Session
from goclaw.store.settings import Settings
from goclaw.store.spending import Purpose
from goclaw.store.transcripts import StoredCompaction, Transcripts

log = logging.getLogger(__name__)

FEWEST_KEPT = 2
"""Messages that /compact keeps at least: the last question and its answer."""
LEAST_FREED = 0.10
"""Share of the tokens that a compaction must free, else another one right after it would be a loop."""
HEALTH = "summary_health"
"""Under which name the health outlives a restart."""
NOTHING = "Nothing to compact: the conversation is short enough to be kept whole."


@dataclass(frozen=True, slots=True)
class CompactorPorts:
    """What compaction stands on."""

    clock: Clock
    models: Models
    publish: Callable[[TurnEvent], None]
    settings: CompactionSettings
    spent: Callable[[str, Purpose, Finished], Awaitable[None]]
    """Books an answer of a summariser to a session."""
    stored: Settings
    transcripts: Transcripts
    checkpoint: Callable[[str], Awaitable[Ready | None]]
    """The session's latest checkpoint that still stands for a part of its context."""


class Compactor:
    """Compacts conversations. One object for all of them: they share the health of the summary chain."""

    def __init__(self, ports: CompactorPorts) -> None:
        self._ports = ports
        settings = ports.settings
        self.health = CompactionHealth(ports.clock, settings.failure_threshold, settings.reset_minutes)

    async def restore(self) -> None:
        """Take up the health of an earlier run."""
        self.health.restore(await self._ports.stored.fact(HEALTH))

    async def make_room(self, session: Session, context_window: int, *, too_long: bool) -> None:
        """Before a request: do what a /compact asked for, else compact if it is due or the provider said so."""
        request, session.compact_request = session.compact_request, None
        if request is not None:
            await request.report(await self.compact(session, request.instructions, forced=True))
            return
        session.window.fit_results(context_window)
        if not too_long and not self._is_due(session, context_window):
            return
        # Cheaper than a summary, and no word of a person is lost.
        if await self._thin(session) and not too_long and not self._is_due(session, context_window):
            return
        if too_long or self._helps(session):
            await self.compact(session)

    def _is_due(self, session: Session, context_window: int) -> bool:
        tokens = session.window.tokens(session.overhead)
        return is_due(session.window, tokens, context_window, self._ports.settings)

    async def _thin(self, session: Session) -> bool:
        """Show older results of tools in short, if that frees enough to be worth a new prefix in the cache."""
        window = session.window
        before = thinnable_before(window.entries)
        if before <= window.view.thinned_before:
            return False
        view = replace(window.view, thinned_before=before)
        worth = LEAST_FREED * window.tokens(session.overhead)
        if window.would_free(view) < worth:
            return False
        freed = window.see(view)
        await self._ports.stored.set(session.key, VIEW, asdict(view))
        log.info("older results of tools are shown in short: about %d tokens freed", freed)
        return True

    def _helps(self, session: Session) -> bool:
        """Whether the conversation has grown since a compaction that freed next to nothing."""
        return session.window.tokens(session.overhead) > session.useless_at * (1 + LEAST_FREED)

    async def compact(self, session: Session, instructions: str = "", *, forced: bool = False) -> str:
        """Compact now; returns the lines of `/compact`. `forced`: a person wants it, however short it is."""
        async with session.lock:
            session.compacting = True
            self._ports.publish(Notice(session.key, "compacting the context"))
            try:
                done = await self._compact(session, instructions, forced=forced)
            finally:
                session.compacting = False
        if done is None:
            return NOTHING
        text = self._judged(session, done)
        if not forced:  # who asked for it reads the answer, the others are told
            self._ports.publish(Notice(session.key, text))
        return text

    def _judged(self, session: Session, done: StoredCompaction) -> str:
        """What was done, in words; a compaction that did next to nothing is remembered."""
        text = f"Compaction completed!\n  Tokens before: {done.tokens_before:,}\n  Summary source: {done.source}"
        freed = done.tokens_before - done.tokens_after
        more = [f"Tokens after: {done.tokens_after:,} ({max(0, freed):,} freed)"]
        useless = freed < LEAST_FREED * done.tokens_before
        session.useless_at = done.tokens_after if useless else 0
        if useless:
            more.append(
                "That is next to nothing: what is left is the prompt, the tools and the last messages. "
                "Try /clear, or a model with a larger window."
            )
        if done.retry_owed:
            more.append(f"{self._trouble()} A summary is written as soon as a model can; nothing is lost meanwhile.")
        return "\n\n".join([text, *more])

    def _trouble(self) -> str:
        return f"No summary could be made: {self.health.reason}." if self.health.reason else "No model could summarise."

    async def _compact(self, session: Session, instructions: str, *, forced: bool) -> StoredCompaction | None:
        try:
            context_window = (await self._ports.models.agent(session.key)).context_window
        except ConfigError:
            context_window = self._ports.settings.reserve_tokens
        settings = self._ports.settings
        if forced:
            settings = settings.model_copy(update={"min_messages": FEWEST_KEPT})
        ready = await self._ports.checkpoint(session.key) if settings.prefer_checkpoint and not forced else None
        job = Job(
            tokens_before=session.window.tokens(session.overhead),
            overhead=session.overhead,
            budget=max(0, int(context_window // 2 / session.window.scale) - session.overhead),
            instructions=instructions,
            checkpoint=ready,
        )

        async def keep(compaction: StoredCompaction) -> None:
            await self._ports.transcripts.add_compaction(session.key, compaction)

        async def originals(before: int) -> Basis:
            summary, stored = await self._ports.transcripts.originals(session.key, before)
            return Basis(summary, [message.message for message in stored])

        async with self.attempt(session.key) as attempt:
            ports = CompactionPorts(keep, originals, attempt.ports)
            done = await compact(session.window, await attempt.summarizers(), settings, job, ports)
            if done is not None:
                attempt.ended(Source(done.source))
            return done

    @property
    def full_timeout(self) -> float:
        """Seconds that an answer may take for which nobody waits."""
        return self._ports.settings.full_timeout_seconds

    def attempt(self, session: str, purpose: Purpose = "summary") -> "Attempt":
        """One search for a summary: who may be asked, and what the health learns from it."""
        return Attempt(session, purpose, self.health, self._ports)


class Attempt:
    """An async context manager around one search for a summary."""

    def __init__(self, session: str, purpose: Purpose, health: CompactionHealth, ports: CompactorPorts) -> None:
        self._session = session
        self._purpose: Purpose = purpose
        self._health = health
        self._ports = ports
        self._admitted = False
        self._asked = False
        self._before = health.failures

    @property
    def ports(self) -> SummaryPorts:
        """What the writing of the summary stands on."""
        return SummaryPorts(self._ports.clock, self._spent, self._failed)

    async def __aenter__(self) -> "Attempt":
        self._admitted = self._health.admit()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._admitted:
            self._health.release()
        # Whoever is stopped must not wait for the disk on the way out; the next attempt writes it, too.
        if self._asked and kind is None:
            await self._ports.stored.learn(HEALTH, self._health.state())

    async def summarizers(self) -> Sequence[Summarizer]:
        """Who may be asked, the first choice first; the summary chain only while it is well."""
        try:
            found = await self._ports.models.summarizers()
        except ConfigError:
            return ()
        return [item for item in found if item.source is not Source.LLM or self._admitted]

    def ended(self, source: Source) -> None:
        """A source gave the summary."""
        if source is Source.LLM:
            if self._before >= self._health.threshold:
                self._say("Summaries are written by the summary model again.")
            self._asked = True
            self._health.record(worked=True)

    def _failed(self, source: Source, reason: str) -> None:
        if source is not Source.LLM:
            self._health.reason = reason
            return
        self._asked = True
        self._health.record(worked=False, reason=reason)
        # Told when it begins and when the chain is given up for a while; not in between, and not of what nobody awaits.
        if self._purpose != "summary":
            log.warning("no %s by the summary model: %s", self._purpose, reason)
        elif self._before == 0 or (self._health.degraded and self._before < self._health.threshold):
            self._say(f"No summary by the summary model: {reason}. {self._remedy()}")

    def _remedy(self) -> str:
        if self._health.degraded:
            minutes = self._health.reset_in / 60
            return f"The main model is used instead; the next try is in {minutes:.0f} min."
        return "The main model is used instead."

    def _say(self, text: str) -> None:
        log.warning("%s", text)
        self._ports.publish(Notice(self._session, text))

    async def _spent(self, finished: Finished) -> None:
        await self._ports.spent(self._session, self._purpose, finished)
