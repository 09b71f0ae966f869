"""The services that turns use, and the content of a request besides the conversation."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolResult
from goclaw.common.core.records import record
from goclaw.common.specs import ToolSpec
from goclaw.conversation.agent.context.budget import ContextBudget, Share
from goclaw.conversation.agent.context.calibration import Calibration
from goclaw.conversation.agent.context.window import Window
from goclaw.conversation.agent.kinds import AGENT_TOOL, Kind
from goclaw.conversation.agent.prompt import SystemPrompt, measured_budget, starts_agents, system_prompt
from goclaw.conversation.compaction.compacting import Compactor
from goclaw.conversation.questions.questions import Questions
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.sessions.models import DemoTurns, Models
from goclaw.conversation.sessions.modes import Modes, QueueModes
from goclaw.conversation.sessions.reminding import MEMENTO_TOOL, format_mementos
from goclaw.conversation.sessions.state import Contexts, Session
from goclaw.conversation.turns.agent_run import AgentRun
from goclaw.conversation.turns.agent_selection import AgentSelector
from goclaw.conversation.turns.answers import InterimTexts, UnattendedTurns
from goclaw.conversation.turns.attachments import Attachments
from goclaw.conversation.turns.costs import Costs
from goclaw.conversation.turns.tool_requests import Forwarding
from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import Database
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.spending import Spending
from goclaw.durable.store.transcripts import Transcripts
from goclaw.errors import ConfigError, GoclawError, ModelError, ModelErrorKind, StateError
from goclaw.llm.base import ChatModel
from goclaw.llm.token_counts import estimate_document, estimate_prompt, estimate_reminder, estimate_tools
from goclaw.tools.approval.rules import StandingApprovals
from goclaw.tools.execution.tasks.base import Owner
from goclaw.tools.toolkit.agent_tasks import AgentReport, AgentTask, Forward, TeamPort
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.offering import Offering, Offerings, profile_of
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import Reminder

log = logging.getLogger(__name__)

AT_ONCE = 10
"""While one computes, others wait for threads that read the workspace. Measured with fifty chats: with 2 a busy loop
prepares a quarter fewer, from 20 on all are ready together again."""
PATIENCE_SECONDS = 0.1
"""Seconds for which a turn lets others go before it: a workspace that does not answer must hold up no other one."""


class PreparationLimiter:
    """Lets turns prepare their requests in the order they come, a few at the same time.

    asyncio gives each task a piece of time: of fifty turns that begin together the first request would leave when the
    last is ready, and all answers would come together, too. A few at a time, the first leaves immediately.
    """

    def __init__(self, at_once: int = AT_ONCE, patience: float = PATIENCE_SECONDS) -> None:
        """`at_once`: turns; `patience`: seconds that one waits for its place."""
        self._places = asyncio.Semaphore(at_once)
        self._patience = patience

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place for the block, unless none became free in time."""
        has_place = await self._acquire()
        try:
            yield
        finally:
            if has_place:
                self._places.release()

    async def _acquire(self) -> bool:
        if not self._places.locked():
            return await self._places.acquire()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                return await self._places.acquire()
        return False


class SessionStore:
    """The rows of sessions in the database."""

    def __init__(self, database: Database, journal: Journal) -> None:
        self.journal = journal
        self.transcripts = Transcripts(database)
        self.settings = Settings(database)
        self.spending = Spending(database)


@record
class SessionPorts:
    """The services that turns use; `app.sessions` fills them in."""

    bus: Bus
    clock: Clock
    store: SessionStore
    outbox: Outbox
    dispatcher: Dispatcher
    environment: ToolEnvironment
    models: Models
    questions: Questions
    approvals: StandingApprovals
    config_file: Path | None
    """The configuration file, which need not exist yet; None if unknown."""

    @property
    def config(self) -> Config:
        return self.environment.config


class SubagentsPort(Protocol):
    """Starts agents for another one (`turns.agents`)."""

    async def spawn(self, above: AgentRun, task: AgentTask, step: str, call_id: str) -> AgentReport:
        """Run an agent for `above` to its end, for the call with this step's name and this id."""


class TeamsPort(Protocol):
    """The teams of all sessions (`turns.teams`)."""

    def of(self, agent_run: AgentRun) -> TeamPort:
        """Return the team as an agent reaches it."""

    def news(self, owner: Owner) -> Sequence[Reminder]:
        """Return the reminders for the lead: one per member that spoke."""


