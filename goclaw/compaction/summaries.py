"""One attempt at a summary: which models may be asked, their health afterwards, and the notices for people."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from goclaw.agent.context.compaction import Summarizer, SummarySource
from goclaw.agent.context.health import CompactionHealth, Trouble
from goclaw.agent.context.summary import SummaryFailed
from goclaw.core.bus import Bus
from goclaw.core.clock import Clock
from goclaw.core.events import Notice
from goclaw.errors import ConfigError
from goclaw.llm.base import ChatModel, Finished
from goclaw.sessions.models import Models
from goclaw.sessions.state import Contexts
from goclaw.store.settings import Settings
from goclaw.store.spending import Purpose

log = logging.getLogger(__name__)

T = TypeVar("T")

HEALTH = "summary_health"
"""The stored fact that keeps the health over a restart."""


Book = Callable[[str, Purpose, Finished], Awaitable[None]]
"""Books an answer of a model to a session."""
_NAMES = {SummarySource.LLM: "summary model", SummarySource.FALLBACK: "main model"}


class SummaryAttempt:
    """An async context manager around one search for a summary (or a checkpoint, or notes)."""

    def __init__(
        self,
        session: str,
        purpose: Purpose,
        health: CompactionHealth,
        *,
        clock: Clock,
        bus: Bus,
        models: Models,
        contexts: Contexts,
        stored: Settings,
        book: Book,
        aloud: bool,
        model: str = "",
    ) -> None:
        """`aloud`: news go to who watches the session. `model`: is asked in place of the summary chain."""
        self.clock = clock
        self._bus = bus
        self._models = models
        self._contexts = contexts
        self._stored = stored
        self._book = book
        self._model = model
        self._session = session
        self._aloud = aloud
        self._purpose: Purpose = purpose
        self._health = health
        self._admitted = False
        self._has_chain = False
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
        if self._admitted:
            self._health.release()
        if self._health.state() != self._before and not self._model:
            await self._stored.learn(HEALTH, self._health.state())
        if self.news and self._aloud:
            self._bus.publish(Notice(self._session, self.news))

    async def summarizers(self) -> Sequence[Summarizer]:
        """Return the models to ask, first choice first; the summary chain only while it is healthy."""
        if (await self._contexts.session(self._session)).demo is not None:
            return ()  # a summary of what the demo repeats would be none
        try:
            found = await self._models.summarizers(self._session, self._model)
        except ConfigError:
            return ()
        self._has_chain = any(item.source is SummarySource.LLM for item in found)
        return [item for item in found if item.source is not SummarySource.LLM or self._admitted]

    async def first(self, write: Callable[[ChatModel], Awaitable[T]], seconds: float, *, main_model: bool) -> T | None:
        """Return the first summary written, each model given at most `seconds`; None when none could write it.

        `main_model`: the main model may be asked, too, which costs money.
        """
        for summarizer in await self.summarizers():
            if summarizer.source is SummarySource.FALLBACK and not main_model:
                continue
            try:
                async with asyncio.timeout(seconds):
                    written = await write(summarizer.model)
            except SummaryFailed as error:
                self.failed(summarizer.source, str(error))
            except TimeoutError:
                self.failed(summarizer.source, f"{summarizer.model.spec} took longer than {seconds:.0f} s")
            else:
                self.ended(summarizer.source)
                return written
        return None

    def ended(self, source: SummarySource) -> None:
        """End the search; EMERGENCY: no source gave a summary."""
        if source is SummarySource.LLM:
            self._health.record(worked=True)
        elif source is SummarySource.FALLBACK:
            self._health.asked()
        if source is SummarySource.LLM or (self._purpose == "summary" and source is not SummarySource.CHECKPOINT):
            self._compare(self._health.told, self._trouble(source))

    def no_source(self) -> str:
        """Say what it means that no source gave a summary."""
        reasons = "; ".join(self._failures.values()) or self._health.reason
        trouble = f"No summary could be made: {reasons}." if reasons else "No model could summarise."
        return f"{trouble} A summary is written as soon as a model can; nothing is lost meanwhile."

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
            self.news = "Summaries are written by the summary model again."
            log.info("%s", self.news)

    def _instead(self) -> str:
        minutes = max(1, round(self._health.reset_in / 60))
        later = f"; the next try is in {minutes} min" if self._health.degraded else ""
        return f"No summary by the summary model: {self._health.reason}. The main model is used instead{later}."

    def failed(self, source: SummarySource, reason: str) -> None:
        """Record that a source gave no summary, and why."""
        reason = " ".join(reason.split()).rstrip(".")
        self._failures[source] = reason
        if source is SummarySource.LLM:
            self._health.record(worked=False, reason=reason)
        else:
            self._health.asked()
        log.warning("no %s by the %s: %s", self._purpose, _NAMES[source], reason)

    async def spent(self, finished: Finished) -> None:
        """Book an answer to the session."""
        await self._book(self._session, self._purpose, finished)
