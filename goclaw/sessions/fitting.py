"""Gives each turn what it stands on: the parts of the service, narrowed down to one turn of one session."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from goclaw.agent.policy import RunPolicy
from goclaw.compression.choice import is_wanted
from goclaw.context.calibration import Calibration
from goclaw.engine.base import Turn
from goclaw.errors import GoclawError, StateError
from goclaw.events import Actor, Todo, TodosChanged
from goclaw.llm.base import CachePoints, Finished
from goclaw.llm.estimate import estimate_reminder, estimate_text, estimate_tools
from goclaw.sessions.approvals import TurnQuestions
from goclaw.sessions.clarifying import Clarifier
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.costs import Costs
from goclaw.sessions.hooking import Hooking
from goclaw.sessions.modes import Modes
from goclaw.sessions.pausing import Pauses
from goclaw.sessions.options import SessionOptions
from goclaw.sessions.ports import SessionPorts
from goclaw.sessions.queueing import QueueModes
from goclaw.sessions.received import Received
from goclaw.sessions.remembering import TOOL, remembered
from goclaw.sessions.reminding import TurnReminders, of_result, of_task
from goclaw.sessions.state import Session
from goclaw.sessions.turn import Opening, TurnPorts
from goclaw.specs import ToolSpec
from goclaw.tasks.base import Owner
from goclaw.toolkit.scope import CallScope


@dataclass(frozen=True, slots=True)
class Fitting:
    """The parts of the service that turns use."""

    ports: SessionPorts
    calibration: Callable[[], Calibration]
    compactor: Compactor
    costs: Costs
    modes: Modes
    pauses: Pauses
    queue_modes: QueueModes
    received: Received

    def of(self, turn: Turn, session: Session, policy: RunPolicy) -> TurnPorts:
        """What the steps of a turn stand on."""
        ports, inbound = self.ports, turn.inbound

        async def make_room(too_long: bool) -> int:
            model = await ports.models.agent(session.key)
            session.window.scale = self.calibration().of(model.spec)
            await self.compactor.make_room(session, model.context_window, policy.rules.history, too_long=too_long)
            return session.window.tokens(session.overhead)

        reminders = session.reminders.turn()

        async def opening() -> Opening:
            for ended in await ports.environment.tasks.news(Owner(session.key, inbound.actor.key)):
                reminders.add(of_task(ended))
            return await self._opening(inbound.actor, session, policy.rules.cache)

        return TurnPorts(
            transcripts=ports.transcripts,
            dispatcher=ports.dispatcher,
            publish=ports.bus.publish,
            now=ports.clock.now,
            received=self.received.message,
            hooks=Hooking(ports.hooks, session.window),
            opening=opening,
            joining=lambda request: self.queue_modes.joining(session, turn, request),
            make_room=make_room,
            counted=lambda done: self._counted(session, done),
            kept=session.artifacts.extend,
            remind=lambda names: self._remind(session, reminders, inbound.actor, names),
            spent=lambda turn_id, done: self.costs.row(session.key, turn_id, "answer", done, inbound.actor.key),
            planning=policy.planning,
            compresses=lambda spec: is_wanted(spec, ports.config),
            held=self.pauses.gate(turn, policy.paused).passed,
            affordable=lambda: self.costs.check(session.key, turn.id, inbound.actor.key, policy.rules),
            scope=self._scope(turn, session, policy, reminders),
        )

    def _scope(self, turn: Turn, session: Session, policy: RunPolicy, reminders: TurnReminders) -> CallScope:
        """On whose behalf the turn's tools are called, and what they may ask of the session."""
        ports, inbound = self.ports, turn.inbound
        questions = TurnQuestions(ports.questions, ports.approvals, turn, policy.paused, policy.was_denied)

        async def keep_todos(todos: Sequence[Todo]) -> None:
            await ports.settings.set(session.key, "todos", [asdict(todo) for todo in todos] or None)
            session.todos = tuple(todos)
            ports.bus.publish(TodosChanged(turn.id, session.key, session.todos))

        return CallScope(
            actor=inbound.actor,
            session=inbound.session,
            address=inbound.address,
            deliver=ports.outbox.send,
            emit=ports.bus.publish,
            approve=questions.approve,
            ask=questions.ask,
            keep_todos=keep_todos,
            turn=turn.id,
            seconds=policy.rules.tool_seconds,
            complete=Clarifier(policy.rules.on_missing_fields, questions.ask, inbound.actor.key).completed,
            tools=ports.config.agents.main.tools,
            chosen_mode=lambda: session.mode,
            leave_plan=self.modes.leaving_plan(session.key, inbound.actor),
            command=lambda text: ports.desk.answer(inbound, text),
            settings=SessionOptions(session.key, inbound.actor, self.queue_modes, self.modes, ports.config_file),
            reminders=reminders,
        )

    async def _opening(self, actor: Actor, session: Session, cache: CachePoints) -> Opening:
        ports = self.ports
        model = await ports.models.agent(session.key)
        try:
            system = await ports.prompt.system(await ports.environment.workspace(actor))
        except StateError as error:
            # The workspace's trouble, not the journal's: the user must hear of it.
            raise GoclawError(str(error)) from error
        if told := ports.config.agents.main.prompt.strip():
            system = f"{system}\n\n{told}"
        tools = ports.dispatcher.registry.visible_to(actor, ports.config.agents.main.tools)
        session.overhead = estimate_text(system) + estimate_tools(tools)
        session.remembered = await self._remembered(actor, session, tools)
        return Opening(model, system, cache)

    def _remind(self, session: Session, reminders: TurnReminders, actor: Actor, names: Sequence[str]) -> str:
        """What the request ends with; `names`: of tools whose results come right before it."""
        tools = [tool for name in names if (tool := self.ports.dispatcher.registry.find(name, actor))]
        of_results = [of_result(tool.spec.name, tool.spec.reminder) for tool in tools]
        told = reminders.block([*self.modes.reminders(actor, session), *of_results])
        text = "\n".join(part for part in (session.remembered, told) if part)
        session.window.reminded = estimate_reminder(text)
        return text

    async def _remembered(self, actor: Actor, session: Session, tools: Sequence[ToolSpec]) -> str:
        """The mementos that the model is told of when the actor speaks."""
        ports = self.ports
        if not ports.config.memory.enabled or all(spec.name != TOOL for spec in tools):
            return ""
        workspace = await ports.environment.workspace(actor)
        is_own = not ports.approvals.access.is_group(session.key)
        return await remembered(workspace, actor.key, session.window.fences, own=is_own)

    def _counted(self, session: Session, done: Finished) -> None:
        self.calibration().take(done, session.window, session.overhead)
