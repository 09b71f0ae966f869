"""The context of each agent run: the parts of the service, narrowed down to one turn of one session."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, field, replace
from functools import partial
from itertools import takewhile

from goclaw.access import ChosenMode
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
from goclaw.sessions.agent_run import AgentRun
from goclaw.sessions.agent_selection import AgentSelector
from goclaw.sessions.approvals import CallerQuestions, TurnQuestions
from goclaw.sessions.attachments import Attachments
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.costs import Costs
from goclaw.sessions.demo_turns import DemoTurns
from goclaw.sessions.forwarding import Forwarding
from goclaw.sessions.hooking import Hooking
from goclaw.sessions.interim import InterimTexts
from goclaw.sessions.missing_arguments import Clarifier
from goclaw.sessions.modes import Modes
from goclaw.sessions.options import SessionOptions
from goclaw.sessions.overheard import Carrying
from goclaw.sessions.ports import SessionPorts
from goclaw.sessions.queueing import QueueModes, burst
from goclaw.sessions.remembering import TOOL, remembered
from goclaw.sessions.reminding import TurnReminders, of_result, of_task
from goclaw.sessions.sampling import ToolSampling
from goclaw.sessions.state import Contexts, Session
from goclaw.sessions.teams import Teams
from goclaw.sessions.turn import MAX_CONTINUATIONS, Opening, TurnPorts
from goclaw.specs import ToolSpec
from goclaw.tasks.base import Owner
from goclaw.toolkit.offering import Offering, Offerings, profile_of
from goclaw.toolkit.scope import CallScope
from goclaw.toolkit.spawning import AgentReport, AgentTask, Forward
from goclaw.toolkit.teaming import SEND_MESSAGE, TEAM_CREATE, TEAM_DELETE

Spawner = Callable[[AgentRun, AgentTask, str, str], Awaitable[AgentReport]]
"""Starts a subagent for another agent, for the call with this step's name and this id."""


def _none(_: object) -> Sequence[Inbound]:
    """No message joins the work of an agent."""
    return ()


