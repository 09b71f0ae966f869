"""The state of a session for people: `/status`, `/context`, and the greeting of a terminal.

The first lines of `/status` are those of the tools contract, to the letter. The greeting says which model answers,
which parts are missing and the one command that adds them: at most four lines, one where nothing is missing.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Mode, QueueMode
from goclaw.common.core.clock import MINUTE, Clock
from goclaw.common.core.events import Actor, SessionNow
from goclaw.common.core.records import record
from goclaw.common.workspace import SHARED
from goclaw.conversation.agent.context.budget import ContextBudget, percent, reserve
from goclaw.conversation.agent.context.labels import window_content
from goclaw.conversation.agent.kinds import Kind
from goclaw.conversation.agent.limits import TurnRules
from goclaw.conversation.compaction.summaries import CompactionHealth
from goclaw.conversation.compaction.summary_retries import SummaryRetries
from goclaw.conversation.schedules.orders import Overview
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.sessions.pausing import Pauses
from goclaw.conversation.sessions.state import Session
from goclaw.conversation.turns.agents import Agents
from goclaw.conversation.turns.costs import cost_in_words
from goclaw.conversation.turns.teams import Teams
from goclaw.conversation.turns.turn_context import TurnContext, WindowShortage
from goclaw.durable.store.spending import Spent
from goclaw.errors import ConfigError, StateError
from goclaw.llm.base import ChatModel, Looking
from goclaw.llm.open import reads_text_calls
from goclaw.llm.served import TEXT_CALLS, CallStyle, style_words
from goclaw.memory.memory_queries import COUNTS, SEARCHED
from goclaw.tools.approval.guard import describe
from goclaw.tools.execution.sandbox.base import NONE, Sandbox

DAEMON, TELEGRAM = "Daemon", "Telegram"
"""Names of `Details` that begin our own block, with the model between them."""
FOR_ADMINS = frozenset({"alerts", "stuck", "left_behind", "Users", "Alerts", "Tools", "Prompt files", "Event loop"})
"""Names of `Details` that show other people, their conversations and the daemon's internals.

