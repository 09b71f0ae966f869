"""Answers to questions about sessions: their status, what goes on in them, and what their next request holds."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from goclaw.agent.kinds import Kind
from goclaw.agent.rules import TurnRules
from goclaw.context.budget import ContextBudget
from goclaw.context.room import reserve
from goclaw.errors import ConfigError
from goclaw.events import Actor, SessionNow
from goclaw.llm.base import ChatModel, Looking
from goclaw.records import record
from goclaw.sessions.agents import Agents
from goclaw.sessions.pausing import Pauses
from goclaw.sessions.state import Session
from goclaw.sessions.status import Details, SessionStatus
from goclaw.sessions.summary_retries import SummaryRetries
from goclaw.sessions.teams import Teams
from goclaw.sessions.turn_context import TurnContext
from goclaw.sessions.window_shortage import WindowShortage

LOOK_SECONDS = 0.5
"""Seconds for which a command waits while the model is still being looked for."""


@record
class SessionInspection:
    """Looks at sessions, and changes nothing."""

    context: TurnContext
    agents: Agents
    pauses: Pauses
    shortage: WindowShortage
    summary_retries: SummaryRetries
    teams: Teams

    async def now(self, key: str) -> SessionNow:
        """Return what goes on in a session right now: a client that subscribes next misses nothing."""
        todos = (await self.context.contexts.session(key)).todos
        return replace(self.context.ports.bus.now(key), questions=self.context.ports.questions.of(key), todos=todos)

    async def status(self, key: str, details: Details, actor: Actor | None = None) -> SessionStatus:
        """Return a session's state; `details` is what others know, `actor` who asks."""
        session = await self.context.contexts.session(key)
        kind, line = await self.context.agents_for.answering(actor, key)
        models = self.context.ports.models
        short = ""
        try:
            agent = await self._known_model(key, kind)
        except (ConfigError, TimeoutError):
            context_window, model = 0, models.sentence
        else:
            context_window, model = agent.context_window, agent.spec
            if actor:
                await self.context.measure(session, actor, kind, agent)
                short = await self.shortage.shortage(session, actor, kind, agent)
        return SessionStatus(
            session=key,
            messages=len(session.window.entries),
            tokens=session.window.tokens(session.overhead),
            context_window=context_window,
            reserve=reserve(context_window, self.context.ports.config.compaction),
            shortage=short,
            compactions=await self.context.ports.transcripts.compactions(key),
            compacting=session.compacting,
            ollama_configured=any(spec.startswith("ollama:") for spec in models.summary_specs),
            pending_retries=await self.summary_retries.count(),
            model=model,
            chosen=await models.chosen(key),
            spent=await self.context.ports.spending.of_session(key),
            queue_mode=await self.context.queue_modes.of(key),
            mode=await self.context.modes.chosen(key),
            details=details,
            answering=line,
            policy=[*kind.rules.lines(), *await self._how_far(session)],
            agents=[*self.teams.lines(key), *await self.agents.lines(key)],
            paused=session.running and bool(self.pauses.of(key, self.context.ports.bus.now(key).turn)),
        )

    async def budget(self, key: str, actor: Actor) -> ContextBudget:
        """Return how a session's next request divides the model's window, if `actor` speaks next.

        Raises:
            ConfigError: no model can be opened.
            StateError: the actor's workspace cannot be opened.
            TimeoutError: the model is still being looked for.
        """
        session = await self.context.contexts.session(key)
        kind, _ = await self.context.agents_for.answering(actor, key)
        return await self.context.budget(session, actor, kind, await self._known_model(key, kind))

    async def no_room(self, actor: Actor) -> str:
        """Explain why no new conversation of `actor` with the main agent fits the model's window; empty: one does."""
        return await self.shortage.at_start(actor, self.context.agents_for.main)

    def rules_in(self, session: str) -> TurnRules:
        """Return the rules of the turn that runs in a session."""
        known = self.context.contexts.known(session)
        return known.rules if known and known.rules else self.context.agents_for.main.rules

    async def _known_model(self, key: str, kind: Kind) -> ChatModel:
        """Return the model of an agent, with its window if its server reports it soon.

        Raises:
            ConfigError: none can be opened.
            TimeoutError: it is still being looked for.
        """
        async with asyncio.timeout(LOOK_SECONDS):
            model = await self.context.agents_for.model(key, kind)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                if isinstance(model, Looking):
                    await model.look()
        return model

    async def _how_far(self, session: Session) -> Sequence[tuple[str, str]]:
        """Return the share of the daily budget used by the session's current user, at first its own person."""
        return await self.context.costs.lines(session.person or session.key, self.context.agents_for.main.rules)
