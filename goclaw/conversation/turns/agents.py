"""Subagents of a turn: started by the tool `agent`, each with a conversation and limits of its own.

Everything a subagent does is a step of the turn it works for (`NestedTurn`): it ends with that turn, and resumes with
it after a crash. It grants no additional right: a subagent acts as the same person, with the same or fewer tools.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import field, replace
from hashlib import sha256

from structlog.contextvars import bound_contextvars

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import (
    LOCAL,
    Address,
    Inbound,
    Outcome,
    TurnFinished,
    TurnStarted,
    session_of_agent,
    turn_of_agent,
)
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask
from goclaw.conversation.agent.context.labels import source_of, window_content
from goclaw.conversation.agent.kinds import AGENT_TOOL, Kind
from goclaw.conversation.agent.limits import RunPolicy
from goclaw.conversation.agent.loop import continue_turn, run_turn
from goclaw.conversation.sessions.pausing import Pauses
from goclaw.conversation.sessions.state import Contexts, Session
from goclaw.conversation.turns.agent_run import (
    AgentRun,
    AgentWorktree,
    Delegation,
    NestedTurn,
    SharedRun,
    TeamMembership,
)
from goclaw.conversation.turns.agent_selection import AgentSelector
from goclaw.conversation.turns.agent_services import AgentServices
from goclaw.conversation.turns.answers import empty_sentence
from goclaw.conversation.turns.turn import STOPPED, TurnRun
from goclaw.conversation.turns.turn_context import SessionPorts
from goclaw.durable.engine.journal import JournaledTurn
from goclaw.errors import GoclawError, LimitReached, OutcomeUnknown, StateError, ToolError
from goclaw.tools.execution.tasks.base import Job, JobEnd, Owner
from goclaw.tools.toolkit.agent_tasks import AgentReport, AgentTask

log = logging.getLogger(__name__)

_STARTED: Codec[tuple[str, str]] = Codec(tuple[str, str])

MAX_MENDS = 2
"""Number of times a subagent is asked again when its last answer is not in the form its caller needs."""
ID_LENGTH = 12
MAX_NAME = 80
"""Maximum characters of a subagent's label for people."""


@record
class RunningAgent:
    """An agent at work, for people."""

    id: str
    agent_run: AgentRun
    began: float
    """Monotonic."""


