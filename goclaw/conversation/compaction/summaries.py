"""One attempt at a summary: which models may be asked, their health afterwards, and the notices for people.

After a few consecutive failures the summary chain is paused for a while (`CompactionHealth`). Then one trial is let
through: if it works all is well again, else the chain is paused for as long once more. The numbers are
`compaction.failure_threshold` and `compaction.reset_minutes`, which `/status` shows.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, Protocol, TypeVar

from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Notice
from goclaw.common.core.records import record
from goclaw.conversation.agent.context.compaction import Summarizer, SummarySource
from goclaw.conversation.agent.context.summary import SummaryFailed
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.sessions.state import Contexts
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.spending import Purpose
from goclaw.durable.store.transcripts import Transcripts
from goclaw.errors import ConfigError, LimitReached
from goclaw.llm.base import ChatModel, Finished, ModelEvent, Request

log = logging.getLogger(__name__)

T = TypeVar("T")

HEALTH = "summary_health"
"""The stored fact that keeps the health over a restart."""
FAILURE_THRESHOLD = 3
RESET_MINUTES = 30.0


class Trouble(IntEnum):
    """The trouble with summaries. People are informed when it gets worse, and when all is well again."""

    NONE = 0
    FAILING = 1
    """The chain gave none this time, the main model did."""
    GIVEN_UP = 2
    """The chain is left alone for a while."""
    NOBODY = 3
    """None could be written: it follows later."""


@dataclass(slots=True)
class CompactionHealth:
    """Counts failures of the summary chain, over restarts (`state`, `restore`)."""

    clock: Clock
    threshold: int = FAILURE_THRESHOLD
    reset_minutes: float = RESET_MINUTES
    failures: int = 0
    last_attempt: float | None = None
    """When a model was last asked for a summary, in seconds since the epoch; None: never."""
    reason: str = ""
    """Why the chain's latest attempt failed, for people; empty: it did not."""
    told: Trouble = Trouble.NONE
    """The trouble that people were last informed of."""
    _failed_at: float | None = None
    _trial: bool = False

    @property
    def degraded(self) -> bool:
        """The summary chain is passed over."""
        return self.failures >= self.threshold and self.reset_in > 0

    @property
    def counted(self) -> int:
        """The failures to show to people: 0 once the pause is over, whatever the trial will bring."""
        return self.failures if self.failures < self.threshold or self.degraded else 0

    @property
    def reset_in(self) -> float:
        """Seconds until the summary chain is tried again."""
        if self._failed_at is None or self.failures < self.threshold:
            return 0.0
        span = self.reset_minutes * 60
        # A clock that was set back must not lock the chain out for longer than it ever would be.
        return min(span, max(0.0, self._failed_at + span - self.clock.now()))

    def admit(self) -> bool:
        """Whether the chain may be asked now; after a rest only one trial at a time. `release` ends an attempt."""
        if self.degraded or (self.failures >= self.threshold and self._trial):
            return False
        self._trial = self.failures >= self.threshold
        return True

    def release(self) -> None:
        """An attempt that was admitted is over, recorded or not."""
        self._trial = False

    def record_request(self) -> None:
        """Note that a model was asked, the chain or the main one."""
        self.last_attempt = self.clock.now()

    def record(self, *, worked: bool, reason: str = "") -> None:
        """Count one attempt of the summary chain."""
        self.record_request()
        self.failures = 0 if worked else min(self.failures + 1, self.threshold)
        self._failed_at = None if worked else self.last_attempt
        self.reason = "" if worked else reason

    def state(self) -> dict[str, Any]:
        """Return the state that outlives a restart, as JSON data."""
        return {
            "failures": self.failures,
            "failed_at": self._failed_at,
            "last_attempt": self.last_attempt,
            "reason": self.reason,
            "told": int(self.told),
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on where an earlier run was."""
        if state:
            self.failures = min(int(state["failures"]), self.threshold)
            self.last_attempt, self.reason = state["last_attempt"], state["reason"]
            self._failed_at = state.get("failed_at", self.last_attempt)
            self.told = Trouble(state.get("told", Trouble.NONE))


class SummaryCosts(Protocol):
    """Pays for answers that belong to no step of a turn, on the account of the session's person."""

    async def check(self, session: str) -> bool:
        """Check before a request whether the person may spend more. False: nothing limits them.

        Raises:
            LimitReached: the allowance is used up.
        """

    def reserve(
        self, reservation: str, session: str, model: ChatModel, request: Request
    ) -> AbstractAsyncContextManager[None]:
        """Reserve the largest cost of a request around it; it is kept after the block, until `book` or `release`.

        Raises:
            LimitReached: the allowance was used up meanwhile.
        """

    async def book(self, session: str, purpose: Purpose, done: Finished, reservation: str) -> None:
        """Book an answer to a session, and end its reservation."""

    def release(self, reservation: str) -> None:
        """End a reservation without bookings; without a reservation, do nothing."""


@record
class CompactionPorts:
    """The services that compactions and summaries use."""

    clock: Clock
    bus: Bus
    models: Models
    contexts: Contexts
    transcripts: Transcripts
    stored: Settings
    costs: SummaryCosts


_NAMES = {SummarySource.LLM: "summary model", SummarySource.FALLBACK: "main model"}


class SummaryAttempt:
    """An async context manager around one search for a summary (or a checkpoint, or notes)."""

    def __init__(
        self,
        session: str,
        purpose: Purpose,
        health: CompactionHealth,
        ports: CompactionPorts,
        *,
        aloud: bool,
        model: str = "",
    ) -> None:
        """`aloud`: news go to who watches the session. `model`: is asked in place of the summary chain."""
        self.clock = ports.clock
        self._ports = ports
        self._reservation = f"{purpose}:{secrets.token_hex(8)}"
        """Of the request that runs: an attempt makes one after the other."""
        self._model = model
        self._session = session
        self._aloud = aloud
        self._purpose: Purpose = purpose
        self._health = health
        self._admitted = False
        self._has_chain = False
        self._refusal = ""
        """Why no model may be asked."""
        self._failures: dict[SummarySource, str] = {}
        self._before = health.state()
        self.news = ""
        """A sentence for people: how summaries go has changed."""
        self.is_new_trouble = False
        """The attempt reported trouble that people have not been informed of before."""

    async def __aenter__(self) -> "SummaryAttempt":
        self._admitted = self._health.admit()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ports.costs.release(self._reservation)
        if self._admitted:
            self._health.release()
        if self._health.state() != self._before and not self._model:
            await self._ports.stored.learn(HEALTH, self._health.state())
        if self.news and self._aloud:
            self._ports.bus.publish(Notice(self._session, self.news))

    async def summarizers(self) -> Sequence[Summarizer]:
        """Return the models to ask, first choice first; the summary chain only while it is healthy."""
        if (await self._ports.contexts.session(self._session)).settings.demo is not None:
            return ()  # a summary of what the demo repeats would be none
        try:
            found = await self._ports.models.summarizers(self._session, self._model)
            is_capped = await self._ports.costs.check(self._session)
        except ConfigError:
            return ()
        except LimitReached as limit:
            self._refusal = limit.reason
            return ()
        if is_capped:
            reserve = partial(self._ports.costs.reserve, self._reservation, self._session)
            found = [replace(item, model=_ReservedModel(item.model, reserve)) for item in found]
        self._has_chain = any(item.source is SummarySource.LLM and not item.is_main for item in found)
        return [item for item in found if item.source is not SummarySource.LLM or item.is_main or self._admitted]

    async def first(
        self, write: Callable[[ChatModel], Awaitable[T]], seconds: float, *, main_model: bool | None
    ) -> T | None:
        """Return the first summary written, each model given at most `seconds`; None when none could write it.

        `main_model`: whether the main model may be asked, too; None: where it costs nothing.
        """
        for summarizer in await self.summarizers():
            may_ask = summarizer.is_free if main_model is None else main_model
            if summarizer.source is SummarySource.FALLBACK and not may_ask:
                continue
            try:
                async with asyncio.timeout(seconds):
                    written = await write(summarizer.model)
            except SummaryFailed as error:
                self.record_failure(summarizer.source, str(error))
            except TimeoutError:
                self.record_failure(summarizer.source, f"{summarizer.model.spec} took longer than {seconds:.0f} s")
            else:
                self.finish(summarizer.source)
                return written
        return None

    def finish(self, source: SummarySource) -> None:
        """End the search; EMERGENCY: no source gave a summary."""
        if source is SummarySource.LLM:
            self._health.record(worked=True)
        elif source is SummarySource.FALLBACK:
            self._health.record_request()
        if source is SummarySource.LLM or (self._purpose == "summary" and source is not SummarySource.CHECKPOINT):
            self._compare(self._health.told, self._trouble(source))

    def no_source(self) -> str:
        """Explain the consequence when no source gave a summary."""
        reasons = self._refusal or "; ".join(self._failures.values()) or self._health.reason
        because = f": {reasons}" if reasons else ""
        return f"I could not summarise the conversation{because}. I will try again until a model can; nothing is lost."

    def _trouble(self, source: SummarySource) -> Trouble:
        if source is SummarySource.EMERGENCY:
            return Trouble.NOBODY
        if source is SummarySource.LLM or not self._has_chain:
            return Trouble.NONE
        return Trouble.GIVEN_UP if self._health.failures >= self._health.threshold else Trouble.FAILING

    def _compare(self, told: Trouble, now: Trouble) -> None:
        self._health.told = now
        if now > told:
            self.news = self.no_source() if now is Trouble.NOBODY else self._instead()
            # That the chain is now left alone is more of the same: for who looks, not for who would be disturbed.
            self.is_new_trouble = told is Trouble.NONE or now is Trouble.NOBODY
            log.warning("%s", self.news)
        elif now is Trouble.NONE and told >= Trouble.GIVEN_UP and self._has_chain:
            self.news = "The summary model writes summaries again."
            log.info("%s", self.news)

    def _instead(self) -> str:
        minutes = max(1, round(self._health.reset_in / 60))
        later = f"; I will try it again in {minutes} min" if self._health.degraded else ""
        return (
            f"The summary model does not work: {self._health.reason}. The main model writes summaries instead{later}."
        )

    def record_failure(self, source: SummarySource, reason: str) -> None:
        """Record that a source gave no summary, and why."""
        reason = " ".join(reason.split()).rstrip(".")
        self._failures[source] = reason
        if source is SummarySource.LLM:
            self._health.record(worked=False, reason=reason)
        else:
            self._health.record_request()
        log.warning("no %s by the %s: %s", self._purpose, _NAMES[source], reason)

    async def spent(self, finished: Finished) -> None:
        """Book an answer to the session."""
        await self._ports.costs.book(self._session, self._purpose, finished, self._reservation)


class _ReservedModel:
    """A model each request to which is reserved first."""

    def __init__(
        self, model: ChatModel, reserved: Callable[[ChatModel, Request], AbstractAsyncContextManager[None]]
    ) -> None:
        self._model = model
        self._reserved = reserved

    @property
    def spec(self) -> str:
        return self._model.spec

    @property
    def context_window(self) -> int:
        return self._model.context_window

    @property
    def sees_images(self) -> bool:
        return self._model.sees_images

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        try:
            async with self._reserved(self._model, request), self._model.stream(request) as events:
                yield events
        except LimitReached as limit:
            raise SummaryFailed(str(limit)) from limit

    async def count(self, request: Request) -> int:
        return await self._model.count(request)