Counts of other people's memories are in `memory.memory_queries`.
"""
LOOK_SECONDS = 0.5
"""Seconds for which a command waits while the model is still being looked for."""
SETUP = "`goclaw setup`"
"""The command that adds what the greeting misses."""
PAUSED = "paused; /resume continues it, /stop ends it"
NO_MODEL = "Model: demo. No AI is connected."
NO_TELEGRAM = "Telegram: not connected."
NO_USERS = "Telegram: users.json lists no Telegram user, so nobody gets an answer there."
NO_COMMANDS = "Commands: refused, because no sandbox works here; `goclaw doctor` says what helps."


@record
class Details:
    """The daemon's state at one moment, as other rooms report it."""

    lines: Mapping[str, str]
    """For people, in a block of their own: name and text."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """For machines."""
    memory: Sequence[tuple[str, str]] = ()
    """State of the memory, in a block of its own: name and text."""
    calm: frozenset[str] = frozenset()
    """Names of `lines` that say no more than that all is well."""
    schedules: Sequence[tuple[str, str]] = ()
    """The schedules of the person who asks, in a block of their own: name and text."""

    def without_others(self) -> "Details":
        """Return the details without other people's conversations and the daemon's faults."""
        health = self.numbers.get("health", {})
        counted = self.numbers.get("memory", {})
        numbers = {
            **self.numbers,
            "health": {name: health[name] for name in health if name not in FOR_ADMINS},
            "memory": {name: counted[name] for name in counted if name not in COUNTS},
        }
        lines = {name: line for name, line in self.lines.items() if name not in FOR_ADMINS}
        memory = [(name, text) for name, text in self.memory if name != SEARCHED]
        return replace(self, lines=lines, numbers=numbers, memory=memory)

    def with_schedules(self, found: Overview) -> "Details":
        """Return the details with the jobs due for the requester."""
        numbers = {**self.numbers, "schedules": {"count": found.count, "next": list(found.numbers)}}
        return replace(self, numbers=numbers, schedules=found.lines)

    def without_calm(self) -> "Details":
        """Return the same without lines that say no more than that all is well: a chat has little room."""
        return replace(self, lines={name: line for name, line in self.lines.items() if name not in self.calm})


@record
class SessionStatus:
    """A session's state at one moment."""

    session: str
    messages: int
    tokens: int
    context_window: int
    compactions: int
    compacting: bool
    summary_source: str
    """The first source of summaries: "Ollama" where it is one, else the name of the model; empty: none."""
    pending_retries: int
    model: str
    """The model that answers, or why none does."""
    chosen: str
    """The model that was chosen for the session by /model; empty: none."""
    spent: Spent
    queue_mode: QueueMode
    mode: Mode
    """The permission mode that was chosen, or is configured."""
    details: Details
    policy: Sequence[tuple[str, str]] = ()
    """The limits of turns: name and text."""
    today: Sequence[tuple[str, str]] = ()
    """The used share of the daily limits: name and text."""
    answering: str = ""
    """The agent that answers and why, where that is not `main` by default."""
    agents: Sequence[str] = ()
    """The tree of agents that work for the turn that runs, a line each."""
    window_origin: str = ""
    """Where the size of the window comes from, for admins; empty: the model's server has said nothing of it."""
    calls: CallStyle = CallStyle.UNTRIED
    """How the model calls tools, for admins."""
    reads_text_calls: bool = True
    """False where `models.options.<model>.text_calls` is off."""
    reserve: int = 0
    """Tokens of the window that are kept free for the answer."""
    shortage: str = ""
    """The reason why the next request cannot fit into the window at all; empty: it can."""
    paused: bool = False
    """The turn that runs is paused."""

    def text(
        self,
        health: CompactionHealth,
        clock: Clock,
        own: Sequence[tuple[str, str]] | None = None,
        *,
        in_group: bool = False,
    ) -> str:
        """Return the text of `/status`.

        Args:
            health: of the summary models.
            clock: tells the time.
            own: our block for a person who is no admin: name and text; None: an admin reads it.
            in_group: others read along, so costs, budgets and schedules are left out.
        """
        blocks = [
            [
                "Session Status",
                f"  Messages: {self.messages:,}",
                f"  Tokens: {self.tokens:,} / {self.context_window:,} ({percent(self.tokens, self.context_window)})",
                f"  Compactions: {self.compactions:,}",
            ],
            ["Compaction Health", *self._health_lines(health, clock)],
            ["GoClaw", *(self._admin_lines(in_group) if own is None else _rows(own))],
        ]
        if self.details.memory and own is None:
            blocks.append(["Memory", *_rows(self.details.memory)])
        if self.details.schedules and not in_group:
            blocks.append(["Schedules", *_rows(self.details.schedules)])
        if self.agents and own is None:
            blocks.append(["Agents at work", *(f"  {line}" for line in self.agents)])
        return "\n\n".join("\n".join(block) for block in blocks)

    @property
    def model_words(self) -> str:
        """The model that answers, and whether it was chosen."""
        if not self.chosen:
            return self.model
        chosen = "" if self.model == self.chosen else f" {self.chosen}, which does not answer now"
        return f"{self.model} (set by /model{':' if chosen else ''}{chosen})"

    def _admin_lines(self, in_group: bool) -> Sequence[str]:
        costs = [] if in_group else [f"  Cost so far: {cost_in_words(self.spent)}"]
        return [
            *self._first_lines(),
            *costs,
            *self._queue_lines(),
            *([f"  This turn: {PAUSED}"] if self.paused else []),
            *_rows([*self.policy, *([] if in_group else self.today)]),
        ]

    def _first_lines(self) -> Sequence[str]:
        """Whether it works at all: daemon, model, Telegram."""
        told = {name: f"  {name}: {line}" for name, line in self.details.lines.items() if name in (DAEMON, TELEGRAM)}
        short = f"  Window: {self.shortage} /context says what helps." if self.shortage else ""
        window = f"  Model window: {self.window_origin}" if self.window_origin else ""
        style = style_words(self.calls, reads_text=self.reads_text_calls)
        trial = "" if self.calls is CallStyle.UNTRIED else f"  Model trial: it {style}"
        lines = (told.get(DAEMON), f"  Model: {self.model_words}", window, trial, told.get(TELEGRAM), short)
        return [line for line in lines if line]

    def _queue_lines(self) -> Sequence[str]:
        agent = {"Agent": self.answering} if self.answering else {}
        queue = {} if self.queue_mode == "queue" else {"Queue mode": self.queue_mode}
        mode = {} if self.mode == "default" else {"Permission mode": self.mode}
        lines = {name: line for name, line in self.details.lines.items() if name not in (DAEMON, TELEGRAM)}
        return [f"  {name}: {text}" for name, text in {**agent, **lines, **queue, **mode}.items()]

    def _health_lines(self, health: CompactionHealth, clock: Clock) -> Sequence[str]:
        if not self.summary_source:
            lines = ["  Ollama: not configured", "  Mode: main model only"]
        elif health.degraded:
            # Whole seconds below a minute, which never reach zero while there is something left.
            left = math.ceil(health.reset_in)
            return [
                f"  {self.summary_source}: degraded ({health.failures}/{health.threshold} failures)",
                "  Mode: fallback to main model",
                f"  Reset in: {f'{left} s' if left < MINUTE else _minutes(health.reset_in)}",
                *([f"  Pending retries: {self.pending_retries}"] if self.pending_retries else []),
                *self._progress(),
            ]
        else:
            lines = [
                f"  {self.summary_source}: healthy ({health.counted}/{health.threshold} failures)",
                "  Mode: normal",
            ]
        ago = "never" if health.last_attempt is None else f"{_minutes(clock.now() - health.last_attempt)} ago"
        return [*lines, f"  Last attempt: {ago}", f"  Pending retries: {self.pending_retries}", *self._progress()]

    def _progress(self) -> Sequence[str]:
        return ["  Status: compaction in progress"] if self.compacting else []

    def numbers(self, health: CompactionHealth) -> dict[str, Any]:
        """Return the same for machines (`goclaw status --json`)."""
        return {
            "session": self.session,
            "messages": self.messages,
            "tokens": self.tokens,
            "context_window": self.context_window,
            "context_window_origin": self.window_origin,
            "calls": self.calls,
            "reserve": self.reserve,
            "fits": not self.shortage,
            "compactions": self.compactions,
            "compacting": self.compacting,
            "pending_retries": self.pending_retries,
            "model": self.model,
            "model_chosen": self.chosen,
            "cost": self.spent.cost if self.spent.requests > self.spent.unpriced else None,
            "spent": {
                "requests": self.spent.requests,
                "unpriced": self.spent.unpriced,
                "input": self.spent.input,
                "output": self.spent.output,
                "cache_read": self.spent.cache_read,
            },
            "queue_mode": self.queue_mode,
            "paused": self.paused,
            "agents": list(self.agents),
            "mode": self.mode,
            "ollama": {
                "configured": bool(self.summary_source),
                "source": self.summary_source,
                "degraded": health.degraded,
                "failures": health.counted,
                "last_attempt": health.last_attempt,
            },
            "details": dict(self.details.lines),
            **self.details.numbers,
        }