@record
class TurnContext:
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
    received: Attachments
    interim: InterimTexts
    spawn: Spawner
    teams: Teams
    agents_for: AgentSelector
    may: Callable[[Actor, str], bool]
    """Whether an actor may have the agent of that name work for them."""
    offerings: Offerings = field(default_factory=Offerings)

    def of(self, agent_run: AgentRun) -> TurnPorts:
        """Return the ports for the steps of an agent's turn."""
        ports, session, policy, inbound = self.ports, agent_run.session, agent_run.policy, agent_run.turn.inbound
        reminders = session.reminders.turn()

        async def make_room(too_long: bool) -> int:
            model = await self._model(agent_run)
            session.window.scale = self.calibration().of(model.spec)
            await self.compactor.make_room(session, model.context_window, policy.rules.history, too_long=too_long)
            return session.window.tokens(session.overhead)

        fitted = TurnPorts(
            transcripts=ports.transcripts,
            dispatcher=ports.dispatcher,
            publish=partial(self.publish, agent_run),
            now=ports.clock.now,
            received=self.received.message,
            carrying=Carrying(session),
            hooks=Hooking(ports.hooks, session.window),
            interim=None if agent_run.root.caller else self.interim,
            opening=lambda: self._opening(agent_run, reminders),
            joining=lambda request: self._joining(agent_run, request),
            burst=lambda joined: self._burst(agent_run, joined),
            make_room=make_room,
            counted=lambda done: self._counted(session, done),
            kept=session.artifacts.extend,
            remind=lambda names: self._remind(agent_run, reminders, names),
            spent=lambda turn_id, done: self.costs.row(session.key, turn_id, "answer", done, inbound.actor.key),
            planning=policy.planning,
            continuations=MAX_CONTINUATIONS if policy.rules.continue_cut else 0,
            compresses=lambda spec: is_wanted(spec, ports.config),
            held=partial(self._held, agent_run),
            affordable=lambda: self._affordable(agent_run),
            scope=self._scope(agent_run, reminders),
        )
        if agent_run.parent is None:
            return fitted
        # The operator's hooks on messages are about what people and their agent say to each other.
        unhooked = Hooking(Hooks(), session.window)
        return replace(fitted, received=_task, hooks=unhooked, interim=None, joining=_none, burst=_none)

    def publish(self, agent_run: AgentRun, event: TurnEvent) -> None:
        """Show what an agent does: in its own session, and in one line in those above it."""
        above = agent_run.parent
        if above is None and agent_run.root.caller:
            agent_run.root.caller.emit(event)  # the session is a person's, in which this is no turn
            return
        self.ports.bus.publish(event)
        if above is None or not agent_run.call_id:
            return
        match event:
            case ToolStarted():
                doing = event.hint or event.name
            case AgentProgress():
                doing = f"{event.agent} › {event.doing}"
            case _:
                return
        self.publish(above, AgentProgress(above.turn.id, above.session.key, agent_run.call_id, agent_run.name, doing))

    async def _held(self, agent_run: AgentRun) -> None:
        """Before a request and a call: return when the turn is not paused."""
        await agent_run.held()
        if agent_run.parent is not None:
            await self.contexts.session(agent_run.home.key)  # so that `_home` is what people see by now

    def _home(self, agent_run: AgentRun) -> Session:
        """Return the person's current session: a background agent may have outlived the one loaded at its start."""
        return self.contexts.known(agent_run.home.key) or agent_run.home

    def _mode(self, agent_run: AgentRun) -> ChosenMode | None:
        """Return the permission mode that was chosen for the conversation; None for an external caller."""
        return None if agent_run.root.caller else self._home(agent_run).mode

    def _questions(self, agent_run: AgentRun) -> TurnQuestions | CallerQuestions:
        """Return whom an agent's tools may ask."""
        if caller := agent_run.root.caller:
            return CallerQuestions(caller, agent_run.paused, agent_run.was_denied, agent_run.name)
        return TurnQuestions(
            self.ports.questions,
            self.ports.approvals,
            agent_run.root.turn,
            agent_run.paused,
            agent_run.was_denied,
            agent=agent_run.name,
            prefix=agent_run.prefix,
        )

    async def _affordable(self, agent_run: AgentRun) -> None:
        """Before a request: whether the agent, and every one above it, may spend more. Raises LimitReached."""
        each: AgentRun | None = agent_run
        while each is not None:
            person = agent_run.turn.inbound.actor.key
            await self.costs.check(each.session.key, each.turn.id, person, each.policy.rules)
            each = each.parent

    async def _model(self, agent_run: AgentRun) -> ChatModel:
        own, home = agent_run.settings.chain, agent_run.home.key
        # `main` has its own first in the configured chain; what a person chose goes before what an agent has.
        if agent_run.parent is None and (agent_run.agent == MAIN or await self.ports.models.chosen(home)):
            own = ()
        model = await self.ports.models.answering(home, own)
        if isinstance(model, Looking):
            await model.look()  # its window decides which tools it is shown
        return model

    def _joining(self, agent_run: AgentRun, request: int) -> Sequence[Inbound]:
        """Return the messages that join the turn; none whose command selects another agent."""
        waiting = self.queue_modes.joining(agent_run.session, agent_run.turn, request)
        return list(takewhile(lambda inbound: not self.agents_for.is_command(inbound), waiting))

    def _burst(self, agent_run: AgentRun, joined: Sequence[Inbound]) -> Sequence[Inbound]:
        """Return the messages that continue the person's message, on channels where people write so."""
        channel = self.ports.channels.get(agent_run.turn.inbound.address.channel)
        if channel is None or not channel.capabilities.bursts:
            return ()
        return [each for each in burst(agent_run.turn, joined) if not self.agents_for.is_command(each)]

    def _scope(self, agent_run: AgentRun, reminders: TurnReminders) -> CallScope:
        """Return the scope of an agent's tool calls: the actor, the place, and the services of the session."""
        ports, session, policy, inbound = self.ports, agent_run.session, agent_run.policy, agent_run.turn.inbound
        questions = self._questions(agent_run)

        async def keep_todos(todos: Sequence[Todo]) -> None:
            await ports.settings.set(session.key, "todos", [asdict(todo) for todo in todos] or None)
            session.todos = tuple(todos)
            ports.bus.publish(TodosChanged(agent_run.turn.id, session.key, session.todos))

        scope = CallScope(
            actor=inbound.actor,
            # What an agent starts (a command in the background) is known where the person is.
            session=agent_run.home.key,
            address=inbound.address,
            deliver=ports.outbox.send,
            emit=lambda event: self.publish(agent_run, replace(event, session=session.key)),
            approve=questions.approve,
            ask=questions.ask,
            keep_todos=keep_todos,
            turn=agent_run.turn.id,
            seconds=policy.rules.tool_seconds,
            complete=Clarifier(policy.rules.on_missing_fields, questions.ask, inbound.actor.key).completed,
            tools=agent_run.settings.tools,
            narrowed=self._narrowed(agent_run),
            chosen_mode=partial(self._mode, agent_run),
            reminders=reminders,
            spawn=partial(self.spawn, agent_run),
            sample=self._answering(agent_run).answer,
            workspace=agent_run.workspace,
            teams=self.teams.of(agent_run),
        )
        scope = replace(scope, forward=partial(self.forward, agent_run, scope))
        if agent_run.parent is not None:
            return scope
        # What changes the conversation itself is for the agent alone that leads it.
        return replace(
            scope,
            leave_plan=self.modes.leaving_plan(session.key, inbound.actor),
            command=lambda text: ports.command_port.answer(inbound, text),
            settings=SessionOptions(session.key, inbound.actor, self.queue_modes, self.modes, ports.config_file),
        )

    def _answering(self, agent_run: AgentRun) -> ToolSampling:
        """Return the sampling service for the agent's tools."""
        return ToolSampling(
            agent_run,
            self.ports.models,
            self.costs,
            usual=partial(self._model, agent_run),
            held=partial(self._held, agent_run),
            affordable=partial(self._affordable, agent_run),
        )

    async def forward(
        self, agent_run: AgentRun, scope: CallScope, wanted: Forward, step: str, call_id: str
    ) -> ToolResult:
        """Hand the call with this step's name and this id on to another tool; `scope` is where it is made."""
        offering = self.kinds.of(wanted.agent)
        selection = offering.settings.tools if offering else ()
        return await Forwarding(self.ports.dispatcher, agent_run.turn, scope, selection).hand_on(wanted, step, call_id)

    def _narrowed(self, agent_run: AgentRun) -> tuple[Sequence[str], ...]:
        """Return the tool selections that limit an agent, without tools that would call a running agent again."""
        without = self._recursive(agent_run.lineage, agent_run.depth)
        if agent_run.parent is not None:
            without += [TEAM_CREATE, TEAM_DELETE] if agent_run.membership else [TEAM_CREATE, TEAM_DELETE, SEND_MESSAGE]
        return (*agent_run.narrowed, [f"-{name}" for name in without]) if without else agent_run.narrowed

    def _recursive(self, lineage: set[str], depth: int) -> list[str]:
        """Tools by which one of the agents at work would be asked again, or one more started than may be."""
        is_deepest = depth >= self.ports.config.limits.agent_depth
        agents = set(self.ports.config.agents.everyone) if is_deepest else lineage
        return [*([AGENT_TOOL] if is_deepest else []), *self.kinds.recursive(agents)]

    async def _opening(self, agent_run: AgentRun, reminders: TurnReminders) -> Opening:
        ports, session, actor = self.ports, agent_run.session, agent_run.turn.inbound.actor
        if agent_run.parent is None:
            for ended in await ports.environment.tasks.news(Owner(session.key, actor.key)):
                reminders.add(of_task(ended))
            for word in self.teams.news(Owner(session.key, actor.key)):
                reminders.add(word)
        model = await self._model(agent_run)
        await self.demo_turns.before_request(session, agent_run.turn.id, model.spec, partial(self._tell, session))
        planning = agent_run.parent is None and await self.modes.settle_plan(session, actor, self._mode(agent_run))
        within = (agent_run.settings.tools, *self._narrowed(agent_run))
        offering = self._offering(actor, agent_run.settings, within, model, planning=planning)
        about = (
            f"{ABOUT}\n\n{agent_run.membership.briefing}" if agent_run.membership else ABOUT if agent_run.parent else ""
        )
        try:
            system = await self._system(actor, agent_run.settings, offering, about, agent_run.about)
        except StateError as error:
            # The workspace's trouble, not the journal's: the user must see it.
            raise GoclawError(str(error)) from error
        session.overhead = estimate_text(system) + estimate_tools(offering.tools)
        session.remembered = await self._remembered(actor, session, offering.usable)
        return Opening(model, system, offering.tools, offering.deferred, agent_run.policy.rules.cache)

    def _offering(
        self,
        actor: Actor,
        settings: AgentSettings,
        within: Sequence[Sequence[str] | None],
        model: ChatModel,
        *,
        planning: bool,
    ) -> Offering:
        """Return the tools to show to a model, of those that an agent with these settings may use for the actor."""
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
        """Return an agent's system prompt with these tools.

        Raises:
            StateError: the workspace cannot be opened.
        """
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

    def _remind(self, agent_run: AgentRun, reminders: TurnReminders, names: Sequence[str]) -> str:
        """Return the end of the request; `names`: of tools whose results come right before it."""
        actor, session = agent_run.turn.inbound.actor, agent_run.session
        tools = [tool for name in names if (tool := self.ports.dispatcher.registry.find(name, actor))]
        of_results = [of_result(tool.spec.name, tool.spec.reminder) for tool in tools]
        told = reminders.block([*self.modes.reminders(actor, self._mode(agent_run)), *of_results])
        text = "\n".join(part for part in (session.remembered, told) if part)
        session.window.reminded = estimate_reminder(text)
        return text

    async def _remembered(self, actor: Actor, session: Session, tools: Sequence[ToolSpec]) -> str:
        """Return the mementos to show to the model when the actor speaks."""
        ports = self.ports
        if not ports.config.memory.enabled or all(spec.name != TOOL for spec in tools):
            return ""
        workspace = await ports.environment.workspace(actor)
        is_own = not ports.approvals.access.is_group(session.key)
        return await remembered(workspace, actor.key, session.window.markers, own=is_own)

    def _counted(self, session: Session, done: Finished) -> None:
        self.calibration().take(done, session.window, session.overhead)


def _all_but(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the selection that leaves these tools out; None: none is left out."""
    return tuple(f"-{name}" for name in names) or None


async def _task(inbound: Inbound, beside: Sequence[Piece]) -> UserMessage:
    """Return the task of an agent, or what one of its team wrote to it."""
    return UserMessage(inbound.text, foreign=inbound.foreign)
