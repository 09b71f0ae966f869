"""The services of a session for one agent at work: for the tools it calls, and for the steps of its turn."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import takewhile

from goclaw.common.auth.access import ChosenMode
from goclaw.common.config.agents import MAIN
from goclaw.common.config.values import Mode
from goclaw.common.core.events import (
    LOCAL,
    Address,
    AgentProgress,
    Delivery,
    Inbound,
    Notice,
    Question,
    Receipt,
    Todo,
    TodosChanged,
    ToolStarted,
    TurnEvent,
)
from goclaw.common.core.messages import Artifact, Piece, ToolCall, ToolResult, UserMessage
from goclaw.common.core.records import record
from goclaw.common.specs import ToolSpec
from goclaw.conversation.agent.context.labels import source_of, window_content
from goclaw.conversation.agent.kinds import ABOUT
from goclaw.conversation.agent.limits import Planning
from goclaw.conversation.questions.turn_questions import CallerQuestions, Clarifier, TurnQuestions, UnattendedQuestions
from goclaw.conversation.schedules.orders import carry_out_for_agent
from goclaw.conversation.sessions.modes import SessionOptions, burst
from goclaw.conversation.sessions.overheard import Carrying
from goclaw.conversation.sessions.reminding import TurnReminders, of_result, of_task
from goclaw.conversation.sessions.state import Session
from goclaw.conversation.turns.agent_run import AgentRun
from goclaw.conversation.turns.answer_text import AnswerText, with_text
from goclaw.conversation.turns.answers import is_among_others, is_apart, is_for_another
from goclaw.conversation.turns.costs import Account, Payer, ReservedPlanning, reservation_of
from goclaw.conversation.turns.named_files import NamedFiles
from goclaw.conversation.turns.shown_links import ShownLinks
from goclaw.conversation.turns.tool_requests import CommandPort, ToolSampling
from goclaw.conversation.turns.turn_context import TurnContext
from goclaw.conversation.turns.user_message import Hooking
from goclaw.conversation.turns.written_calls import Circumstances, WrittenCalls
from goclaw.durable.store.database import BoundStatement
from goclaw.errors import ConfigError, GoclawError, StateError, ToolError
from goclaw.llm.base import CachePoints, ChatModel, Finished, Request
from goclaw.llm.chain import ModelChain
from goclaw.llm.token_counts import estimate_prompt, estimate_reminder, estimate_tools
from goclaw.tools.approval.guard import WindowContent, is_literal
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.execution.compression.shortening import wants_compression
from goclaw.tools.execution.tasks.base import Owner
from goclaw.tools.hooks.base import Hooks
from goclaw.tools.toolkit.agent_tasks import SEND_MESSAGE, TEAM_CREATE, TEAM_DELETE, AgentReport, AgentTask, Forward
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import Sample, Sampled, TurnServices

MAX_CONTINUATIONS = 3
"""Maximum requests for the rest of one answer (`limits.continue_cut`)."""


@record
class Opening:
    """The parts of a request besides the conversation."""

    model: ChatModel
    system: str
    tools: Sequence[ToolSpec]
    """The tools in the request; selected for every request, so that a revoked right takes effect."""
    deferred: Sequence[ToolSpec]
    """The other tools it may use."""
    cache: CachePoints


class AgentServices(TurnServices):
    """The services for one agent; a subagent is without what changes the conversation itself."""

    def __init__(self, context: TurnContext, agent_run: AgentRun, commands: CommandPort | None = None) -> None:
        """`commands`: runs commands for the agent that answers a person; None: for no one here."""
        ports, session, actor = context.ports, agent_run.session, agent_run.turn.inbound.actor
        self.agent_run = agent_run
        self.transcripts = ports.store.transcripts
        self.dispatcher = ports.dispatcher
        self.carrying = Carrying(session)
        """The overheard messages that go with this message."""
        self.is_main = agent_run.parent is None
        # The operator's hooks on messages are about what people and their agent say to each other.
        self.hooks = Hooking(ports.dispatcher.hooks if self.is_main else Hooks(), session.window)
        awaited = agent_run.root.caller is None and agent_run.turn.inbound.unattended is None
        self.interim = context.chat.interim if self.is_main and awaited else None
        """Delivers the text before tool calls; None: no person waits for this turn."""
        self.continuations = MAX_CONTINUATIONS if agent_run.policy.rules.continue_cut else 0
        """Number of requests for the rest of an answer that the output limit cut."""
        self._context = context
        self._commands = commands
        self._is_capped = False
        """Whether what the next request may cost is limited."""
        self.reminders: TurnReminders = TurnReminders(session.reminders)
        self.teams = context.helpers.teams.of(agent_run)
        if self.is_main:
            modes, queue_modes = context.choices.modes, context.choices.queue_modes
            self.settings = SessionOptions(session.key, actor, queue_modes, modes, ports.config_file)
        self._questions = self._asking()
        self._clarifier = Clarifier(agent_run.policy.rules.on_missing_fields, self._questions.ask, actor.key)

    # For the steps of the turn (`turns.turn`).

    @property
    def scope(self) -> CallScope:
        """The scope of the agent's tool calls.

        Made again at each access: services that held it would be a cycle, which leaves all that a turn had to the
        garbage collector.
        """
        agent_run, inbound = self.agent_run, self.agent_run.turn.inbound
        return CallScope(
            actor=inbound.actor,
            # What an agent starts (a command in the background) is known where the person is.
            session=agent_run.home.key,
            # The chat of another person is none in which its tools may speak.
            address=Address(LOCAL, inbound.session) if is_for_another(inbound) else inbound.address,
            services=self,
            turn=agent_run.turn.id,
            seconds=agent_run.policy.rules.time.tools,
            limit=agent_run.policy.limit,
            selections=(agent_run.kind.settings.tools, *self._build_selections()),
            workspace=agent_run.worktree.workspace if agent_run.worktree else None,
            agent=agent_run.kind.name,
        )

    @property
    def registry(self) -> Registry:
        """The tools that there are for the agent."""
        return self.dispatcher.registry.of(self.agent_run.kind.name)

    def now(self) -> float:
        """Return the time."""
        return self._context.ports.clock.now()

    def publish(self, event: TurnEvent) -> None:
        """Show the agent's actions: in its own session, and in one line in those above it."""
        self._publish(self.agent_run, event)

    async def open_message(self, inbound: Inbound, beside: Sequence[Piece]) -> UserMessage:
        """Return a person's message with all its attachments, after overheard words.

        Of a subagent: its task, or a message from one of its team.
        """
        if not self.is_main:
            return UserMessage(inbound.text, foreign=inbound.foreign)
        attachments, model = self._context.chat.attachments, None
        if inbound.attachments:
            with suppress(ConfigError):  # said where the model is asked
                model = await self.model()
        return await attachments.message(inbound, beside, model)

    def joining(self, request: int) -> Sequence[Inbound]:
        """Return the queued messages to merge into the turn's request of this number, oldest first.

        None with a command that selects another agent; no message joins the work of a subagent.
        """
        if not self.is_main:
            return ()
        waiting = self._context.choices.queue_modes.joining(self.agent_run.session, self.agent_run.turn, request)
        return list(takewhile(lambda inbound: not self._context.choices.agents.is_command(inbound), waiting))

    def burst(self, joined: Sequence[Inbound]) -> Sequence[Inbound]:
        """Return the messages right after the turn's messages, on channels where people write so.

        Args:
            joined: the turn's messages without its own first one.
        """
        turn, channels = self.agent_run.turn, self._context.ports.outbox.channels
        channel = channels.get(turn.inbound.address.channel) if self.is_main else None
        if channel is None or not channel.capabilities.bursts:
            return ()
        return [each for each in burst(turn, joined) if not self._context.choices.agents.is_command(each)]

    def preparing(self) -> AbstractAsyncContextManager[None]:
        """Return the place of a turn among those that prepare a request."""
        return self._context.requests.preparing.place()

    async def opening(self) -> Opening:
        """Return the parts of the next request besides the conversation."""
        context, agent_run = self._context, self.agent_run
        session, actor = agent_run.session, agent_run.turn.inbound.actor
        if self.is_main:
            await self._add_news(Owner(session.key, actor.key))
        model = await self.model()
        await context.requests.demo_turns.before_request(session, agent_run.turn.id, model.spec, self._notify)
        planning = self.is_main and await context.choices.modes.resolve_plan(session, actor, self.chosen_mode())
        settings, place = agent_run.kind.settings, agent_run.worktree.about if agent_run.worktree else ""
        within = (settings.tools, *self._build_selections())
        offering = context.offering(actor, agent_run.kind, within, model, planning=planning)
        about = "" if self.is_main else ABOUT
        if agent_run.membership:
            about = f"{ABOUT}\n\n{agent_run.membership.briefing}"
        try:
            system = await context.system(actor, session.key, settings, offering, about, place)
        except StateError as error:
            # The workspace's trouble, not the journal's: the user must see it.
            raise GoclawError(str(error)) from error
        session.overhead = estimate_prompt(system) + estimate_tools(offering.tools)
        session.turn.mementos = await context.format_mementos(actor, session, offering.usable)
        return Opening(model, system, offering.tools, offering.deferred, agent_run.policy.rules.cache)

    async def make_room(self, *, too_long: bool = False) -> int:
        """Apply a pending /compact, and compact when it is due; returns the tokens that the next request will have.

        Args:
            too_long: the provider said that the prompt is too long.
        """
        context, session = self._context, self.agent_run.session
        model = await self.model()
        session.window.scale = context.requests.calibration.of(model.spec)
        session.window.show_documents(model)
        history = self.agent_run.policy.rules.history
        await context.compactor.make_room(session, model.context_window, history, too_long=too_long)
        return session.window.tokens(session.overhead)

    def remind(self, names: Sequence[str]) -> str:
        """Return the reminders at the end of the next request, in their marks.

        Args:
            names: of the tools with results right before it and a reminder.
        """
        actor, session = self.agent_run.turn.inbound.actor, self.agent_run.session
        tools = [tool for name in names if (tool := self.registry.find(name, actor))]
        of_results = [of_result(tool.spec.name, tool.spec.reminder) for tool in tools]
        of_mode = self._context.choices.modes.reminders(actor, self.chosen_mode())
        told = self.reminders.block([*of_mode, *of_results])
        text = "\n".join(part for part in (session.turn.mementos, told) if part)
        session.window.reminded = estimate_reminder(text)
        return text

    def record_usage(self, step: str, done: Finished) -> None:
        """Record the provider's count of a recorded answer, after its cost was booked."""
        session = self.agent_run.session
        if (reservations := self._context.costs.reservations).own:
            reservations.on_end(reservation_of(self.agent_run.turn.id, step))
        self._context.requests.calibration.calibrate(done, session.window, session.overhead)

    def cost(self, step: str, done: Finished) -> list[BoundStatement]:
        """Return the row about the cost of a step's answer, and the end of its reservation."""
        session, turn, costs = self.agent_run.session, self.agent_run.turn, self._context.costs
        row = costs.row(session.key, turn.id, "answer", done, turn.inbound.actor.key)
        if not costs.reservations.own:
            return [row]
        return [row, *costs.reservations.end_statements(reservation_of(turn.id, step))]

    def release_reservation(self, step: str) -> None:
        """End the reservation for a step without bookings."""
        if (reservations := self._context.costs.reservations).own:
            reservations.release(reservation_of(self.agent_run.turn.id, step))

    def planning(self, step: str, model: ChatModel, max_output: int | None = None) -> Planning:
        """Return the time that the answer of a step may take; its largest cost is reserved where that is limited.

        `max_output`: the tokens that the answer may have; None: the model's limit.
        """
        agent_run, costs = self.agent_run, self._context.costs
        if not self._is_capped:
            return agent_run.policy.planning()
        turn, named = agent_run.turn, reservation_of(agent_run.turn.id, step)
        # Its own turn pays, and that of every agent above it.
        accounts = [Account(each.session.key, each.turn.id, each.policy.rules) for each in agent_run.chain()]
        payer = Payer(named, turn.inbound.actor.key, agent_run.session.key, turn.id, accounts)
        return ReservedPlanning(agent_run.policy.rules.time.plan, costs, payer, model, max_output)

    def compresses(self, spec: str) -> bool:
        """Whether a model gets what commands say compressed."""
        return wants_compression(spec, self._context.ports.environment.config)

    def answer_text(self) -> AnswerText:
        """Return what takes the text of one answer."""
        return AnswerText(partial(self.registry.knows, self.agent_run.turn.inbound.actor))

    def must_show(self, address: str) -> bool:
        """Whether an address in the agent's answer has to be visible: it is its own, after reading others' words."""
        seen = self.window()
        return bool(seen.foreign) and not is_literal(address, seen)

    async def find_files(self, answer: str) -> tuple[Artifact, ...]:
        """Return the files that an answer names; none where another person or a program inside gets it.

        After words of others, none where others read the answer: those words may have had a file named.

        Raises:
            StateError: a file cannot be copied now.
        """
        inbound, ports = self.agent_run.turn.inbound, self._context.ports
        if not self.is_main or self.agent_run.root.caller or is_for_another(inbound):
            return ()
        has_others = is_among_others(inbound, ports.approvals.access)
        if has_others and self.window().foreign:
            return ()
        return await NamedFiles(ports, self.scope, "" if has_others else inbound.actor.key).find(answer)

    async def read_written(
        self, done: Finished, answer: AnswerText, request: Request, words: Sequence[str], *, may_ask_again: bool
    ) -> Finished:
        """Return an answer with the calls that the model wrote into its text, or without the text standing for one.

        Args:
            done, answer: the whole answer, and its text.
            request: the request answered.
            words: the person's messages of the turn.
            may_ask_again: the model was not informed of such a call in this turn.
        """
        if not answer.held:  # what may be a call is held back
            return with_text(done, answer.shown if answer.shown == answer.raw else answer.shown.rstrip())
        ports, actor = self._context.ports, self.agent_run.turn.inbound.actor
        summary = self.agent_run.session.window.summary
        calls = WrittenCalls(self.registry, ports.environment.config, ports.store.settings)
        at = Circumstances(await calls.reading(done.spec), actor, words, request, summary, may_ask_again)
        return await calls.extract_calls(done, answer, at)

    async def wait_for_resume(self) -> None:
        """Wait before a request or a call while the turn is paused."""
        await self.agent_run.wait_for_resume()
        if not self.is_main:
            await self._context.contexts.session(self.agent_run.home.key)  # so that `_home` is what people see by now

    async def affordable(self) -> None:
        """Check before a request that the agent, and every one above it, may spend more. Raises LimitReached."""
        person, is_capped = self.agent_run.turn.inbound.actor.key, False
        for each in self.agent_run.chain():
            is_capped |= await self._context.costs.check(each.session.key, each.turn.id, person, each.policy.rules)
        self._is_capped = is_capped

    async def model(self) -> ChatModel:
        """Return the models that answer the agent."""
        home, models = self.agent_run.home.key, self._context.ports.models
        # `main` has its own first in the configured chain; what a person chose goes before what an agent has.
        is_usual = self.is_main and (self.agent_run.kind.name == MAIN or await models.choice_for(home))
        own = () if is_usual else self.agent_run.kind.settings.chain
        if self.is_main and (unattended := self.agent_run.turn.inbound.unattended) and unattended.model:
            own = (unattended.model,)
        model = await models.answering(home, own)
        if isinstance(model, ModelChain):
            await model.look()  # its window decides which tools it is shown
        return model

    # For its tools (`toolkit.services`).

    def emit(self, event: TurnEvent) -> None:
        """Show an event of a call to clients, in the agent's own session."""
        self.publish(replace(event, session=self.agent_run.session.key))

    def chosen_mode(self) -> ChosenMode | None:
        """Return the permission mode that was chosen for the conversation; None for an external caller."""
        return None if self.agent_run.root.caller else self._home().settings.mode

    def window(self) -> WindowContent:
        unattended = self.agent_run.root.turn.inbound.unattended
        ordered = unattended.name if unattended and unattended.source else ""
        return window_content([each.session.window for each in self.agent_run.chain()], ordered)

    async def complete(self, spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
        return await self._clarifier.complete(spec, call, step)

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        return await self._questions.approve(wanted)

    async def ask(self, question: Question, step: str) -> str | None:
        links = ShownLinks(self.must_show)
        shown = replace(question, title=links.whole(question.title), text=links.whole(question.text))
        return await self._questions.ask(shown, step)

    async def intend(self, step: str) -> None:
        await self.agent_run.turn.intend(step)

    def check_delivery(self, delivery: Delivery) -> None:
        self._context.ports.outbox.check(delivery)

    async def deliver(self, delivery: Delivery) -> Receipt:
        inbound, others = self.agent_run.turn.inbound, self._context.schedules.scheduler.others
        outbox, shown = self._context.ports.outbox, ShownLinks(self.must_show).whole(delivery.text)
        return await others.deliver(inbound.actor, self.scope.address, replace(delivery, text=shown), outbox)

    async def show(self, delivery: Delivery) -> str:
        inbound = self.agent_run.turn.inbound
        if is_for_another(inbound) or not self.is_main or self.agent_run.root.caller or is_apart(inbound):
            raise ToolError("nobody reads along here: put the text, or a link to the file, in your answer")
        return ShownLinks(self.must_show).whole(delivery.text)

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        ports, session = self._context.ports, self.agent_run.session
        await ports.store.settings.set(session.key, "todos", [asdict(todo) for todo in todos] or None)
        session.settings.todos = tuple(todos)
        ports.bus.publish(TodosChanged(self.agent_run.turn.id, session.key, session.settings.todos))

    async def leave_plan(self, mode: Mode) -> None:
        if self.is_main:
            session, actor = self.agent_run.session.key, self.agent_run.turn.inbound.actor
            await self._context.choices.modes.leave_plan(session, actor, mode)
        else:
            await super().leave_plan(mode)

    async def command(self, text: str) -> str:
        if self._commands is None:
            return await super().command(text)
        return await self._commands.run_command(self.agent_run.turn.inbound, text)

    async def schedule(self, order: ScheduleOrder) -> str:
        if self.is_main and not self.agent_run.root.caller:
            if (seen := self.window()).foreign:
                order = replace(order, request=replace(order.request, source=source_of(seen)))
            return await carry_out_for_agent(self._context.schedules, self.agent_run.turn.inbound, order)
        return await super().schedule(order)

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        return await self._context.helpers.agents.spawn(self.agent_run, task, step, call_id)

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        return await self._context.forward(self.agent_run.turn, self.scope, wanted, step, call_id)

    async def sample(self, wanted: Sample) -> Sampled:
        await self.wait_for_resume()
        sampling = ToolSampling(self.agent_run, self._context.costs, self.planning)
        return await sampling.answer(wanted, partial(self._sampling_model, wanted.models))

    async def _sampling_model(self, wanted: Sequence[str]) -> ChatModel:
        await self.affordable()
        return await (self._context.ports.models.only(wanted) if wanted else self.model())

    def _asking(self) -> TurnQuestions | CallerQuestions | UnattendedQuestions:
        agent_run, ports = self.agent_run, self._context.ports
        if caller := agent_run.root.caller:
            return CallerQuestions(caller, agent_run.pause_clock, agent_run.was_denied, agent_run.delegation.name)
        if (unattended := agent_run.root.turn.inbound.unattended) and not unattended.ask:
            return UnattendedQuestions(ports.approvals, agent_run.root.turn)
        return TurnQuestions(
            ports.questions,
            ports.approvals,
            agent_run.root.turn,
            agent_run.pause_clock,
            agent_run.was_denied,
            agent=agent_run.delegation.name,
            prefix=agent_run.delegation.prefix,
        )

    def _publish(self, agent_run: AgentRun, event: TurnEvent) -> None:
        above, call = agent_run.parent, agent_run.delegation
        if above is None and agent_run.root.caller:
            agent_run.root.caller.emit(event)  # the session is a person's, in which this is no turn
            return
        self._context.ports.bus.publish(event)
        if above is None or not call.call_id:
            return
        match event:
            case ToolStarted():
                doing = event.hint or event.name
            case AgentProgress():
                doing = f"{event.agent} › {event.doing}"
            case _:
                return
        self._publish(above, AgentProgress(above.turn.id, above.session.key, call.call_id, call.name, doing))

    def _home(self) -> Session:
        """Return the person's current session: a background agent may have outlived the one loaded at its start."""
        home = self.agent_run.home
        return self._context.contexts.find(home.key) or home

    def _build_selections(self) -> tuple[Sequence[str], ...]:
        """Return the tool selections that limit the agent, without tools that would call a running agent again."""
        agent_run = self.agent_run
        without = self._context.recursive(agent_run.lineage, agent_run.depth)
        if not self.is_main:
            without += [TEAM_CREATE, TEAM_DELETE] if agent_run.membership else [TEAM_CREATE, TEAM_DELETE, SEND_MESSAGE]
        return (*agent_run.narrowed, [f"-{name}" for name in without]) if without else agent_run.narrowed

    async def _add_news(self, owner: Owner) -> None:
        """Remind of tasks that ended, and of what members of the team said."""
        tasks = self._context.ports.environment.tasks
        for ended in await tasks.news(owner) if tasks.pending_reports else ():
            self.reminders.add(of_task(ended))
        for word in self._context.helpers.teams.news(owner):
            self.reminders.add(word)

    async def _notify(self, text: str) -> None:
        """A line about the context to the people of the conversation, once in a turn."""
        session = self.agent_run.session
        self._context.ports.bus.publish(Notice(session.key, text))
        if session.turn.notify:
            await session.turn.notify("context", text)
