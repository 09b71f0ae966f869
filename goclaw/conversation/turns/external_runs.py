"""Agent runs for callers outside any session: an MCP client calls a tool that an agent exports.

Such a call is a turn without a message, for the person of the client's token: its agents are counted, shown and
kept under a session of that person that has no other use. It lives while the client waits, and is lost with the
daemon: the agents' messages until then are kept, and the call is not resumed.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import field
from typing import Any, TypeVar

from structlog.contextvars import bound_contextvars

from goclaw.common.config.agents import AgentSettings
from goclaw.common.core.events import AGENT_TURN, Inbound
from goclaw.common.core.fencing import Fence, alongside_owner
from goclaw.common.core.messages import ToolResult
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.conversation.agent.kinds import AGENT_TOOL, Kind
from goclaw.conversation.agent.limits import RunPolicy, TurnRules
from goclaw.conversation.questions.turn_questions import ExternalCaller
from goclaw.conversation.sessions.pausing import Pauses
from goclaw.conversation.turns.agent_run import AgentRun, SharedRun
from goclaw.conversation.turns.agents import Agents
from goclaw.conversation.turns.turn_context import TurnContext
from goclaw.durable.store.ownership import Ownership
from goclaw.errors import OwnershipLost, ToolError
from goclaw.tools.toolkit.agent_tasks import (
    SEND_MESSAGE,
    TEAM_CREATE,
    TEAM_DELETE,
    AgentPort,
    AgentReport,
    AgentTask,
    Forward,
)
from goclaw.tools.toolkit.scope import CallScope

T = TypeVar("T")

NO_BACKGROUND = "an MCP client starts no agent in the background: nobody would be told of its end"
FORGOTTEN = "the agent was stopped: its conversation was deleted"


@record
class ExternalRuns:
    """All such calls that are under way."""

    context: TurnContext
    agents: Agents
    pauses: Pauses
    rules: TurnRules
    """Of a call as a whole; agents have rules of their own besides."""
    ownership: Ownership
    """Other processes have such calls, too, and any of them may own their sessions."""
    _open: "set[ExternalRun]" = field(default_factory=set)

    @property
    def without(self) -> Sequence[str]:
        """Return a selection that leaves out the tools that are of no use to such a call."""
        kinds, names = self.context.choices.agents.kinds, [TEAM_CREATE, TEAM_DELETE, SEND_MESSAGE]
        if not kinds.config.limits.agent_depth:
            names += [AGENT_TOOL, *kinds.recursive(set(kinds.config.agents.everyone))]
        return tuple(f"-{name}" for name in names)

    @asynccontextmanager
    async def open_port(
        self, scope: CallScope, call: str, caller: ExternalCaller, tools: Sequence[str] | None
    ) -> AsyncIterator[AgentPort]:
        """Yield the port that lets the tool of a call start agents.

        Args:
            scope: the actor and place of the call.
            call: a unique id, never used again.
            caller: is asked and told what its agents do.
            tools: a selection that limits the tools of its agents; None: all of the actor's.
        """
        run = ExternalRun(self, scope, call, caller, tools)
        self._open.add(run)
        try:
            with bound_contextvars(turn=call, session=scope.session):
                yield run
        finally:
            try:
                await run.close()
            finally:
                self._open.discard(run)

    async def end(self, session: str) -> None:
        """End the agents that work for such calls in a session: it is about to be forgotten.

        Those at other processes write nothing from here on, and end as soon as they try.

        Raises:
            StateError: the store, which would have to refuse that, cannot be reached.
        """
        work = {task for run in self._open if run.scope.session == session for task in run.work}
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        await self.ownership.end_beside(session)

    def refuse_too_many(self, session: str) -> None:
        """Refuse one more call while as many as may be are handed on: gateways may hand one on in a circle.

        Raises:
            ToolError: it is refused.
        """
        most = self.context.choices.agents.kinds.config.limits.agents_at_once
        if sum(run.handing_on for run in self._open if run.scope.session == session) >= most:
            raise ToolError(
                f"{most} calls of this person have been handed on and still run, which is the limit: call again when "
                "one has ended"
            )


class ExternalRun:
    """One such call. Implements `toolkit.agent_tasks.AgentPort`."""

    def __init__(
        self, runs: ExternalRuns, scope: CallScope, call: str, caller: ExternalCaller, tools: Sequence[str] | None
    ) -> None:
        self._ports, self._runs = runs.context.ports, runs
        self._settings = AgentSettings(tools=None if tools is None else tuple(tools))
        self.scope = scope
        self.work: set[asyncio.Task[Any]] = set()
        """The work in progress for the call."""
        self.handing_on = False
        """It waits for another tool."""
        asked = Inbound(call, scope.actor, scope.session, "", scope.address, self._ports.clock.now())
        # No message began it, so no restart takes it up.
        self._turn = self._ports.store.journal.new_turn(asked, "message")
        gate = runs.pauses.gate(self._turn, nullcontext)
        self._root = SharedRun(self._turn, gate, caller=caller)
        self._used = False
        self._fence: Fence | None = None

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        """Have an agent do a task."""
        if task.background:
            raise ToolError(NO_BACKGROUND)
        return await self._waited_for(self._runs.agents.spawn(await self._agent_run(), task, step, call_id))

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        """Make a call of another tool."""
        self._runs.refuse_too_many(self.scope.session)
        self.handing_on = True
        try:
            await self._start()
            forwarded = self._runs.context.forward(self._turn, self.scope, wanted, step, call_id, spawns=False)
            return await self._waited_for(forwarded)
        finally:
            self.handing_on = False

    async def close(self) -> None:
        """Forget the recorded steps, since the caller no longer waits."""
        if self._used:
            await self._ports.store.journal.end(self._turn.id, self._ports.clock.now(), ())

    async def _agent_run(self) -> AgentRun:
        """Return the run that stands where the agent that answers a person stands in their turn."""
        await self._start()
        home = await self._runs.context.contexts.session(self.scope.session)
        rules = self._runs.rules
        return AgentRun(self._root, self._turn, home, RunPolicy(rules), Kind("", self._settings, rules))

    async def _start(self) -> None:
        if self._fence is None:
            self._fence = await self._runs.ownership.beside(self.scope.session)
        self._used = True

    async def _waited_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; cancel it when the caller stops waiting, and mark the turn as stopping."""
        with alongside_owner(self._fence):
            working = background(self._unless_forgotten(work), f"agents for {self._turn.id}")
            async with working as task:
                self.work.add(task)
                try:
                    await asyncio.wait({task})
                except asyncio.CancelledError:
                    self._turn.stopping = True
                    raise
                finally:
                    self.work.discard(task)
        if task.cancelled():
            raise ToolError(FORGOTTEN)
        return task.result()

    async def _unless_forgotten(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; raise ToolError where another process has forgotten the session."""
        try:
            return await work
        except OwnershipLost:
            reservations = self._runs.context.costs.reservations
            of_agents = f"{self._turn.id}{AGENT_TURN}"
            for each in list(reservations.own.values()):
                if each.turn == self._turn.id or each.turn.startswith(of_agents):
                    reservations.release(each.id)
            raise ToolError(FORGOTTEN) from None