@record
class Agents:
    """All agents that work for turns now."""

    ports: SessionPorts
    agents_for: AgentSelector
    contexts: Contexts
    pauses: Pauses
    services: Callable[[AgentRun], AgentServices]
    """Returns the services for an agent."""
    _running: dict[str, RunningAgent] = field(default_factory=dict)
    """By their sessions, in the order of their start."""
    _places: dict[str, str] = field(default_factory=dict)
    """The person's session of each that works or is about to, by its own."""

    async def spawn(self, above: AgentRun, task: AgentTask, step: str, call_id: str) -> AgentReport:
        """Run an agent for `above` to its end, or take it up where a crash has cut it.

        Args:
            above: the agent that starts it.
            task: its task.
            step: the name of the call's step in the turn of `above`.
            call_id: the call.

        Raises:
            ToolError: it may not be started, or did not finish.
            StateError: the disk refuses its writes; the turn is resumed later.
        """
        kind = self.agents_for.kinds.of(task.kind) if task.exported else self.kind(above, task.kind)
        if kind is None:
            raise ToolError(f"the agent {task.kind} no longer exists")
        agent = _id_of(above.turn.id, step)
        await self._refuse_too_many(above, agent)
        if task.background:
            return await self._start(above, kind, task, agent, step)
        # Nothing is awaited in between: this is what counts as being at work.
        async with self.working(above, agent) as session:
            agent_run = _below(above, kind, task, session, agent, step, call_id, self.ports.clock.now())
            self._running[session.key] = RunningAgent(agent, agent_run, self.ports.clock.monotonic())
            with bound_contextvars(agent=agent):
                return await self._work(agent_run, agent, kind, task)

    def kind(self, above: AgentRun, name: str) -> Kind:
        """Return the kind of agent for a name.

        Raises:
            ToolError: no agent of that name may work for this person.
        """
        kind = self.agents_for.kinds.find(name)
        if not self.agents_for.may(above.turn.inbound.actor, kind.name):
            raise ToolError(f"this person may use no kind of agent called {kind.name!r}")
        return kind

    async def _start(self, above: AgentRun, kind: Kind, task: AgentTask, agent: str, step: str) -> AgentReport:
        """Start a subagent in the background. It is started once: work lost in a crash is reported as lost."""
        if above.parent is not None:
            raise ToolError("an agent that works for another one starts none in the background")
        turn, name, key = above.turn, f"{step}/start", session_of_agent(above.session.key, agent)
        has_begun = False
        self._places[key] = above.home.key

        async def start() -> tuple[str, str]:
            nonlocal has_begun
            await turn.intend(name)
            info = await self.ports.environment.tasks.start_job(self._job(above.detach(), kind, task, agent, step))
            has_begun = True
            return info.id, info.output

        try:
            task_id, output = (await turn.step(name, start, _STARTED, unknown=lambda: ("", ""))).value
        finally:
            if not has_begun:
                self._places.pop(key, None)
        if not task_id:
            raise ToolError(str(OutcomeUnknown(AGENT_TOOL)))
        return AgentReport(agent, kind.name, task=task_id, output=output)

    def _job(self, above: AgentRun, kind: Kind, task: AgentTask, agent: str, step: str) -> Job:
        ports, inbound = self.ports, above.turn.inbound
        mine = turn_of_agent(above.turn.id, agent)
        # No message began it, so no restart takes it up; its questions are asked where the person is.
        own = ports.store.journal.new_turn(replace(inbound, id=mine, text=task.text, attachments=()), "message")

        async def run() -> JobEnd:
            try:
                async with self.working(above, agent) as session:
                    agent_run = _below(above, kind, task, session, agent, step, "", ports.clock.now())
                    agent_run = self._with_root(agent_run, own, agent_run.turn.inbound)
                    self._running[session.key] = RunningAgent(agent, agent_run, ports.clock.monotonic())
                    report = await self._work(agent_run, agent, kind, task)
                    return JobEnd("\n\n".join(filter(None, (report.answer, report.kept.text() if report.kept else ""))))
            finally:
                await ports.questions.on_turn_end(own.id)
                await ports.store.journal.end(own.id, ports.clock.now(), ())

        def stop() -> None:
            own.stopping = True

        owner, label = Owner(above.home.key, inbound.actor.key), _name(kind, task)
        seconds = 60.0 * ports.config.tools.tasks.minutes
        return Job(owner, inbound.address, label, run, stop, seconds, above.turn.id)

    async def admit(self, above: AgentRun, step: str) -> str:
        """Keep a place free for an agent that stays for several turns; returns its id. Raises ToolError: none is free.

        `dismiss` frees it again.
        """
        agent = _id_of(above.turn.id, step)
        await self._refuse_too_many(above, agent)
        self._places[session_of_agent(above.session.key, agent)] = above.home.key
        above.root.started.add(agent)
        return agent

    def dismiss(self, above: AgentRun, agent: str) -> None:
        """Free the place of an agent that has ended, or was never begun."""
        self._places.pop(session_of_agent(above.session.key, agent), None)

    async def one_turn(
        self,
        above: AgentRun,
        kind: Kind,
        task: AgentTask,
        session: Session,
        agent: str,
        own: JournaledTurn,
        membership: TeamMembership,
    ) -> str:
        """Run one turn of an agent that stays: `own`; returns its last words. Raises ToolError: it did not finish."""
        ports = self.ports
        agent_run = _below(above, kind, task, session, agent, "", "", ports.clock.now())
        asked = replace(agent_run.turn.inbound, id=own.id, foreign=own.inbound.foreign)
        agent_run = replace(self._with_root(agent_run, own, asked), membership=membership)
        began = self._running[session.key].began if session.key in self._running else ports.clock.monotonic()
        self._running[session.key] = RunningAgent(agent, agent_run, began)
        with bound_contextvars(agent=agent):
            return (await self._run(agent_run, agent, kind, task)).answer

    def _with_root(self, agent_run: AgentRun, own: JournaledTurn, asked: Inbound) -> AgentRun:
        """Return the run in a turn of its own, which no message began: it outlives the turn that started it."""
        root = SharedRun(own, self.pauses.gate(own, nullcontext))
        delegation = replace(agent_run.delegation, prefix="")
        return replace(agent_run, root=root, turn=NestedTurn(own, "", asked), delegation=delegation)

    async def _work(self, agent_run: AgentRun, agent: str, kind: Kind, task: AgentTask) -> AgentReport:
        """Run a subagent in its workspace, and report its leftovers in a workspace of its own, however it ends.

        When the daemon ends, the workspace stays as it is: the subagent resumes there, or is lost while its files
        remain.
        """
        if (place := task.place) is None:
            return await self._run(agent_run, agent, kind, task)
        async with place.open(agent) as workspace:
            agent_run = replace(agent_run, worktree=AgentWorktree(workspace, place.about(agent)))
            try:
                report = await self._run(agent_run, agent, kind, task)
            except ToolError as error:
                if kept := await place.leave(agent):
                    raise ToolError(f"{error} {kept.text()}") from error
                raise
            except asyncio.CancelledError:
                if agent_run.turn.stopping:
                    await place.leave(agent)
                raise
            return replace(report, kept=await place.leave(agent))

    async def _run(self, agent_run: AgentRun, agent: str, kind: Kind, task: AgentTask) -> AgentReport:
        turn, session = agent_run.turn, agent_run.session
        log.info("agent of kind %s started", kind.name, extra={"depth": agent_run.depth})
        self.ports.bus.publish(TurnStarted(turn.id, session.key, Address(LOCAL, session.key)))
        outcome, text = Outcome.STOPPED, STOPPED
        try:
            outcome, text = await self._answer(agent_run, task.check)
        finally:
            self.ports.bus.publish(TurnFinished(turn.id, session.key, outcome, text))
            log.info("agent %s", outcome)
        if outcome is not Outcome.ANSWERED:
            raise ToolError(f"the agent did not finish: {text} What it did until then is kept as {session.key}")
        spent = await self.ports.store.spending.of_turn(session.key, turn.id)
        source = source_of(window_content([session.window]))
        return AgentReport(agent, kind.name, text, spent.requests, spent.input + spent.output, source=source)

    async def _answer(self, agent_run: AgentRun, check: Callable[[str], str] | None) -> tuple[Outcome, str]:
        """Return the outcome and an agent's last words, or the sentence that stands in their place."""
        run = TurnRun(self.services(agent_run))
        try:
            answer = (await _run_and_check(run, agent_run.policy, check)).strip()
            # An MCP client gets all text, as a person does, unless it asks for data.
            if not answer or (agent_run.root.caller and agent_run.depth == 1 and check is None):
                answer = "\n\n".join(filter(None, (*run.spoken.said, answer)))
            return Outcome.ANSWERED, answer or empty_sentence(run.empty)
        except LimitReached as limit:
            log.info("the agent reached %s", limit.key)
            outcome, text, reason = Outcome.LIMITED, str(limit), "not finished: the agent reached a limit"
        except asyncio.CancelledError:
            if agent_run.turn.stopping:
                await run.finish("stopped by the user")
            raise
        except StateError:
            raise
        except GoclawError as error:
            outcome, text, reason = Outcome.FAILED, str(error), "the agent failed"
        return outcome, await run.finish(reason, text)

    @asynccontextmanager
    async def working(self, above: AgentRun, agent: str) -> AsyncIterator[Session]:
        """Yield the agent's own conversation, empty unless resumed; it is dropped from memory when the agent ends."""
        key = session_of_agent(above.session.key, agent)
        self._places[key] = above.home.key
        above.root.started.add(agent)
        try:
            async with self.contexts.working(key, above.turn.inbound.actor) as session:
                yield session
        finally:
            self._places.pop(key, None)
            self._running.pop(key, None)
            self.contexts.forget(key, gone=True)
            self.ports.models.forget(key)

    async def _refuse_too_many(self, above: AgentRun, agent: str) -> None:
        limits, root, home = self.ports.config.limits, above.root, above.home.key
        if above.depth >= limits.agent_depth:
            raise ToolError(f"agents may be nested {limits.agent_depth} deep at most: do the task yourself")
        before = await self.ports.store.spending.agents_of_turn(home, root.turn.id)
        started = root.started | {key.rpartition(":")[2] for key in before}
        if agent not in started and len(started) >= limits.agents_per_turn:
            raise ToolError(f"this turn has started {len(started)} agents, which is the limit: do the rest yourself")
        if sum(place == home for place in self._places.values()) >= limits.agents_at_once:
            raise ToolError(
                f"{limits.agents_at_once} agents are at work in this conversation, which is the limit: start it again "
                "when one has ended"
            )

    def of(self, home: str) -> Sequence[RunningAgent]:
        """Return the agents at work in a person's session."""
        return [each for each in self._running.values() if each.agent_run.home.key == home]

    async def lines(self, home: str) -> list[str]:
        """Return the tree of running agents, for people: task, depth, time and use of each."""
        now, found = self.ports.clock.monotonic(), self.of(home)
        lines = []
        for each in sorted(found, key=lambda each: each.agent_run.session.key):
            agent_run = each.agent_run
            spent = await self.ports.store.spending.of_turn(agent_run.session.key, agent_run.turn.id)
            indent = "  " * (agent_run.depth - 1)
            whose = ", for an MCP client" if agent_run.root.caller and agent_run.depth == 1 else ""
            name = f"{indent}{agent_run.delegation.name}"
            figures = (
                f"{spent.requests:,} {'request' if spent.requests == 1 else 'requests'}, "
                f"{spent.input + spent.output:,} tokens, {now - each.began:.0f} s"
            )
            lines.append(f"{name} ({each.id}{whose}): {figures}")
        return lines


