"""Agent runs for callers outside any session: an MCP client calls a tool that an agent exports.

Such a call is a turn without a message, for the person of the client's token: its agents are counted, shown and
kept under a session of that person that has no other use. It lives as long as the client waits, and is lost with the
daemon: the agents' messages until then are kept, and the call is not resumed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from structlog.contextvars import bound_contextvars

from goclaw.agent.kinds import AGENT_TOOL, Kinds
from goclaw.agent.policy import RunPolicy
from goclaw.agent.rules import TurnRules
from goclaw.clock import Clock
from goclaw.config.agents import AgentSettings
from goclaw.engine.journal import Journal
from goclaw.errors import ToolError
from goclaw.events import Inbound
from goclaw.messages import ToolResult
from goclaw.records import record
from goclaw.sessions.agent_run import AgentRun, SharedRun
from goclaw.sessions.approvals import ExternalCaller
from goclaw.sessions.pausing import Pauses
from goclaw.sessions.state import Contexts
from goclaw.supervise import background
from goclaw.toolkit.consent import ApprovalRequest, Consent
from goclaw.toolkit.scope import CallScope
from goclaw.toolkit.spawning import AgentReport, AgentTask, Forward
from goclaw.toolkit.teaming import SEND_MESSAGE, TEAM_CREATE, TEAM_DELETE

T = TypeVar("T")

NO_BACKGROUND = "an MCP client starts no agent in the background: nobody would be told of its end"
FORGOTTEN = "the agent was ended: the conversation that it was kept in was forgotten"

Spawn = Callable[[AgentRun, AgentTask, str, str], Coroutine[Any, Any, AgentReport]]
HandOn = Callable[[AgentRun, CallScope, Forward, str, str], Coroutine[Any, Any, ToolResult]]


@record
class ExternalRunPorts:
    """The services that such calls use."""

    clock: Clock
    contexts: Contexts
    forward: HandOn
    journal: Journal
    kinds: Kinds
    pauses: Pauses
    rules: TurnRules
    """The rules of the call as a whole; agents have rules of their own besides."""
    spawn: Spawn


class ExternalRuns:
    """All such calls that are under way."""

    def __init__(self, ports: ExternalRunPorts) -> None:
        self.ports = ports
        self._open: set[ExternalRun] = set()

    @property
    def without(self) -> Sequence[str]:
        """Tools that are of no use to such a call, as a selection that leaves them out."""
        config, names = self.ports.kinds.config, [TEAM_CREATE, TEAM_DELETE, SEND_MESSAGE]
        if not config.limits.agent_depth:
            names += [AGENT_TOOL, *self.ports.kinds.recursive(set(config.agents.everyone))]
        return tuple(f"-{name}" for name in names)

    @asynccontextmanager
    async def received(
        self, scope: CallScope, call: str, approve: Callable[[ApprovalRequest, str], Awaitable[Consent]]
    ) -> AsyncIterator[CallScope]:
        """Yield the scope of a call, with the ports by which a tool starts agents.

        Args:
            scope: the actor and place of the call; its `tools` limit the tools of its agents.
            call: a unique id, never used again.
            approve: asks the caller whether a call of the agent with this name may run.
        """
        run = ExternalRun(self, scope, call, approve)
        self._open.add(run)
        try:
            with bound_contextvars(turn=call, session=scope.session):
                yield replace(scope, spawn=run.spawn, forward=run.forward)
        finally:
            try:
                await run.close()
            finally:
                self._open.discard(run)

    async def end(self, session: str) -> None:
        """End the agents that work for such calls in a session: it is about to be forgotten."""
        work = {task for run in self._open if run.scope.session == session for task in run.work}
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)

    def refuse_too_many(self, session: str) -> None:
        """Raises ToolError where as many calls are handed on as may be: gateways may hand one on in a circle."""
        most = self.ports.kinds.config.limits.agents_at_once
        if sum(run.handing_on for run in self._open if run.scope.session == session) >= most:
            raise ToolError(
                f"{most} calls of this person are handed on already, more may not at the same time "
                "(limits.agents_at_once): call again when one has ended"
            )


class ExternalRun:
    """One such call."""

    def __init__(
        self,
        runs: ExternalRuns,
        scope: CallScope,
        call: str,
        approve: Callable[[ApprovalRequest, str], Awaitable[Consent]],
    ) -> None:
        self._ports, self._runs = runs.ports, runs
        self.scope = scope
        self.work: set[asyncio.Task[Any]] = set()
        """The work in progress for the call."""
        self.handing_on = False
        """It waits for another tool."""
        asked = Inbound(call, scope.actor, scope.session, "", scope.address, self._ports.clock.now())
        # No message began it, so no restart takes it up.
        self._turn = self._ports.journal.new_turn(asked, "message")
        gate = self._ports.pauses.gate(self._turn, nullcontext)
        self._root = SharedRun(self._turn, gate, caller=ExternalCaller(approve, scope.ask, scope.emit))
        self._used = False

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        """Have an agent do a task; see `CallScope.spawn`."""
        if task.background:
            raise ToolError(NO_BACKGROUND)
        return await self._waited_for(self._ports.spawn(await self._agent_run(), task, step, call_id))

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        """Make a call of another tool; see `CallScope.forward`."""
        self._runs.refuse_too_many(self.scope.session)
        self.handing_on = True
        try:
            agent_run = await self._agent_run()
            return await self._waited_for(self._ports.forward(agent_run, self.scope, wanted, step, call_id))
        finally:
            self.handing_on = False

    async def close(self) -> None:
        """Forget the recorded steps, since the caller no longer waits."""
        if self._used:
            await self._ports.journal.end(self._turn.id, self._ports.clock.now(), ())

    async def _agent_run(self) -> AgentRun:
        """Stands where the agent that answers a person stands in their turn."""
        self._used = True
        home = await self._ports.contexts.session(self.scope.session)
        settings = AgentSettings(tools=None if self.scope.tools is None else tuple(self.scope.tools))
        return AgentRun(self._root, self._turn, home, RunPolicy(self._ports.rules), settings, agent="")

    async def _waited_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; cancel it when the caller stops waiting, and mark the turn as stopping."""
        async with background(work, f"agents for {self._turn.id}") as task:
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