def _rows(lines: Sequence[tuple[str, str]]) -> Sequence[str]:
    return [f"  {name}: {text}" for name, text in lines]


def _minutes(seconds: float) -> str:
    return f"{max(0, round(seconds / MINUTE))} min"


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
        session = await self.context.contexts.session(key)
        beside_turns = await self.context.schedules.scheduler.others.questions_in(key)
        # Nothing waits from here on: a list written meanwhile would be neither in this nor in the events that follow.
        questions = (*self.context.ports.questions.of(key), *beside_turns)
        return replace(self.context.ports.bus.now(key), questions=questions, todos=session.settings.todos)

    async def status(self, key: str, details: Details, actor: Actor | None = None) -> SessionStatus:
        """Return a session's state; `details` comes from others, `actor` is the requester."""
        session = await self.context.contexts.session(key)
        kind, line = await self.context.choices.agents.answering(actor, key)
        models, settings = self.context.ports.models, self.context.ports.store.settings
        access = self.context.ports.approvals.access
        is_admin = actor is None or access.authorize(actor, "command.admin", "status").allowed
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
        is_ollama = any(spec.startswith("ollama:") for spec in models.summary_specs)
        # Of the daily budget of the session's current user, at first of its own person.
        today = await self.context.costs.lines(session.person or key)
        return SessionStatus(
            session=key,
            messages=len(session.window.entries),
            tokens=session.window.tokens(session.overhead),
            context_window=context_window,
            window_origin=models.served.of(model).window_words(context_window) if is_admin else "",
            calls=CallStyle.of(await settings.fact(f"{TEXT_CALLS}:{model}")) if is_admin else CallStyle.UNTRIED,
            reads_text_calls=reads_text_calls(self.context.ports.config, model),
            reserve=reserve(context_window, self.context.ports.config.compaction),
            shortage=short,
            compactions=await self.context.ports.store.transcripts.compactions(key),
            compacting=session.compaction.running,
            summary_source="Ollama" if is_ollama else next(iter(models.summary_specs), ""),
            pending_retries=await self.summary_retries.count(),
            model=model,
            chosen=await models.choice_for(key),
            spent=await self.context.ports.store.spending.of_session(key),
            queue_mode=await self.context.choices.queue_modes.of(key),
            mode=await self.context.choices.modes.choice_for(key),
            details=details,
            answering=line,
            policy=[*await self._workspace(key, actor), *kind.rules.lines(), *_guard(session, is_admin)],
            today=today,
            agents=[*self.teams.lines(key), *await self.agents.lines(key)],
            paused=session.turn.running and bool(self.pauses.of(key, self.context.ports.bus.now(key).turn)),
        )

    async def _workspace(self, key: str, actor: Actor | None) -> list[tuple[str, str]]:
        """Say that the actor has a workspace of their own in the session, where that is so."""
        if actor is None:
            return []
        with suppress(StateError):  # each turn ends with it, and says so
            if (await self.context.ports.environment.workspace(actor, key)).shared:
                return [("Workspace", f"your own; {SHARED}/ in it belongs to everybody")]
        return []

    async def budget(self, key: str, actor: Actor) -> ContextBudget:
        """Return how a session's next request divides the model's window, if `actor` speaks next.

        Raises:
            ConfigError: no model can be opened.
            StateError: the actor's workspace cannot be opened.
            TimeoutError: the model is still being looked for.
        """
        session = await self.context.contexts.session(key)
        kind, _ = await self.context.choices.agents.answering(actor, key)
        return await self.context.budget(session, actor, kind, await self._known_model(key, kind))

    async def no_room(self, actor: Actor) -> str:
        """Explain why no new conversation of `actor` with the main agent fits the model's window; empty: one does."""
        return await self.shortage.at_start(actor, self.context.choices.agents.main)

    def rules_in(self, session: str) -> TurnRules:
        """Return the rules of the turn that runs in a session."""
        known = self.context.contexts.find(session)
        return known.turn.rules if known and known.turn.rules else self.context.choices.agents.main.rules

    async def _known_model(self, key: str, kind: Kind) -> ChatModel:
        """Return an agent's model, with its window if its server says it soon; raises as `budget` does for models."""
        async with asyncio.timeout(LOOK_SECONDS):
            model = await self.context.choices.agents.model(key, kind)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                if isinstance(model, Looking):
                    await model.look()
        return model