async def _run_and_check(run: TurnRun, policy: RunPolicy, check: Callable[[str], str] | None) -> str:
    """Return an agent's last words; it is asked again where they are unfit. The caller checks the last ones itself."""
    text = await run_turn(run, policy)
    for number in range(MAX_MENDS):
        if check is None or not (fault := check(text)):
            break
        await run.add_instruction(f"mend:{number + 1}", f"That cannot be used: {fault}. Answer once more.")
        text = await continue_turn(run, policy, run.answers + 1)
    return text


def _below(
    above: AgentRun, kind: Kind, task: AgentTask, session: Session, agent: str, step: str, call_id: str, now: float
) -> AgentRun:
    inbound = above.turn.inbound
    asked = Inbound(
        id=turn_of_agent(above.turn.id, agent),
        actor=inbound.actor,  # with all persons on whose behalf the parent acts
        session=session.key,
        text=task.text,
        address=inbound.address,
        received_at=now,
    )
    return AgentRun(
        root=above.root,
        turn=NestedTurn(above.turn, f"{step}/", asked),
        session=session,
        policy=RunPolicy(kind.rules),
        kind=kind,
        parent=above,
        delegation=Delegation(task.own_tools, _name(kind, task), call_id, f"{above.delegation.prefix}{step}/"),
        worktree=above.worktree,
    )


def _name(kind: Kind, task: AgentTask) -> str:
    described = " ".join(mask(task.description).split())
    return f"{kind.name}: {described}"[:MAX_NAME] if described else kind.name


def _id_of(turn: str, step: str) -> str:
    """Return a call's unique id, the same after a crash."""
    return sha256(f"{turn}\n{step}".encode()).hexdigest()[:ID_LENGTH]
