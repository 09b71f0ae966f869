"""A turn as its preview shows it: the text so far, a line about its tools, and what of it is in the chat."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from goclaw.channels.telegram.outgoing import ChatTarget
from goclaw.channels.telegram.render import MAX_UNITS, RenderedMessage, units
from goclaw.common.core.clock import Timer
from goclaw.common.core.events import Todo
from goclaw.common.core.messages import AssistantMessage, Message
from goclaw.common.core.redact import mask, printable

MAX_LINE = 80
"""Maximum characters of a tool's line: one line on most telephones, two on small ones."""
MAX_ARGUMENT = 4_000
"""Maximum characters of an argument that can matter for its line, with a secret that begins in it."""


@dataclass(slots=True)
class Progress:
    """The content of a turn's view: the text so far, and a line about its tools."""

    text: str = ""
    starts_anew: bool = False
    """The next text is the begin of another message: the model used a tool in between."""
    above: str = ""
    """Text that stays above the next one, in the same message (`AssistantMessage.deferred`)."""
    settling: bool = False
    """The text is being delivered: nothing more may be shown in its message."""
    ahead: int = 0
    """Deliveries of such texts that went out before the event that they were recorded had come."""
    tools: dict[str, str] = field(default_factory=dict)
    """A line for each call that runs, the latest last."""
    outcome: str = ""
    """The outcome of the latest call, if it has one; shown until the next event."""
    todos: str = ""
    """Progress of the to-do list."""

    def add(self, text: str) -> None:
        """The answer goes on."""
        before = self.above if self.starts_anew else self.text
        self.text, self.starts_anew, self.outcome = before + text, False, ""

    def stored(self, message: Message) -> None:
        """Note that an answer or a tool's result is recorded."""
        self.starts_anew = True
        if isinstance(message, AssistantMessage) and message.is_interim:
            self._said_before_calls(is_delivered=not message.deferred)

    def _said_before_calls(self, *, is_delivered: bool) -> None:
        self.above = "" if is_delivered else f"{self.text}\n\n"
        if is_delivered and self.ahead:
            self.text, self.ahead = "", self.ahead - 1
        elif is_delivered:
            self.settling = True

    def continued(self) -> "Progress":
        """Return the progress of the rest of the turn, in another message."""
        return Progress(
            text="" if self.starts_anew else self.text,
            ahead=self.ahead if self.settling else self.ahead + 1,
            tools=self.tools,
            outcome=self.outcome,
            todos=self.todos,
        )

    def tool_started(self, call_id: str, name: str, arguments: Mapping[str, Any], hint: str = "") -> None:
        """Note that a tool runs; `hint`: its activity, in its own words."""
        self.starts_anew, self.outcome = True, ""
        self.tools[call_id] = sign_line("⚙", hint) if hint else tool_line(name, arguments)

    def agent_did(self, call_id: str, agent: str, doing: str) -> None:
        """An agent that the call has started does something: shown in the call's line."""
        self.tools[call_id] = sign_line("⚙", f"{agent} › {doing}")

    def tool_finished(self, call_id: str, hint: str = "") -> None:
        """Note the end of a call; `hint`: its outcome, in its own words."""
        self.tools.pop(call_id, None)
        self.outcome = sign_line("✓", hint) if hint else ""

    def noticed(self, text: str) -> None:
        """Show a line of the runtime until something else happens."""
        self.outcome = sign_line("…", text)

    def todos_changed(self, todos: Sequence[Todo]) -> None:
        """Note another to-do list; an empty one removes it."""
        done = sum(todo.status == "completed" for todo in todos)
        doing = next((f"; now: {todo.content}" for todo in todos if todo.status == "in_progress"), "")
        self.todos = sign_line("☑", f"{done} of {len(todos)} done{doing}") if todos else ""

    def line(self) -> str:
        """Return the line about tools, below the one about the to-do list."""
        return "\n".join(filter(None, (self.todos, next(reversed(self.tools.values()), self.outcome))))


@dataclass(slots=True)
class Display:
    """The part of a turn's view that is in the chat."""

    shown: RenderedMessage | None = None
    shown_at: float = 0.0
    message_id: int | None = None
    """The message that grows, where there is no draft."""
    lost: bool = False
    """A first preview may stand in the chat, and its id is not known: there must be no second one."""
    abandoned: bool = False
    """The answer went out without waiting for the preview that is on its way."""
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)


class Phase(Enum):
    """How far a turn is."""

    WAITING = auto()
    """Its message waits for its turn."""
    RUNNING = auto()
    ASKING = auto()
    """It waits for a person."""


@dataclass(eq=False)
class TurnView:
    """One turn, from the message that asked for it until its answer goes out."""

    turn: str
    session: str
    target: ChatTarget
    alive_at: float
    """When it last showed a sign of life."""
    phase: Phase = Phase.WAITING
    progress: Progress = field(default_factory=Progress)
    display: Display = field(default_factory=Display)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    timers: list[Timer] = field(default_factory=list)
    """The start that is due soon, unless the view ends first."""

    @property
    def started(self) -> bool:
        return self.phase is not Phase.WAITING

    def next_view(self) -> "TurnView":
        """Return the view of the rest of the turn, in another message."""
        progress = self.progress.continued()
        rest = TurnView(self.turn, self.session, self.target, self.alive_at, self.phase, progress)
        rest.changed.set()
        return rest

    def end(self) -> None:
        """End the view: nothing more is shown."""
        for timer in self.timers:
            timer.cancel()
        self.ended.set()
        self.changed.set()


def tool_line(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call in one line, without secrets: its name and the first of its arguments that is a plain text."""
    words = (value for value in arguments.values() if isinstance(value, str) and value.strip())
    told = next(words, "")[:MAX_ARGUMENT].strip()
    if told.startswith(("{", "[")):
        told = ""  # data, which says nothing to people
    return sign_line("⚙", f"{name}: {told}" if told else name)


def sign_line(sign: str, text: str) -> str:
    """Return a line of the view, without secrets."""
    line = " ".join(printable(mask(f"{sign} {text}")).split())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


def with_line(chunk: RenderedMessage, line: str) -> RenderedMessage:
    """`chunk` with a line below it, where there is room for it."""
    text = f"{chunk.text}\n\n{line}" if chunk.text and line else chunk.text + line
    return RenderedMessage(text, chunk.spans) if units(text) <= MAX_UNITS else chunk
