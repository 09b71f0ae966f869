"""Decisions when to compact a conversation. How to do it is in `agent.context`, how well it succeeds in `summaries`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from goclaw.common.config.agents import CompressSettings, HistorySettings
from goclaw.common.config.schema import CompactionSettings
from goclaw.common.core.events import Actor, Notice
from goclaw.common.core.supervise import wait_without_cancelling
from goclaw.conversation.agent.context.budget import KEPT_SHARE, SUMMARY_SHARE, is_due, is_full, room
from goclaw.conversation.agent.context.compaction import (
    Basis,
    CompactionGoal,
    ReadyCheckpoint,
    SummarySource,
    compact,
    fit_summary,
)
from goclaw.conversation.agent.context.summary import ANSWER_SHARE, CHECKPOINT
from goclaw.conversation.agent.context.window import as_read, thinnable_before
from goclaw.conversation.compaction.summaries import HEALTH, CompactionHealth, CompactionPorts, SummaryAttempt
from goclaw.conversation.sessions.state import VIEW, Session
from goclaw.durable.store.checkpoints import CheckpointStore
from goclaw.durable.store.spending import Purpose
from goclaw.durable.store.transcripts import LAST_ROW, StoredCompaction
from goclaw.errors import ConfigError
from goclaw.llm.base import is_small
from goclaw.tools.hooks.base import HookEvent, Hooks

log = logging.getLogger(__name__)

FEWEST_KEPT = 2
"""Messages that /compact keeps at least: the last question and its answer."""
LEAST_FREED = 0.10
"""Share of the tokens that a compaction must free; otherwise compacting again at once would loop."""
THE_DAEMON = Actor("", "daemon")
"""The actor of a compaction that no turn runs."""
NOTHING = "Nothing to compact: the whole conversation fits."


@dataclass(slots=True, eq=False)
class Compactor:
    """Compacts conversations. One object for all of them: they share the health of the summary chain."""

    settings: CompactionSettings
    ports: CompactionPorts
    checkpoints: CheckpointStore
    hooks: Hooks
    beginning: list[Callable[[Session, int], Awaitable[None]]] = field(default_factory=list)
    """Called with a conversation and the model's window in tokens before a part of it leaves the context."""
    health: CompactionHealth = field(init=False)
    _others_health: CompactionHealth = field(init=False)
    """Of the model that a history policy names: what it does says nothing about `models.summary`."""
    _storing: set[asyncio.Task[bool]] = field(default_factory=set)

    def __post_init__(self) -> None:
        threshold, minutes = self.settings.failure_threshold, self.settings.reset_minutes
        self.health = CompactionHealth(self.ports.clock, threshold, minutes)
        self._others_health = CompactionHealth(self.ports.clock, threshold, minutes)

    async def restore(self) -> None:
        """Take up the health of an earlier run."""
        self.health.restore(await self.ports.stored.fact(HEALTH))

    async def make_room(
        self, session: Session, context_window: int, history: HistorySettings, *, too_long: bool
    ) -> None:
        """Fit the context into the model's window before a request.

        Hides messages that the agent's history policy does not show, does a pending /compact, else compacts if it is
        due or the provider refused the request as too long. `context_window`: of the model for this request, in tokens.
        """
        alone = is_small(context_window)
        if too_long:
            context_window = min(context_window, _size(session))  # that was too much, whatever the window should be
        else:
            await self._apply(history, session, context_window)
        request, session.compaction.request = session.compaction.request, None
        if request is not None:
            # Of a turn that nothing stands before the person's words stay, which the model is about to answer.
            forced = len(session.window.turns()) > 1
            done = await self.compact(session, request.instructions, forced=forced, context_window=context_window)
            await request.report(done)
        else:
            session.window.fit_results(context_window)
            await self._shorten(session, context_window, too_long=too_long, alone=alone)
        if not too_long and not is_full(session.window.tokens(session.overhead), context_window, self.settings):
            return
        # Nothing else has made enough room for a summary that was written for a larger window.
        if await asyncio.to_thread(fit_summary, session.window, self.longest_summary(session, context_window)):
            log.warning("the summary in %s was cut: it did not fit into the model's window", session.key)

    async def _shorten(self, session: Session, context_window: int, *, too_long: bool, alone: bool) -> None:
        """Compact if it is due or the provider said so, and nothing cheaper helps; `alone`: without a model."""
        if not too_long and not self._is_due(session, context_window):
            return
        # Cheaper than a summary, and no word of a person is lost.
        if await self._thin(session) and not too_long and not self._is_due(session, context_window):
            return
        if not too_long and _size(session) <= session.compaction.useless_at * (1 + LEAST_FREED):
            return  # it has not grown since a compaction that freed next to nothing
        if alone:
            await self._leave_out(session, context_window)
        else:
            await self.compact(session, context_window=context_window)

    async def _leave_out(self, session: Session, context_window: int) -> None:
        """Hide the oldest messages without a model: a checkpoint stands for them, or a line until outside of turns."""
        size = _size(session)
        async with session.lock:
            done = await self._compact(session, self.attempt(session.key), "", context_window, alone=True)
        if done:
            session.compaction.useless_at = done.tokens_after if _is_useless(done, size) else 0
            log.info("the oldest messages are no longer shown: about %d tokens are left", done.tokens_after)

    async def _apply(self, history: HistorySettings, session: Session, context_window: int) -> None:
        """Apply a history policy, to whole turns only."""
        if history.keep_recent_turns:
            session.window.limit_turns(history.keep_recent_turns)
        compress = history.compress
        turns = session.window.turns() if compress.trigger_at else []
        if len(turns) < max(2, compress.trigger_at or 0) or session.compaction.uncompressed == str(turns[-1]):
            return
        first_kept = turns[-max(1, compress.keep_recent)]  # the running one is what the model must answer to
        if not await self._compress(session, compress, first_kept, context_window):
            session.compaction.uncompressed = str(turns[-1])

    async def _compress(
        self, session: Session, compress: CompressSettings, first_kept: int, context_window: int
    ) -> bool:
        """Summarise the messages before a turn; False: no model could, and everything stays until the next turn."""
        async with session.lock:
            session.compaction.running = True
            self.ports.bus.publish(Notice(session.key, "summarising earlier turns"))
            try:
                async with self.attempt(session.key, model=compress.model or "") as attempt:
                    done = await self._compact(session, attempt, "", context_window, first_kept=first_kept)
            finally:
                session.compaction.running = False
        return done is not None

    def _is_due(self, session: Session, context_window: int) -> bool:
        tokens = session.window.tokens(session.overhead)
        return is_due(len(session.window.entries), tokens, context_window, self.settings)

    async def _thin(self, session: Session) -> bool:
        """Show older results of tools in short, if that frees enough to be worth a new prefix in the cache."""
        window = session.window
        before = thinnable_before(window.entries)
        if before <= window.view.thinned_before:
            return False
        view = replace(window.view, thinned_before=before)
        freed = window.reduce(view, at_least=LEAST_FREED * window.tokens(session.overhead))
        if not freed:
            return False
        await self.ports.stored.set(session.key, VIEW, asdict(view))
        log.info("shortened older tool results: about %d tokens freed", freed)
        return True

    async def compact(
        self, session: Session, instructions: str = "", *, forced: bool = False, context_window: int = 0
    ) -> str:
        """Compact now, and return the lines of `/compact`.

        Args:
            session: the conversation to compact.
            instructions: a person's instructions for the summary.
            forced: a person asked for it, so compact however short the conversation is.
            context_window: of the model for the next request, in tokens; 0: of the session's model.
        """
        context_window = context_window or await self.context_window(session.key)
        async with session.lock:
            session.compaction.running, size = True, _size(session)
            self.ports.bus.publish(Notice(session.key, "compacting the context"))
            try:
                async with self.attempt(session.key, aloud=not forced) as attempt:
                    done = await self._compact(session, attempt, instructions, context_window, forced=forced)
            finally:
                session.compaction.running = False
        text = self._judge(session, done, size, context_window if forced else 0) if done else NOTHING
        if forced:  # the person who asked reads the answer; others get a notice
            trouble = attempt.news or (attempt.no_source() if done and done.retry_owed else "")
            matters = trouble and not (done and session.compaction.useless_at)  # nothing was to be summarised
            return f"{text}\n\n{trouble}" if matters else text
        if done:
            self.ports.bus.publish(Notice(session.key, text))
        if attempt.is_new_trouble and session.turn.notify:
            await session.turn.notify(self.health.told.name.lower(), attempt.news)
        return text

    def _judge(self, session: Session, done: StoredCompaction, size: int, context_window: int) -> str:
        """Describe the effect of a compaction on a context of `size` tokens; remember one that freed next to nothing.

        `context_window`: in tokens; 0 where no person asked for it.
        """
        text = f"Compaction completed!\n  Tokens before: {done.tokens_before:,}\n  Summary source: {done.source}"
        freed = done.tokens_before - done.tokens_after
        more = [f"Tokens after: {done.tokens_after:,} ({max(0, freed):,} freed)"]
        useless = _is_useless(done, size)
        session.compaction.useless_at = done.tokens_after if useless else 0
        if useless:
            more.append(_why_useless(session.fixed, done.tokens_after, context_window))
        return "\n\n".join([text, *more])

    async def _compact(
        self,
        session: Session,
        attempt: SummaryAttempt,
        instructions: str,
        context_window: int,
        *,
        alone: bool = False,
        forced: bool = False,
        first_kept: int = 0,
    ) -> StoredCompaction | None:
        settings, window, cleared = self.settings, session.window, session.cleared
        if forced:
            settings = settings.model_copy(update={"min_messages": FEWEST_KEPT})
        for prepare in self.beginning:
            await prepare(session, context_window)
        instructions = await self._extend_instructions(session, instructions)
        wants_checkpoint = settings.prefer_checkpoint and not instructions and not first_kept
        stored = await self.checkpoints.latest(session.key) if wants_checkpoint else None
        checkpoint = ReadyCheckpoint(CHECKPOINT.from_json(stored.body).text(), stored.covers_to) if stored else None
        longest = self.longest_summary(session, context_window)
        job = CompactionGoal(
            tokens_before=window.tokens(session.overhead),
            overhead=session.overhead,
            budget=self._budget(session, context_window, longest if checkpoint or window.summary else 0),
            instructions=instructions,
            checkpoint=checkpoint,
            first_kept=first_kept,
            longest_summary=longest,
        )

        async def store(compaction: StoredCompaction) -> bool:
            # Goes on when the turn is stopped meanwhile: what is stored must be shown.
            task = asyncio.create_task(self._store(session, compaction, cleared), name=f"compaction of {session.key}")
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)
            return await wait_without_cancelling(task)

        summarizers = () if alone else await attempt.summarizers()
        originals = partial(self.originals, session)
        done = await compact(window, summarizers, settings, job, attempt, keep=store, originals=originals)
        if done is not None and not alone:
            attempt.finish(SummarySource(done.source))
        return done

    async def _extend_instructions(self, session: Session, instructions: str) -> str:
        """Return the instructions for a summary, with what hooks make of them and add to them."""
        if "before_compaction" not in self.hooks.points:
            return instructions
        event = HookEvent("before_compaction", session.key, session.actor or THE_DAEMON, text=instructions)
        answer = await self.hooks.fire(event)
        return "\n".join(filter(None, (instructions if answer.text is None else answer.text, answer.context)))

    async def originals(self, session: Session, before: int = LAST_ROW) -> Basis:
        """Return the stored context before a row: the last real summary, and all messages since."""
        summary, stored = await self.ports.transcripts.originals(session.key, before)
        shown = (message for message in stored if not session.window.view.leaves_out(message.row))
        return Basis(summary, [as_read(message) for message in shown])

    def _budget(self, session: Session, context_window: int, summary: int) -> int:
        """Return estimated tokens of the messages that a compaction leaves in addition to a summary of so many."""
        scale = session.window.scale
        if is_small(context_window):
            left = room(context_window, session.fixed, self.settings) // KEPT_SHARE
            return max(0, int(left / scale) - summary)
        return max(0, int(context_window // 2 / scale) - session.overhead)

    def longest_summary(self, session: Session, context_window: int) -> int:
        """Return estimated tokens that a summary may have in a window of so many tokens."""
        left = room(context_window, session.fixed, self.settings)
        return int(min(context_window // ANSWER_SHARE, left // SUMMARY_SHARE) / max(1.0, session.window.scale))

    async def _store(self, session: Session, compaction: StoredCompaction, cleared: int) -> bool:
        """Store a compaction, then shorten the window; not if the context was cleared while it was made."""
        window, first_kept = session.window, compaction.first_kept
        if session.cleared != cleared or not window.holds(first_kept):
            return False
        await self.ports.transcripts.add_compaction(session.key, compaction)
        window.drop_before(first_kept, compaction.summary, owed=compaction.retry_owed, outside=compaction.outside)
        return True

    async def context_window(self, session: str) -> int:
        """Return the tokens that the model which answers in a session can read."""
        try:
            return (await self.ports.models.agent(session)).context_window
        except ConfigError:
            return self.settings.reserve_tokens

    @property
    def full_timeout(self) -> float:
        """Seconds that an answer may take while no person waits."""
        return self.settings.full_timeout_seconds

    def attempt(
        self, session: str, purpose: Purpose = "summary", *, aloud: bool = True, model: str = ""
    ) -> SummaryAttempt:
        """Return a search for a summary; see `SummaryAttempt`. `model`: is asked in place of `models.summary`."""
        return SummaryAttempt(
            session, purpose, self._others_health if model else self.health, self.ports, aloud=aloud, model=model
        )


def _is_useless(done: StoredCompaction, size: int) -> bool:
    """Whether a compaction has freed next to nothing of a context of `size`."""
    return size - done.tokens_after < LEAST_FREED * size


def _why_useless(fixed: int, left: int, context_window: int) -> str:
    """Explain why a compaction freed next to nothing, and what helps; `fixed` of the tokens left never go."""
    if 2 * left <= context_window:
        used = f"{left:,} of {context_window:,} tokens are in use"
        return f"There was little to summarise: {used}. You need not do anything."
    if 2 * fixed < left:
        rest = (
            "only the prompt, the tools and the latest messages are left. Try /clear, or a model with a larger window"
        )
    else:
        rest = (
            f"the prompt and the tools alone need about {fixed:,} tokens. Choose a model with a larger window, or "
            "offer fewer tools (tools.disabled)"
        )
    return f"That saved almost nothing: {rest}."


def _size(session: Session) -> int:
    """Return the estimated tokens, which compare with later estimates; a provider's count would not."""
    return int(session.window.scale * session.window.estimate(session.overhead))
