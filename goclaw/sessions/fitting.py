"""Gives each agent at work what it stands on: the parts of the service, narrowed down to one turn of one session."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, field, replace
from functools import partial
from itertools import takewhile

from goclaw.access import Chosen
from goclaw.agent.kinds import ABOUT, AGENT_TOOL, Kind, Kinds
from goclaw.agent.overhead import measured, starts_agents, system_prompt
from goclaw.compression.choice import is_wanted
from goclaw.config.agents import MAIN, AgentSettings
from goclaw.context.budget import ContextBudget
from goclaw.context.calibration import Calibration
from goclaw.errors import GoclawError, StateError
from goclaw.events import Actor, AgentProgress, Inbound, Notice, Todo, TodosChanged, ToolStarted, TurnEvent
from goclaw.hooks.base import Hooks
from goclaw.llm.base import ChatModel, Finished, Looking
from goclaw.llm.estimate import estimate_reminder, estimate_text, estimate_tools
from goclaw.messages import Piece, ToolResult, UserMessage
from goclaw.records import record
from goclaw.sessions.answering import Answerers
from goclaw.sessions.approvals import GuestQuestions, TurnQuestions
from goclaw.sessions.clarifying import Clarifier
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.costs import Costs
from goclaw.sessions.demo_turns import DemoTurns
from goclaw.sessions.forwarding import Forwarding
from goclaw.sessions.hooking import Hooking
from goclaw.sessions.interim import InterimTexts
from goclaw.sessions.level import Level
from goclaw.sessions.modes import Modes
from goclaw.sessions.options import SessionOptions
from goclaw.sessions.overheard import Carrying
from goclaw.sessions.ports import SessionPorts
from goclaw.sessions.queueing import QueueModes, burst
from goclaw.sessions.received import Received
from goclaw.sessions.remembering import TOOL, remembered
from goclaw.sessions.reminding import TurnReminders, of_result, of_task
from goclaw.sessions.sampling import Answering
from goclaw.sessions.state import Contexts, Session
from goclaw.sessions.teams import Teams
from goclaw.sessions.turn import MAX_CONTINUATIONS, Opening, TurnPorts
from goclaw.specs import ToolSpec
from goclaw.tasks.base import Owner
from goclaw.toolkit.offering import Offering, Offerings, profile_of
from goclaw.toolkit.scope import CallScope
from goclaw.toolkit.spawning import AgentReport, AgentTask, Forward
from goclaw.toolkit.teaming import SEND_MESSAGE, TEAM_CREATE, TEAM_DELETE

Spawner = Callable[[Level, AgentTask, str, str], Awaitable[AgentReport]]
"""Starts an agent on behalf of another one, for the call with this step's name and this id."""


def _none(_: object) -> Sequence[Inbound]:
    """No message joins the work of an agent."""
    return ()


