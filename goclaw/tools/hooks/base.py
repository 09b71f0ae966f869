"""The points at which hooks are called, their events, and the answers allowed.

Before a tool runs, a hook that fails forbids the call: a guard must not be skipped because it breaks. At every other
point a failure is reported and nothing else.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, get_args

from goclaw.common.config.hooks import DEFAULT_SECONDS
from goclaw.common.config.values import Point as Point
from goclaw.common.core.catalog import ALIASES
from goclaw.common.core.events import Actor, Alerts, NoAlerts
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, mask_known
from goclaw.errors import HookFailed

log = logging.getLogger(__name__)

POINTS: frozenset[Point] = frozenset(get_args(Point))

MAY: Mapping[Point, frozenset[str]] = {
    "pre_tool": frozenset({"deny", "input", "inject", "context"}),
    "post_tool": frozenset({"context", "suppress"}),
    "post_tool_failure": frozenset({"context", "suppress"}),
    "session_start": frozenset({"context"}),
    "before_compaction": frozenset({"context", "text"}),
    "message_in": frozenset({"deny", "context", "text"}),
    "message_out": frozenset({"deny", "suppress", "text"}),
}
"""The fields of an answer allowed at each point; a hook with any other one has failed."""


@record
class HookEvent:
    """An event for hooks; fields that do not belong to its point are empty."""

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
    tool_id: str = ""
    """The tool's id: `agent.set.tool` where one agent alone has it, else its name."""


@record
class HookAnswer:
    """A hook's answer; empty fields change nothing. See `MAY` for the fields allowed at each point."""

    deny: str = ""
    """Why the call is forbidden, or the message not taken or not sent."""
    input: Mapping[str, Any] | None = None
    """Arguments that replace the call's own; they are validated and authorized again. Only before a tool."""
    inject: Mapping[str, Any] = field(default_factory=dict)
    """Values of injected arguments. Only before a tool."""
    context: str = ""
    """Context for the model: after the tool results, next to the person's message, or in the prompt of a summary."""
    suppress: bool = False
    """The model does not get the result; the person does not get the answer. After a tool, and of messages out."""
    text: str | None = None
    """The message, or the instructions of a compaction, in other words."""

    def wanted(self) -> set[str]:
        """Return the names of the fields set."""
        return {each.name for each in fields(self) if getattr(self, each.name) not in ("", None, False, {})}


Hook = Callable[[HookEvent], Awaitable[HookAnswer]]


@record
class HookPart:
    """A hook that a package brings, as an object under a name `hooks.<name>` of the entry-point group `goclaw.plugins`.

    It runs inside the daemon, with all its rights.
    """

    points: Collection[Point]
    hook: Hook
    match: Collection[str] = ()
    """Names of tools, and `tag:x`; empty: every tool."""
    seconds: float = DEFAULT_SECONDS
    """How long it may take until it counts as failed."""


@record
class Registered:
    """A hook with where it is called."""

    name: str
    points: frozenset[Point]
    hook: Hook
    match: frozenset[str] = frozenset()
    """Names of tools, and `tag:x`; empty: every tool."""

    def matches(self, event: HookEvent) -> bool:
        """Whether it is called for the event."""
        if event.point not in self.points:
            return False
        if not self.match or not event.tool:
            return True
        names = {event.tool, event.tool_id, *(f"tag:{tag}" for tag in event.tags)}
        return any(part in names or ALIASES.get(part) == event.tool for part in self.match)


class Hooks:
    """All hooks, called one after the other in the order of the configuration, those of packages after them."""

    def __init__(self, registered: Sequence[Registered] = (), alerts: Alerts | None = None) -> None:
        self._registered = tuple(registered)
        self._alerts = alerts or NoAlerts()
        self.points = frozenset[Point]().union(*(each.points for each in registered))
        """The points that have any hook; an attribute, because every turn looks several times."""

    def has_any(self, event: HookEvent) -> bool:
        """Whether any hook would be called for the event."""
        return any(each.matches(event) for each in self._registered)

    async def fire(self, event: HookEvent) -> HookAnswer:
        """Call the hooks and return their joint answer; the first denial ends it. Each gets the changed event."""
        answer = HookAnswer()
        for each in self._registered:
            if each.matches(event):
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
        key = f"hook:{each.name}"
        try:
            answer = await each.hook(event)
            if beyond := answer.wanted() - MAY[event.point]:
                raise HookFailed(f"it answered {', '.join(sorted(beyond))}, which means nothing there")
        except Exception as error:
            why = mask(f"the hook {each.name} failed at {event.point}: {str(error) or type(error).__name__}")
            log.warning("%s", why, exc_info=None if isinstance(error, HookFailed) else error)
            self._alerts.tell(key, f"{why}; docs/hooks.md says what it may answer")
            if event.point != "pre_tool":
                return HookAnswer()
            return HookAnswer(deny=f"the hook {each.name} failed, and what it guards does not run without it")
        self._alerts.clear(key)
        # Without secrets, except for injected values, which no model and no journal gets.
        if not answer.wanted():
            return answer
        return replace(
            answer,
            deny=mask(answer.deny),
            context=mask(answer.context),
            text=None if answer.text is None else mask_known(answer.text),
            input=None if answer.input is None else _masked_values(answer.input),
        )


def _together(one: HookAnswer, other: HookAnswer) -> HookAnswer:
    return HookAnswer(
        deny=other.deny,
        input=one.input if other.input is None else other.input,
        inject={**one.inject, **other.inject},
        context="\n".join(filter(None, (one.context, other.context))),
        suppress=one.suppress or other.suppress,
        text=one.text if other.text is None else other.text,
    )


def _masked_values(value: Any) -> Any:
    match value:
        case str():
            return mask_known(value)
        case Mapping():
            return {name: _masked_values(inner) for name, inner in value.items()}
        case list():
            return [_masked_values(inner) for inner in value]
        case _:
            return value