@record
class SessionChoices:
    """The mode, the queue mode and the agent of each session."""

    modes: Modes
    queue_modes: QueueModes
    agents: AgentSelector


@record
class RequestParts:
    """The parts of requests that all sessions share."""

    prompt: SystemPrompt
    demo_turns: DemoTurns
    calibration: Calibration = field(default_factory=Calibration)
    offerings: Offerings = field(default_factory=Offerings)
    preparing: PreparationLimiter = field(default_factory=PreparationLimiter)


@record
class Helpers:
    """The agents that work for another one."""

    agents: SubagentsPort
    teams: TeamsPort


@record
class ChatTexts:
    """The texts of a turn in its chat besides the answer."""

    attachments: Attachments
    interim: InterimTexts


@record
class TurnContext:
    """The parts of the service that turns use."""

    ports: SessionPorts
    choices: SessionChoices
    requests: RequestParts
    helpers: Helpers
    chat: ChatTexts
    compactor: Compactor
    contexts: Contexts
    costs: Costs
    schedules: Schedules
    unattended: UnattendedTurns

    async def forward(
        self, turn: Turn, scope: CallScope, wanted: Forward, step: str, call_id: str, *, spawns: bool = True
    ) -> ToolResult:
        """Hand the call with this step's name and this id on to another tool.

        Args:
            turn: takes the call's steps.
            scope: where it is made.
            wanted, step, call_id: the call, and the name and id of the call that it stands for.
            spawns: whether the other tool may start agents.
        """
        offering = self.choices.agents.kinds.of(wanted.agent)
        selection = offering.settings.tools if offering else ()
        forwarding = Forwarding(self.ports.dispatcher, turn, scope, selection, spawns)
        return await forwarding.hand_on(wanted, step, call_id)

    def recursive(self, lineage: set[str], depth: int) -> list[str]:
        """Return the tools that would call one of the agents at work again, or start one more than may be."""
        is_deepest = depth >= self.ports.environment.config.limits.agent_depth
        agents = set(self.ports.environment.config.agents.everyone) if is_deepest else lineage
        return [*([AGENT_TOOL] if is_deepest else []), *self.choices.agents.kinds.recursive(agents)]

    def offering(
        self,
        actor: Actor,
        kind: Kind,
        within: Sequence[Sequence[str] | None],
        model: ChatModel,
        *,
        planning: bool,
    ) -> Offering:
        """Return the tools to show to a model, of those that an agent of this kind may use for the actor."""
        offered_to, settings = self.ports.dispatcher.registry.of(kind.name).offered_to, kind.settings
        usable = offered_to(actor, *within, planning=planning)
        lasting = offered_to(actor, *within, planning=False) if planning else usable
        if self.ports.models.served.of(model.spec).tools is False:
            usable = lasting = []  # its server would refuse the whole request
        profile = profile_of(self.ports.environment.config, settings, model.spec, model.context_window)
        return self.requests.offerings.of(usable, lasting, profile, settings.tools)

    async def system(self, actor: Actor, session: str, settings: AgentSettings, offering: Offering, *about: str) -> str:
        """Return an agent's system prompt with these tools, in the session with this key.

        Raises:
            StateError: the workspace cannot be opened.
        """
        prompt = await self.requests.prompt.system(await self.ports.environment.workspace(actor, session))
        agents = self.choices.agents
        kinds = agents.kinds.format_list(partial(agents.may, actor)) if starts_agents(offering.usable) else ""
        return system_prompt(prompt, settings, offering, *about, kinds)

    async def measure(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> None:
        """Estimate what prompt and tools take of a session's next request, where none was made since it was loaded.

        Args: as of `budget`.
        """
        if session.overhead:
            return
        with suppress(StateError):  # a request would end with the error; a number need not
            system, offering = await self._next(session, actor, kind, model)
            session.overhead = estimate_prompt(system) + estimate_tools(offering.tools)
            session.window.scale = self.requests.calibration.of(model.spec)
            session.window.show_documents(model)

    async def budget(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> ContextBudget:
        """Estimate part by part the share of the model's window that a session's next request uses.

        Args:
            session: the conversation.
            actor: for whom the request would be made.
            kind: the agent that would answer.
            model: the model that would answer.

        Raises:
            StateError: the actor's workspace cannot be opened.
        """
        system, offering = await self._next(session, actor, kind, model)
        window, scale = session.window, self.requests.calibration.of(model.spec)
        window.scale = scale
        window.show_documents(model)
        found = measured_budget(
            model.spec, model.context_window, system, offering, self.ports.environment.config.compaction, scale
        )
        said = window.tokens(estimate_prompt(system) + estimate_tools(offering.tools)) - int(scale * window.reminded)
        documents = window.documents
        as_files = int(scale * sum(map(estimate_document, documents)))
        return replace(
            found,
            notes=int(scale * estimate_reminder(await self.format_mementos(actor, session, offering.usable))),
            conversation=Share(max(0, said - found.overhead - as_files), len(window.entries)),
            documents=Share(as_files, sum(document.pages for document in documents)),
        )

    async def _next(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> tuple[str, Offering]:
        """Return the system prompt and tools of a request to this model that is not made yet."""
        registry = self.ports.dispatcher.registry
        await registry.ready()
        planning = self.choices.modes.offers_plan(session, actor, session.settings.mode)
        without = tuple(f"-{name}" for name in self.recursive({kind.name}, 0))
        within = (kind.settings.tools, without or None)
        offering = self.offering(actor, kind, within, model, planning=planning)
        return await self.system(actor, session.key, kind.settings, offering), offering

    async def format_mementos(self, actor: Actor, session: Session, tools: Sequence[ToolSpec]) -> str:
        """Return the mementos to show to the model when the actor speaks."""
        ports = self.ports
        if not ports.environment.config.memory.enabled or all(spec.name != MEMENTO_TOOL for spec in tools):
            return ""
        workspace = await ports.environment.workspace(actor, session.key)
        is_own = not ports.approvals.access.is_group(session.key)
        return await format_mementos(workspace, actor.key, session.window.markers, own=is_own)


ASK_AN_ADMIN = "I cannot answer at the moment. Please tell an admin."
_ADMINS_MEND = frozenset((ModelErrorKind.AUTH, ModelErrorKind.NOT_FOUND))
"""A key that is refused, an account without credit, a model or an address that is wrong."""


@record
class WindowShortage:
    """Says that a conversation cannot fit its model's window, with what uses the window and what helps."""

    context: TurnContext

    async def shortage(self, session: Session, actor: Actor, kind: Kind, model: ChatModel) -> str:
        """Explain why no conversation fits the model's window, for `/status`; empty: one does, or it is unknown."""
        with suppress(StateError):  # a request would end with the error; a line of the status need not
            found = await self.context.budget(session, actor, kind, model)
            return "" if found.fits else found.sentence()
        return ""

    async def at_start(self, actor: Actor, main: Kind) -> str:
        """Return why no new conversation of `actor` fits, and what helps, in one line for the log; empty: one does."""
        with suppress(ConfigError, StateError):  # said where a request is made
            model = await self.context.choices.agents.model("", main)
            found = await self.context.budget(Session("", Window()), actor, main, model)
            return "" if found.fits else f"{model.spec}: {found.line()}"
        return ""

    async def at_first_answer(self, session: Session, actor: Actor, kind: Kind) -> str:
        """Return the same after the first answer of a context, for its people."""
        with suppress(ConfigError, StateError):  # the answer is there all the same
            found = await self._budget(session, actor, kind)
            return "" if found.fits else found.explain()
        return ""

    async def in_words(self, error: GoclawError, session: Session, actor: Actor, kind: Kind) -> str:
        """Return the text of an error; of a request that did not fit also what uses the window, and what helps.

        Where only an admin can help, others read that; the log has the rest.
        """
        if isinstance(error, ConfigError) or (isinstance(error, ModelError) and error.kind in _ADMINS_MEND):
            access = self.context.ports.approvals.access
            if not access.authorize(actor, "command.admin", "status").allowed:
                log.warning("nobody but an admin can help: %s", error)
                return ASK_AN_ADMIN
        if isinstance(error, ModelError) and error.kind is ModelErrorKind.OVERFLOW:
            with suppress(ConfigError, StateError):
                found = await self._budget(session, actor, kind)
                if found.is_tight:  # else the server knows another window than we do
                    return f"{error}\n\n{found.explain()}"
        return str(error)

    async def _budget(self, session: Session, actor: Actor, kind: Kind) -> ContextBudget:
        model = await self.context.choices.agents.model(session.key, kind)
        return await self.context.budget(session, actor, kind, model)
