"""The session service: runs turns, and answers questions about sessions."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from goclaw.agent.kinds import Kind, Kinds
from goclaw.agent.loop import run_turn
from goclaw.agent.policy import RunPolicy
from goclaw.agent.rules import TurnRules, rules_of
from goclaw.config.agents import MAIN
from goclaw.context.budget import ContextBudget
from goclaw.context.calibration import Calibration
from goclaw.context.room import reserve
from goclaw.engine.base import Turn
from goclaw.errors import (
    AccessDenied,
    ConfigError,
    GoclawError,
    LimitReached,
    MessageDenied,
    StateError,
)
from goclaw.events import (
    LOCAL,
    Actor,
    Delivery,
    Notice,
    Outcome,
    SessionNow,
    TurnFinished,
    TurnStarted,
)
from goclaw.llm.base import ChatModel, Looking
from goclaw.sessions.agent_run import AgentRun, SharedRun
from goclaw.sessions.agent_selection import AgentSelector
from goclaw.sessions.agent_services import AgentServices
from goclaw.sessions.agents import Agents
from goclaw.sessions.artifacts import files_of
from goclaw.sessions.attachments import Attachments
from goclaw.sessions.checkpoints import Checkpoints
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.costs import Costs
from goclaw.sessions.demo_turns import DemoTurns
from goclaw.sessions.external_runs import ExternalRuns
from goclaw.sessions.forgetting import Forgetter
from goclaw.sessions.hooking import WITHHELD
from goclaw.sessions.interim import InterimTexts
from goclaw.sessions.maintenance import MaintenanceQueue
from goclaw.sessions.modes import Modes
from goclaw.sessions.overheard import Overheard
from goclaw.sessions.pausing import Pauses
from goclaw.sessions.ports import SessionPorts
from goclaw.sessions.queueing import QueueModes
from goclaw.sessions.state import Contexts, Session
from goclaw.sessions.status import Details, SessionStatus
from goclaw.sessions.summary_retries import SummaryRetries
from goclaw.sessions.teams import Teams
from goclaw.sessions.turn import STOPPED, STOPPED_HERE, TurnRun
from goclaw.sessions.turn_context import TurnContext
from goclaw.sessions.window_shortage import WindowShortage

log = logging.getLogger(__name__)

SCALES = "token_scales"
"""The stored fact that keeps the calibration over a restart."""
LOOK_SECONDS = 0.5
"""Seconds for which a command waits while the model is still being looked for."""
EMPTY_ANSWER = "(The model gave an empty answer.)"
CLEARED = "The conversation was cleared: what stands above is not known to the agent any more."
FAILED = "Something went wrong inside GoClaw, and this message was not answered. The log has the details."


class Sessions:
    """The conversations. `run` is the engine's handler."""

    def __init__(self, ports: SessionPorts) -> None:
        self._ports = ports
        self.models = ports.models
        self.contexts = Contexts(ports.transcripts, ports.settings, ports.clock)
        self.turn_rules = rules_of(ports.config.limits, ports.config.agents.main.policy)
        self._main = Kind(MAIN, ports.config.agents.main, self.turn_rules)
        self.costs = Costs(ports.spending, ports.config, ports.clock, self.contexts)
        self.pauses = Pauses(ports.settings, ports.clock, ports.bus.publish)
        self._demo_turns = DemoTurns(self.contexts, ports.settings)
        self.compactor = self._compacting()
        self.calibration = Calibration()
        self.summary_retries = SummaryRetries(
            ports.config.compaction,
            contexts=self.contexts,
            compactor=self.compactor,
            transcripts=ports.transcripts,
            clock=ports.clock,
            bus=ports.bus,
        )
        self.maintenance = self._beside()
        self.received = Attachments(
            ports.environment,
            channels=ports.channels,
            registry=ports.dispatcher.registry,
            transcriber=ports.transcriber,
        )
        self.interim = InterimTexts(ports.channels, ports.outbox, ports.clock)
        self.overheard = Overheard(self.contexts, ports.settings, ports.journal)
        self.questions = ports.questions
        self.rules = ports.approvals.rules
        self.dispatcher = ports.dispatcher
        self.unresponsive = ports.dispatcher.unresponsive
        self.command_port = ports.command_port
        self.queue_modes = QueueModes(self.contexts, ports.settings, ports.config.queue.mode)
        approvals = ports.approvals
        self.modes = Modes(self.contexts, ports.settings, approvals.access, approvals.audit, ports.config.policy.mode)
        self.settings = ports.settings
        self.tasks = ports.environment.tasks
        self.spending = ports.spending
        kinds = Kinds(ports.config)
        self.agents_for = AgentSelector(kinds, self.contexts, ports.settings, self._may_answer)
        self.agents = Agents(ports, kinds, self.contexts, self.pauses, may=self._may_answer, services=self._services)
        self.teams = Teams(ports, kinds, self.agents)
        self._turn_context = self._turn_context_of(kinds)
        self._room = WindowShortage(self._turn_context.budget, self._model)
        self.external_runs = ExternalRuns(self._turn_context, self.agents, self.pauses, rules_of(ports.config.limits))
        self.forgetter = self._forgetting()

    def _compacting(self) -> Compactor:
        ports = self._ports
        return Compactor(
            ports.config.compaction,
            clock=ports.clock,
            bus=ports.bus,
            models=ports.models,
            contexts=self.contexts,
            transcripts=ports.transcripts,
            checkpoints=ports.checkpoints,
            stored=ports.settings,
            hooks=ports.hooks,
            book=self.costs.book,
        )

    def _beside(self) -> MaintenanceQueue:
        ports, config = self._ports, self._ports.config
        return MaintenanceQueue(
            checkpoints=Checkpoints(
                config.checkpoint,
                config.compaction,
                store=ports.checkpoints,
                compactor=self.compactor,
                clock=ports.clock,
            ),
            clock=ports.clock,
            compactor=self.compactor,
            contexts=self.contexts,
            summary_retries=self.summary_retries,
            flush=ports.flush,
            models=ports.models,
            stored=ports.settings,
        )

    def _turn_context_of(self, kinds: Kinds) -> TurnContext:
        return TurnContext(
            self._ports,
            lambda: self.calibration,
            self.compactor,
            self.contexts,
            self.costs,
            self._demo_turns,
            kinds,
            self.modes,
            self.queue_modes,
            self.received,
            self.interim,
            self.agents,
            self.teams,
            self.agents_for,
            self._may_answer,
        )

    def _services(self, agent_run: AgentRun) -> AgentServices:
        return AgentServices(self._turn_context, agent_run)

    def _forgetting(self) -> Forgetter:
        ports = self._ports
        return Forgetter(
            ports.config.retention.days,
            blobs=ports.blobs,
            bus=ports.bus,
            clock=ports.clock,
            contexts=self.contexts,
            end_external_runs=self.external_runs.end,
            forgetting=ports.forgetting,
            memory=ports.environment.memory,
            models=ports.models,
            overheard=self.overheard,
            retention=ports.retention,
            tasks=ports.environment.tasks,
        )

    async def restore(self) -> None:
        """Take up what an earlier run learnt: how summaries go, how far token estimates are off, who holds what."""
        await self._ports.journal.forget_loose()
        await self.compactor.restore()
        await self.pauses.restore()
        self.calibration = Calibration(await self.settings.fact(SCALES))

    async def run(self, turn: Turn) -> Sequence[Delivery]:
        """Do a turn's work; returns what goes to the chat at its end."""
        inbound, began = turn.inbound, self._ports.clock.monotonic()
        self.maintenance.make_way()
        async with self.contexts.working(inbound.session) as session:
            session.actor, session.tell = inbound.actor, partial(self._tell, turn)
            session.person = inbound.actor.key
            self._ports.bus.publish(TurnStarted(turn.id, inbound.session, inbound.address))
            try:
                outcome, text = await (
                    self._compact(turn, session) if turn.kind == "compact" else self._answer(turn, session)
                )
                await self._pay_what_is_asked(turn, session)
            except StateError:
                # The turn is run again when the disk takes it, from what is stored by then.
                self.contexts.forget(session.key)
                raise
        await self.questions.turn_ended(turn.id)
        await self.pauses.turn_ended(session.key, turn.id)
        _log_end(outcome, text, self._ports.clock.monotonic() - began)
        if entries := session.window.entries:
            self.maintenance.turn_ended(inbound.session, inbound.actor, entries[-1].row)
        if scales := self.calibration.news():
            await self.settings.learn(SCALES, scales)
        channel = self._ports.channels.get(inbound.address.channel)
        files = files_of(turn, session.artifacts, outcome, channel, self._ports.approvals.access)
        return [*self._finish(turn, outcome, text), *files]

    async def _tell(self, turn: Turn, about: str, text: str) -> None:
        """A line to the chat of a turn, once; a terminal has it from the bus."""
        inbound = turn.inbound
        if inbound.address.channel != LOCAL:
            told = Delivery(f"{turn.id}:told:{about}", inbound.address, text, session=inbound.session)
            await self._ports.outbox.promise(told)

    async def failed(self, turn: Turn, error: Exception) -> Sequence[Delivery]:
        """Return the words to the user when `run` ended in an unforeseen way."""
        self.contexts.forget(turn.inbound.session)
        await self.questions.turn_ended(turn.id)
        await self.pauses.turn_ended(turn.inbound.session, turn.id)
        return self._finish(turn, Outcome.FAILED, FAILED)

    async def clear(self, key: str, running: str, by: str) -> None:
        """Begin an empty context, and show so in terminals; `by`: the message that asked for it."""
        await self.contexts.clear(key, running)
        self._ports.bus.publish(Notice(key, CLEARED, by))

    async def now(self, key: str) -> SessionNow:
        """Return what goes on in a session right now: a client that subscribes next misses nothing."""
        todos = (await self.contexts.session(key)).todos
        return replace(self._ports.bus.now(key), questions=self.questions.of(key), todos=todos)

    async def status(self, key: str, details: Details, actor: Actor | None = None) -> SessionStatus:
        """Return a session's state; `details` is what others know, `actor` who asks."""
        session = await self.contexts.session(key)
        kind, line = await self._answering(key, actor)
        models = self._ports.models
        short = ""
        try:
            agent = await self._known_model(key, kind)
        except (ConfigError, TimeoutError):
            context_window, model = 0, models.sentence
        else:
            context_window, model = agent.context_window, agent.spec
            if actor:
                await self._measure(session, actor, kind, agent)
                short = await self._room.shortage(session, actor, kind, agent)
        return SessionStatus(
            session=key,
            messages=len(session.window.entries),
            tokens=session.window.tokens(session.overhead),
            context_window=context_window,
            reserve=reserve(context_window, self._ports.config.compaction),
            shortage=short,
            compactions=await self._ports.transcripts.compactions(key),
            compacting=session.compacting,
            ollama_configured=any(spec.startswith("ollama:") for spec in models.summary_specs),
            pending_retries=await self.summary_retries.count(),
            model=model,
            chosen=await models.chosen(key),
            spent=await self._ports.spending.of_session(key),
            queue_mode=await self.queue_modes.of(key),
            mode=await self.modes.chosen(key),
            details=details,
            answering=line,
            policy=[*kind.rules.lines(), *await self._how_far(session)],
            agents=[*self.teams.lines(key), *await self.agents.lines(key)],
            paused=session.running and bool(self.pauses.of(key, self._ports.bus.now(key).turn)),
        )

    async def budget(self, key: str, actor: Actor) -> ContextBudget:
        """Return how a session's next request divides the model's window, if `actor` speaks next.

        Raises:
            ConfigError: no model can be opened.
            StateError: the actor's workspace cannot be opened.
            TimeoutError: the model is still being looked for.
        """
        session = await self.contexts.session(key)
        kind, _ = await self._answering(key, actor)
        return await self._turn_context.budget(session, actor, kind, await self._known_model(key, kind))

    async def no_room(self, actor: Actor) -> str:
        """Explain why no new conversation of `actor` with the main agent fits the model's window; empty: one does."""
        return await self._room.at_start(actor, self._main)

    async def _known_model(self, key: str, kind: Kind) -> ChatModel:
        """Return the model of an agent, with its window if its server reports it soon.

        Raises:
            ConfigError: none can be opened.
            TimeoutError: it is still being looked for.
        """
        async with asyncio.timeout(LOOK_SECONDS):
            model = await self._model(key, kind)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                if isinstance(model, Looking):
                    await model.look()
        return model

    async def _model(self, key: str, kind: Kind) -> ChatModel:
        """Return the model by which an agent answers in a session. Raises ConfigError where none can be opened."""
        models = self._ports.models
        own = () if kind.name == MAIN or await models.chosen(key) else kind.settings.chain
        return await models.answering(key, own)

    async def _measure(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> None:
        """Know what prompt and tools take, before the first request as well."""
        with suppress(StateError):  # a request would end with the error; a number need not
            await self._turn_context.measure(session, actor, kind, model)

    async def _answer(self, turn: Turn, session: Session) -> tuple[Outcome, str]:
        """Return the agent's answer, or the sentence that stands in its place."""
        kind, refused = await self._who_answers(turn)
        session.rules, policy = kind.rules, RunPolicy(kind.rules)
        root = SharedRun(turn, self.pauses.gate(turn, policy.paused))
        agent_run = AgentRun(root, turn, session, policy, kind.settings, kind.name)
        run = TurnRun(self._services(agent_run))
        try:
            if refused:
                raise refused
            await self._ports.dispatcher.registry.ready()
            text = await run_turn(run, policy)
            if run.withheld:
                return Outcome.STOPPED, WITHHELD
            await self._tell_of_room(turn, session, kind)
            if not text.strip():
                text = "" if run.said else EMPTY_ANSWER
            return Outcome.CUT if run.cut else Outcome.ANSWERED, text
        except MessageDenied as denied:
            return Outcome.FAILED, str(denied)  # nothing was stored, so there is nothing to settle
        except LimitReached as limit:
            outcome, text, reason = Outcome.LIMITED, str(limit), "not finished: a limit of the turn was reached"
        except asyncio.CancelledError:
            if not _taken_for_stop(turn):
                raise
            outcome, text, reason = Outcome.STOPPED, STOPPED, "stopped by the user"
        except StateError:
            raise  # nothing can be recorded: the turn is taken up again when it can
        except GoclawError as error:
            text = await self._room.in_words(error, session, turn.inbound.actor, kind)
            outcome, reason = Outcome.FAILED, "the turn failed"
        text = await run.settle(text, reason)
        # What was cut may have reached the store without reaching the window.
        self.contexts.forget(session.key)
        return outcome, text

    async def _tell_of_room(self, turn: Turn, session: Session, kind: Kind) -> None:
        if words := await self._room.at_first_answer(turn.id, session, turn.inbound.actor, kind):
            self._ports.bus.publish(Notice(session.key, words, turn.id))
            await self._tell(turn, "room", words)

    async def _who_answers(self, turn: Turn) -> tuple[Kind, GoclawError | None]:
        """Return the agent that answers; where none may, the main agent and the error to report instead."""
        try:
            return (await self.agents_for.of_turn(turn)).kind, None
        except (AccessDenied, ConfigError) as error:
            return self._main, error

    async def _answering(self, key: str, actor: Actor | None) -> tuple[Kind, str]:
        """Return the agent that answers an actor in a session, and the line about it for people."""
        if actor is None:
            return self._main, ""
        try:
            found = await self.agents_for.of(actor, key)
        except (AccessDenied, ConfigError) as error:
            return self._main, f"none. {error}"
        chosen, line = await self.agents_for.chosen(key), f"{found.kind.name} ({found.why})" if found.why else ""
        if chosen and chosen != found.kind.name:
            line = f"{found.kind.name}; {chosen}, which /agent chose, is not there or not for you"
        return found.kind, line

    def rules_in(self, session: str) -> TurnRules:
        """Return the rules of the turn that runs in a session."""
        known = self.contexts.known(session)
        return known.rules if known and known.rules else self.turn_rules

    async def _how_far(self, session: Session) -> Sequence[tuple[str, str]]:
        """Return the share of the daily budget used by the session's current user, at first its own person."""
        return await self.costs.lines(session.person or session.key, self.turn_rules)

    def _may_answer(self, actor: Actor, agent: str) -> bool:
        return self._ports.approvals.access.authorize(actor, "agent.use", agent).allowed

    async def _compact(self, turn: Turn, session: Session) -> tuple[Outcome, str]:
        if turn.stopping:
            return Outcome.STOPPED, STOPPED
        try:
            await self.costs.check_day(turn.inbound.actor.key, self.turn_rules)
            kind, _ = await self._answering(session.key, turn.inbound.actor)
            with suppress(ConfigError):  # without a model nothing is counted
                model = await self._model(session.key, kind)
                await self._measure(session, turn.inbound.actor, kind, model)
            return Outcome.ANSWERED, await self.compactor.compact(session, turn.inbound.text, forced=True)
        except LimitReached as limit:
            return Outcome.LIMITED, str(limit)
        except asyncio.CancelledError:
            if not _taken_for_stop(turn):
                raise
            return Outcome.STOPPED, STOPPED

    async def _pay_what_is_asked(self, turn: Turn, session: Session) -> None:
        try:
            await self._pay_compaction(session)
        except asyncio.CancelledError:
            if not _taken_for_stop(turn):
                raise

    async def _pay_compaction(self, session: Session) -> None:
        """A /compact that came after the last request of a turn."""
        request, session.compact_request = session.compact_request, None
        if request is not None:
            await request.report(await self.compactor.compact(session, request.instructions, forced=True))

    def _finish(self, turn: Turn, outcome: Outcome, text: str) -> Sequence[Delivery]:
        inbound = turn.inbound
        is_told = outcome is not Outcome.STOPPED or text not in (STOPPED, WITHHELD)
        told = "\n\n".join(filter(None, (self.interim.rest(turn.id), text if is_told else "")))
        self._ports.bus.publish(TurnFinished(turn.id, inbound.session, outcome, text, silent=not told))
        if inbound.address.channel == LOCAL or not told:
            return ()  # a terminal reads the transcript; the person who said /stop has its answer
        return [Delivery(f"{turn.id}:deliver:1", inbound.address, told, turn=turn.id, session=inbound.session)]


def _log_end(outcome: Outcome, text: str, seconds: float) -> None:
    """A line about how a turn ended. What was said stays out of the log; why there is no answer does not."""
    if outcome in (Outcome.ANSWERED, Outcome.CUT, Outcome.STOPPED):
        log.info("turn %s in %.1f s", outcome, seconds)
    else:
        why = text.rpartition(f"{STOPPED_HERE}\n")[2]
        log.warning("turn %s in %.1f s: %s", outcome, seconds, why)


def _taken_for_stop(turn: Turn) -> bool:
    """Whether a cancellation is /stop, and the turn may say its last words."""
    task = asyncio.current_task()
    if not turn.stopping or task is None:
        return False
    task.uncancel()
    return True