def greeting(models: Models, config: Config, users: Users, sandbox: Sandbox) -> str:
    """Return the lines as things are now; things still being looked for count as there."""
    model, lacks_model = _model_line(models, config)
    telegram = _telegram_line(config, users)
    lines = [model, *([telegram] if telegram else []), *([NO_COMMANDS] if sandbox.tier == NONE else [])]
    wanted = [*(["a model"] if lacks_model else []), *(["Telegram"] if telegram else [])]
    return "\n".join([*lines, *([f"{SETUP} connects {' and '.join(wanted)}."] if wanted else [])])


def _model_line(models: Models, config: Config) -> tuple[str, bool]:
    """Describe the model that answers, and whether it is missing, failed or an unwanted demo."""
    if models.is_demo and not (config.models.agent or config.agents.main.model):
        return NO_MODEL, True
    return models.sentence.partition("\n")[0], models.failed


def _telegram_line(config: Config, users: Users) -> str:
    """Describe the missing parts for Telegram; empty where there are none, or where Telegram is switched off."""
    if config.telegram.enabled is False:
        return ""
    if config.telegram.token is None:
        return NO_TELEGRAM
    return "" if any(user.key.startswith("telegram:") for user in users.all()) else NO_USERS


def _guard(session: Session, is_admin: bool) -> list[tuple[str, str]]:
    """Describe for admins what the guard sees in a session's window; nothing where it sees nothing."""
    if not is_admin:
        return []
    foreign, private = describe(window_content([session.window]))
    parts = [*([f"others' words ({foreign})"] if foreign else []), *([f"private text ({private})"] if private else [])]
    return [("Guard", f"the agent has read {' and '.join(parts)}")] if parts else []
