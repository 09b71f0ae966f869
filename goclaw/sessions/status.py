"""The text of `/status` and the numbers behind it. The first lines are those of the tools contract, to the letter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from goclaw.clock import MINUTE, Clock
from goclaw.config.values import Mode, QueueMode
from goclaw.context.budget import percent
from goclaw.context.health import CompactionHealth
from goclaw.memory.status_text import COUNTS, SEARCHED
from goclaw.records import record
from goclaw.store.spending import Spent

SMALL = 0.01
"""US dollars below which cents say nothing."""

DAEMON, TELEGRAM = "Daemon", "Telegram"
"""Names of `Details` that begin our own block, with the model between them."""
FOR_ADMINS = frozenset({"alerts", "stuck", "left_behind", "Users", "Alerts", "Tools", "Event loop"})
"""Names of `Details` that show other people, their conversations and the daemon's internals.

Counts of other people's memories are in `memory.status_text`.
"""


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
        return Details(lines, numbers, memory, self.calm)

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
    ollama_configured: bool
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
    """The limits of turns, and the used share of the daily ones: name and text."""
    answering: str = ""
    """The agent that answers and why, where that is not `main` by default."""
    agents: Sequence[str] = ()
    """The tree of agents that work for the turn that runs, a line each."""
    reserve: int = 0
    """Tokens of the window that are kept free for the answer."""
    shortage: str = ""
    """The reason why the next request cannot fit into the window at all; empty: it can."""
    paused: bool = False
    """The turn that runs is paused."""

    def text(self, health: CompactionHealth, clock: Clock) -> str:
        """Return the text of `/status`."""
        blocks = [
            [
                "Session Status",
                f"  Messages: {self.messages:,}",
                f"  Tokens: {self.tokens:,} / {self.context_window:,} ({percent(self.tokens, self.context_window)})",
                f"  Compactions: {self.compactions:,}",
            ],
            ["Compaction Health", *self._health_lines(health, clock)],
            [
                "GoClaw",
                *self._first_lines(),
                f"  Cost so far: {cost_in_words(self.spent)}",
                *self._queue_lines(),
                *self._policy_lines(),
            ],
        ]
        if self.details.memory:
            blocks.append(["Memory", *(f"  {name}: {text}" for name, text in self.details.memory)])
        if self.agents:
            blocks.append(["Agents at work", *(f"  {line}" for line in self.agents)])
        return "\n\n".join("\n".join(block) for block in blocks)

    def _policy_lines(self) -> Sequence[str]:
        held = [("This turn", "paused; /resume goes on with it, /stop ends it")] if self.paused else []
        return [f"  {name}: {text}" for name, text in [*held, *self.policy]]

    def _first_lines(self) -> Sequence[str]:
        """Whether it works at all: daemon, model, Telegram."""
        told = {name: f"  {name}: {line}" for name, line in self.details.lines.items() if name in (DAEMON, TELEGRAM)}
        short = f"  Window: {self.shortage} /context says what helps." if self.shortage else ""
        lines = (told.get(DAEMON), self._model_line(), told.get(TELEGRAM), short)
        return [line for line in lines if line]

    def _model_line(self) -> str:
        if not self.chosen:
            return f"  Model: {self.model}"
        chosen = "" if self.model == self.chosen else f" {self.chosen}, which does not answer now"
        return f"  Model: {self.model} (set by /model{':' if chosen else ''}{chosen})"

    def _queue_lines(self) -> Sequence[str]:
        agent = {"Agent": self.answering} if self.answering else {}
        queue = {} if self.queue_mode == "queue" else {"Queue mode": self.queue_mode}
        mode = {} if self.mode == "default" else {"Permission mode": self.mode}
        lines = {name: line for name, line in self.details.lines.items() if name not in (DAEMON, TELEGRAM)}
        return [f"  {name}: {text}" for name, text in {**agent, **lines, **queue, **mode}.items()]

    def _health_lines(self, health: CompactionHealth, clock: Clock) -> Sequence[str]:
        if not self.ollama_configured:
            lines = ["  Ollama: not configured", "  Mode: main model only"]
        elif health.degraded:
            return [
                f"  Ollama: degraded ({health.failures}/{health.threshold} failures)",
                "  Mode: fallback to main model",
                f"  Reset in: {_until(health.reset_in)}",
                *([f"  Pending retries: {self.pending_retries}"] if self.pending_retries else []),
                *self._progress(),
            ]
        else:
            lines = [f"  Ollama: healthy ({health.counted}/{health.threshold} failures)", "  Mode: normal"]
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
                "configured": self.ollama_configured,
                "degraded": health.degraded,
                "failures": health.counted,
                "last_attempt": health.last_attempt,
            },
            "details": dict(self.details.lines),
            **self.details.numbers,
        }


def cost_in_words(spent: Spent) -> str:
    """Describe a session's costs in US dollars with their certainty: `$0.42 (12 requests, 3 of unknown price)`."""
    if spent.requests == 0:
        return "nothing (no requests yet)"
    requests = f"{spent.requests:,} request{'s' if spent.requests != 1 else ''}"
    if spent.unpriced == spent.requests:
        return f"unknown ({requests}, of unknown price)"
    unknown = f", {spent.unpriced:,} of unknown price" if spent.unpriced else ""
    return f"{dollars(spent.cost)} ({requests}{unknown})"


def dollars(cost: float) -> str:
    """Return an amount, as people read it."""
    return f"${cost:,.4f}" if 0 < cost < SMALL else f"${cost:,.2f}"


def _minutes(seconds: float) -> str:
    return f"{max(0, round(seconds / MINUTE))} min"


def _until(seconds: float) -> str:
    """Return a time to wait: whole seconds below a minute, which never reach zero while there is something left."""
    left = math.ceil(seconds)
    return f"{left} s" if left < MINUTE else _minutes(seconds)
