"""The points at which hooks are called, what they are told, and what they may answer.

Before a tool runs, a hook that fails forbids the call: whoever hangs a guard there does not mean "unless it breaks".
At every other point a failure is reported and nothing else.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from goclaw.events import Actor

log = logging.getLogger(__name__)

Point = Literal[
    "pre_tool",
    "post_tool",
    "post_tool_failure",
    "session_start",
    "before_compaction",
    "message_in",
    "message_out",
]


@dataclass(frozen=True, slots=True)
class HookEvent:
    """What happens; fields that do not belong to a point are empty."""

    point: Point
    session: str
    actor: Actor
    tool: str = ""
    tags: frozenset[str] = frozenset()
    call_id: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the call."""
    text: str = ""
    """The result, the error, the message, or the instructions of a compaction."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What a hook wants; nothing said is nothing wanted."""

    deny: str = ""
    """Why the call is forbidden, or the message not taken or not sent."""
    input: Mapping[str, Any] | None = None
    """Arguments in place of the call's own; they are validated and authorized anew. Only before a tool."""
    inject: Mapping[str, Any] = field(default_factory=dict)
    """Values of injected arguments. Only Python hooks, and only before a tool."""
    context: str = ""
    """Told to the model after the tool results."""
    suppress: bool = False
    """The model does not get the result. Only after a tool."""
    text: str | None = None
    """The message in other words. Only for messages."""


Hook = Callable[[HookEvent], Awaitable[HookAnswer]]


@dataclass(frozen=True, slots=True)
class Registered:
    """A hook with where it is called."""

    name: str
    points: frozenset[Point]
    hook: Hook
    match: frozenset[str] = frozenset()
    """Names of tools, and `tag:x`; empty: every tool."""

    def hears(self, event: HookEvent) -> bool:
        """Whether it is called for the event."""
        if event.point not in self.points:
            return False
        return not self.match or not event.tool or bool(self.match & ({event.tool} | {f"tag:{t}" for t in event.tags}))


class Hooks:
    """All hooks, called one after the other in the order of the configuration."""

    def __init__(self, registered: Sequence[Registered] = (), report: Callable[[str], None] = log.warning) -> None:
        self._registered = tuple(registered)
        self._report = report

    def any_for(self, point: Point) -> bool:
        """Whether anybody is called at `point` at all."""
        return any(point in each.points for each in self._registered)

    async def fire(self, event: HookEvent) -> HookAnswer:
        """What all hooks together want; the first denial ends it. Each sees what the one before made of the event."""
        answer = HookAnswer()
        for each in self._registered:
            if each.hears(event):
                answer = _together(answer, await self._ask(each, event))
                if answer.deny:
                    return answer
                event = replace(
                    event,
                    input=event.input if answer.input is None else answer.input,
                    text=event.text if answer.text is None else answer.text,
                )
        return answer

    async def _ask(self, each: Registered, event: HookEvent) -> HookAnswer:
        try:
            return await each.hook(event)
        except Exception as error:
            self._report(f"hook {each.name} failed at {event.point}: {error}")
            return HookAnswer(deny=f"hook {each.name} failed") if event.point == "pre_tool" else HookAnswer()


def _together(one: HookAnswer, other: HookAnswer) -> HookAnswer:
    return HookAnswer(
        deny=other.deny,
        input=one.input if other.input is None else other.input,
        inject={**one.inject, **other.inject},
        context="\n".join(filter(None, (one.context, other.context))),
        suppress=one.suppress or other.suppress,
        text=one.text if other.text is None else other.text,
    )
