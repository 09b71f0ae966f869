"""Forwarding of a call to another tool (`passthrough` of an exported tool), as a step of its own in the same turn.

It takes the path of every call: known, authorized, approved, audited, and never run twice if it must not be.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from goclaw.codec import Codec
from goclaw.engine.base import Turn
from goclaw.errors import OutcomeUnknown
from goclaw.messages import ToolCall, ToolResult
from goclaw.records import record
from goclaw.toolkit.dispatcher import Dispatcher, error_text
from goclaw.toolkit.scope import CallScope
from goclaw.toolkit.spawning import Forward

_RESULT: Codec[ToolResult] = Codec(ToolResult)


@record
class Forwarding:
    """Hands calls on for one agent at work."""

    dispatcher: Dispatcher
    turn: Turn
    scope: CallScope
    """Of that agent."""
    selection: Sequence[str] | None = None
    """The tools of the agent that offers the call."""

    async def hand_on(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        """Make the call on behalf of the call with this step name and id, or read back its recorded result."""
        call = ToolCall(call_id, wanted.tool, dict(wanted.input))
        name = f"{step}/{wanted.tool}"
        repeatable = self.dispatcher.is_idempotent(call, self.scope.actor)
        scope = replace(self.scope, step=name, selections=self._within(wanted), hidden=True)

        async def run() -> ToolResult:
            if self.turn.stopping:
                raise asyncio.CancelledError
            return await self.dispatcher.call(call, scope)

        done = await self.turn.step(name, run, _RESULT, unknown=None if repeatable else lambda: _unknown(call))
        return done.value

    def _within(self, wanted: Forward) -> tuple[Sequence[str] | None, ...]:
        """Return the selections: the tool must belong to the offering agent and, as a rule, to the caller."""
        return (self.selection,) if wanted.own_tools else (*self.scope.selections, self.selection)


def _unknown(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, error_text(str(OutcomeUnknown(call.name))), is_error=True)