@record
class Fitting:
    """The parts of the service that turns use."""

    ports: SessionPorts
    calibration: Callable[[], Calibration]
    compactor: Compactor
    contexts: Contexts
    costs: Costs
    demo_turns: DemoTurns
    kinds: Kinds
    modes: Modes
    queue_modes: QueueModes
    received: Received
    interim: InterimTexts
    spawn: Spawner
    teams: Teams
    answerers: Answerers
    may: Callable[[Actor, str], bool]
    """Whether an actor may have the agent of that name work for them."""
    offerings: Offerings = field(default_factory=Offerings)

    def of(self, level: Level) -> TurnPorts:
        """What the steps of an agent's turn stand on."""
        ports, session, policy, inbound = self.ports, level.session, level.policy, level.turn.inbound
        reminders = session.reminders.turn()

        async def make_room(too_long: bool) -> int:
            model = await self._model(level)
            session.window.scale = self.calibration().of(model.spec)
            await self.compactor.make_room(session, model.context_window, policy.rules.history, too_long=too_long)
            return session.window.tokens(session.overhead)

        fitted = TurnPorts(
            transcripts=ports.transcripts,
            dispatcher=ports.dispatcher,
            publish=partial(self.publish, level),
            now=ports.clock.now,
            received=self.received.message,
            carrying=Carrying(session),
            hooks=Hooking(ports.hooks, session.window),
            interim=None if level.root.guest else self.interim,
            opening=lambda: self._opening(level, reminders),
            joining=lambda request: self._joining(level, request),
            burst=lambda joined: self._burst(level, joined),
            make_room=make_room,
            counted=lambda done: self._counted(session, done),
            kept=session.artifacts.extend,
            remind=lambda names: self._remind(level, reminders, names),
            spent=lambda turn_id, done: self.costs.row(session.key, turn_id, "answer", done, inbound.actor.key),
            planning=policy.planning,
            continuations=MAX_CONTINUATIONS if policy.rules.continue_cut else 0,
            compresses=lambda spec: is_wanted(spec, ports.config),
            held=partial(self._held, level),
            affordable=lambda: self._affordable(level),
            scope=self._scope(level, reminders),
        )
        if level.parent is None:
            return fitted
        # The operator's hooks on messages are about what people and their agent say to each other.
        unhooked = Hooking(Hooks(), session.window)
        return replace(fitted, received=_task, hooks=unhooked, interim=None, joining=_none, burst=_none)

    def publish(self, level: Level, event: TurnEvent) -> None:
        """Show what an agent does: in its own session, and in one line in those above it."""
        above = level.parent
        if above is None and level.root.guest:
            level.root.guest.emit(event)  # the session is a person's, in which this is no turn
            return
        self.ports.bus.publish(event)
        if above is None or not level.call_id:
            return
        match event:
            case ToolStarted():
                doing = event.hint or event.name
            case AgentProgress():
                doing = f"{event.agent} › {event.doing}"
            case _:
                return
        self.publish(above, AgentProgress(above.turn.id, above.session.key, level.call_id, level.name, doing))

    async def _held(self, level: Level) -> None:
        """Before a request and a call: return when the turn is not paused."""
        await level.held()
        if level.parent is not None:
            await self.contexts.session(level.home.key)  # so that `_home` is what people see by now

    def _home(self, level: Level) -> Session:
        """The person's session as it is now: an agent in the background may have outlived what was in memory then."""
        return self.contexts.known(level.home.key) or level.home

    def _mode(self, level: Level) -> Chosen | None:
        """The permission mode that was chosen for the conversation; a guest is in none."""
        return None if level.root.guest else self._home(level).mode

    def _questions(self, level: Level) -> TurnQuestions | GuestQuestions:
        """Whom an agent's tools may ask."""
        if guest := level.root.guest:
            return GuestQuestions(guest, level.paused, level.was_denied, level.name)
        return TurnQuestions(
            self.ports.questions,
            self.ports.approvals,
            level.root.turn,
            level.paused,
            level.was_denied,
            agent=level.name,
            prefix=level.prefix,
        )

    async def _affordable(self, level: Level) -> None:
        """Before a request: whether the agent, and every one above it, may spend more. Raises LimitReached."""
        each: Level | None = level
        while each is not None:
            person = level.turn.inbound.actor.key
            await self.costs.check(each.session.key, each.turn.id, person, each.policy.rules)
            each = each.parent

    async def _model(self, level: Level) -> ChatModel:
        own, home = level.settings.chain, level.home.key
        # `main` has its own first in the configured chain; what a person chose goes before what an agent has.
        if level.parent is None and (level.agent == MAIN or await self.ports.models.chosen(home)):
            own = ()
        model = await self.ports.models.answering(home, own)
        if isinstance(model, Looking):
            await model.look()  # its window decides which tools it is shown
        return model

    def _joining(self, level: Level, request: int) -> Sequence[Inbound]:
        """What joins the turn: nothing by which another agent is asked."""
        waiting = self.queue_modes.joining(level.session, level.turn, request)
        return list(takewhile(lambda inbound: not self.answerers.is_command(inbound), waiting))

    def _burst(self, level: Level, joined: Sequence[Inbound]) -> Sequence[Inbound]:
        """What goes on with the person's message, where people write so."""
        channel = self.ports.channels.get(level.turn.inbound.address.channel)
        if channel is None or not channel.capabilities.bursts:
            return ()
        return [each for each in burst(level.turn, joined) if not self.answerers.is_command(each)]

    def _scope(self, level: Level, reminders: TurnReminders) -> CallScope:
        """On whose behalf an agent's tools are called, and what they may ask of the session."""
        ports, session, policy, inbound = self.ports, level.session, level.policy, level.turn.inbound
        questions = self._questions(level)

        async def keep_todos(todos: Sequence[Todo]) -> None:
            await ports.settings.set(session.key, "todos", [asdict(todo) for todo in todos] or None)
            session.todos = tuple(todos)
            ports.bus.publish(TodosChanged(level.turn.id, session.key, session.todos))

        scope = CallScope(
            actor=inbound.actor,
            # What an agent starts (a command in the background) is known where the person is.
            session=level.home.key,
            address=inbound.address,
            deliver=ports.outbox.send,
            emit=lambda event: self.publish(level, replace(event, session=session.key)),
            approve=questions.approve,
            ask=questions.ask,
            keep_todos=keep_todos,
            turn=level.turn.id,
            seconds=policy.rules.tool_seconds,
            complete=Clarifier(policy.rules.on_missing_fields, questions.ask, inbound.actor.key).completed,
            tools=level.settings.tools,
            narrowed=self._narrowed(level),
            chosen_mode=partial(self._mode, level),
            reminders=reminders,
            spawn=partial(self.spawn, level),
            sample=self._answering(level).answer,
            workspace=level.workspace,
            teams=self.teams.of(level),
        )
        scope = replace(scope, forward=partial(self.forward, level, scope))
        if level.parent is not None:
            return scope
        # What changes the conversation itself is for the agent alone that leads it.
        return replace(
            scope,
            leave_plan=self.modes.leaving_plan(session.key, inbound.actor),
            command=lambda text: ports.desk.answer(inbound, text),
            settings=SessionOptions(session.key, inbound.actor, self.queue_modes, self.modes, ports.config_file),
        )

    def _answering(self, level: Level) -> Answering:
        """Has models answer for what the agent's tools want to know."""
        return Answering(
            level,
            self.ports.models,
            self.costs,
            usual=partial(self._model, level),
            held=partial(self._held, level),
            affordable=partial(self._affordable, level),
        )

    async def forward(self, level: Level, scope: CallScope, wanted: Forward, step: str, call_id: str) -> ToolResult:
        """Hand the call with this step's name and this id on to another tool; `scope` is where it is made."""
        offering = self.kinds.of(wanted.agent)
        selection = offering.settings.tools if offering else ()
        return await Forwarding(self.ports.dispatcher, level.turn, scope, selection).hand_on(wanted, step, call_id)

    def _narrowed(self, level: Level) -> tuple[Sequence[str], ...]:
        """What those above an agent leave it of its tools; none by which one at work would be asked again."""
        without = self._recursive(level.lineage, level.depth)
        if level.parent is not None:
            without += [TEAM_CREATE, TEAM_DELETE] if level.seat else [TEAM_CREATE, TEAM_DELETE, SEND_MESSAGE]
        return (*level.narrowed, [f"-{name}" for name in without]) if without else level.narrowed

    def _recursive(self, lineage: set[str], depth: int) -> list[str]:
        """Tools by which one of the agents at work would be asked again, or one more started than may be."""
        is_deepest = depth >= self.ports.config.limits.agent_depth
        agents = set(self.ports.config.agents.everyone) if is_deepest else lineage
        return [*([AGENT_TOOL] if is_deepest else []), *self.kinds.recursive(agents)]

    async def _opening(self, level: Level, reminders: TurnReminders) -> Opening:
        ports, session, actor = self.ports, level.session, level.turn.inbound.actor
        if level.parent is None:
            for ended in await ports.environment.tasks.news(Owner(session.key, actor.key)):
                reminders.add(of_task(ended))
            for word in self.teams.news(Owner(session.key, actor.key)):
                reminders.add(word)
        model = await self._model(level)
        await self.demo_turns.before_request(session, level.turn.id, model.spec, partial(self._tell, session))
        planning = level.parent is None and await self.modes.settle_plan(session, actor, self._mode(level))
        within = (level.settings.tools, *self._narrowed(level))
        offering = self._offering(actor, level.settings, within, model, planning=planning)
        about = f"{ABOUT}\n\n{level.seat.briefing}" if level.seat else ABOUT if level.parent else ""
        try:
            system = await self._system(actor, level.settings, offering, about, level.about)
        except StateError as error:
            # The workspace's trouble, not the journal's: the user must hear of it.
            raise GoclawError(str(error)) from error
        session.overhead = estimate_text(system) + estimate_tools(offering.tools)
        session.remembered = await self._remembered(actor, session, offering.usable)
        return Opening(model, system, offering.tools, offering.deferred, level.policy.rules.cache)

    def _offering(
        self,
        actor: Actor,
        settings: AgentSettings,
        within: Sequence[Sequence[str] | None],
        model: ChatModel,
        *,
        planning: bool,
    ) -> Offering:
        """What a model is shown of the tools that an agent with these settings may use for the actor."""
        offered_to = self.ports.dispatcher.registry.offered_to
        usable = offered_to(actor, *within, planning=planning)
        lasting = offered_to(actor, *within, planning=False) if planning else usable
        profile = profile_of(self.ports.config, settings, model.spec, model.context_window)
        return self.offerings.of(usable, lasting, profile, settings.tools)

    async def _tell(self, session: Session, text: str) -> None:
        """A line about the context to the people of a conversation, once in a turn."""
        self.ports.bus.publish(Notice(session.key, text))
        if session.tell:
            await session.tell("context", text)

    async def _system(self, actor: Actor, settings: AgentSettings, offering: Offering, *about: str) -> str:
        """The system prompt of an agent with these tools. Raises StateError where the workspace cannot be opened."""
        prompt = await self.ports.prompt.system(await self.ports.environment.workspace(actor))
        kinds = self.kinds.listed(partial(self.may, actor)) if starts_agents(offering.usable) else ""
        return system_prompt(prompt, settings, offering, *about, kinds)

    async def measure(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> None:
        """Estimate what prompt and tools take of a session's next request, where none was made since it was loaded.

        Args:
            session: the conversation.
            actor: for whom the request would be made.
            kind: the agent that would answer.
            model: the model that would answer.

        Raises:
            StateError: the actor's workspace cannot be opened.
        """
        if session.overhead:
            return
        system, offering = await self._next(session, actor, kind, model)
        session.overhead = estimate_text(system) + estimate_tools(offering.tools)
        session.window.scale = self.calibration().of(model.spec)

    async def budget(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> ContextBudget:
        """Estimate part by part what a session's next request holds of the model's window.

        Args:
            session: the conversation.
            actor: for whom the request would be made.
            kind: the agent that would answer.
            model: the model that would answer.

        Raises:
            StateError: the actor's workspace cannot be opened.
        """
        system, offering = await self._next(session, actor, kind, model)
        window, scale = session.window, self.calibration().of(model.spec)
        window.scale = scale
        found = measured(model.spec, model.context_window, system, offering, self.ports.config.compaction, scale)
        said = window.tokens(estimate_text(system) + estimate_tools(offering.tools)) - int(scale * window.reminded)
        return replace(
            found,
            notes=int(scale * estimate_reminder(await self._remembered(actor, session, offering.usable))),
            conversation=max(0, said - found.overhead),
            messages=len(window.entries),
        )

    async def _next(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> tuple[str, Offering]:
        """System prompt and tools of a request to this model that is not made yet."""
        registry = self.ports.dispatcher.registry
        await registry.ready()
        planning = self.modes.offers_plan(session, actor, session.mode)
        within = (kind.settings.tools, _all_but(self._recursive({kind.name}, 0)))
        offering = self._offering(actor, kind.settings, within, model, planning=planning)
        return await self._system(actor, kind.settings, offering), offering

    def _remind(self, level: Level, reminders: TurnReminders, names: Sequence[str]) -> str:
        """What the request ends with; `names`: of tools whose results come right before it."""
        actor, session = level.turn.inbound.actor, level.session
        tools = [tool for name in names if (tool := self.ports.dispatcher.registry.find(name, actor))]
        of_results = [of_result(tool.spec.name, tool.spec.reminder) for tool in tools]
        told = reminders.block([*self.modes.reminders(actor, self._mode(level)), *of_results])
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


def _all_but(names: Sequence[str]) -> tuple[str, ...] | None:
    """The selection that leaves these tools out; None: none is left out."""
    return tuple(f"-{name}" for name in names) or None


async def _task(inbound: Inbound, beside: Sequence[Piece]) -> UserMessage:
    """The task of an agent, or what one of its team wrote to it."""
    return UserMessage(inbound.text, foreign=inbound.foreign)
