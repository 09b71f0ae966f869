"""The parts of sessions, built in the order of their needs."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit_chain import BlankAudit
from goclaw.common.auth.pairing import Pairing
from goclaw.common.auth.users import Users
from goclaw.common.auth.web_logins import WebLogins
from goclaw.common.core.bus import Bus
from goclaw.common.core.events import Actor
from goclaw.conversation.agent.kinds import Kinds
from goclaw.conversation.agent.limits import rules_of
from goclaw.conversation.agent.prompt import SystemPrompt
from goclaw.conversation.compaction.compacting import Compactor
from goclaw.conversation.compaction.maintenance import Checkpoints, Flush, MaintenanceQueue
from goclaw.conversation.compaction.summaries import CompactionPorts
from goclaw.conversation.compaction.summary_retries import SummaryRetries
from goclaw.conversation.questions.questions import Questions
from goclaw.conversation.schedules.heartbeat import Heartbeat
from goclaw.conversation.schedules.messages_to_others import MessagesToOthers
from goclaw.conversation.schedules.quiet_hours import QuietHours
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.rows import ScheduleRows
from goclaw.conversation.schedules.scheduler import Scheduler
from goclaw.conversation.sessions.forgetting import Codes, Forgetter
from goclaw.conversation.sessions.models import DemoTurns, Models
from goclaw.conversation.sessions.modes import Modes, QueueModes
from goclaw.conversation.sessions.overheard import Overheard
from goclaw.conversation.sessions.pausing import Pauses
from goclaw.conversation.sessions.state import Contexts
from goclaw.conversation.turns.agent_selection import AgentSelector
from goclaw.conversation.turns.agent_services import AgentServices
from goclaw.conversation.turns.agents import Agents
from goclaw.conversation.turns.answers import InterimTexts, UnattendedTurns
from goclaw.conversation.turns.attachments import Attachments
from goclaw.conversation.turns.costs import BackgroundCosts, Costs
from goclaw.conversation.turns.external_runs import ExternalRuns
from goclaw.conversation.turns.service import Sessions
from goclaw.conversation.turns.status import Details, SessionInspection
from goclaw.conversation.turns.teams import Teams
from goclaw.conversation.turns.tool_requests import CommandPort
from goclaw.conversation.turns.turn_context import (
    ChatTexts,
    Helpers,
    RequestParts,
    SessionChoices,
    SessionPorts,
    SessionStore,
    TurnContext,
    WindowShortage,
)
from goclaw.durable.engine.base import Engine
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.approvals import ApprovalRules
from goclaw.durable.store.checkpoints import CheckpointStore
from goclaw.durable.store.database import Database
from goclaw.durable.store.file_labels import FileLabels
from goclaw.durable.store.forgetting import Forgetting
from goclaw.durable.store.spending import reservations_of
from goclaw.gateway.intake.commands.base import CommandPorts, Entrances, Reports
from goclaw.llm.transcription import Transcriber
from goclaw.tools.approval.rules import StandingApprovals
from goclaw.tools.hooks.base import Hooks
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.tool_docs import ToolListing


class SessionParts:
    """The parts of sessions, for the daemon that runs them."""

    def __init__(
        self,
        ports: SessionPorts,
        database: Database,
        engine: Engine,
        users: Users,
        transcriber: Transcriber | None,
        is_alone: Callable[[Actor, str], bool],
        blank_audit: BlankAudit,
    ) -> None:
        """`is_alone`: whether a session's workspace is the actor's alone. `blank_audit`: for forgotten sessions."""
        self.ports, self.models = ports, ports.models
        self.access, config, clock = ports.approvals.access, ports.config, ports.clock
        store, settings = ports.store, ports.store.settings
        self.contexts = Contexts(store.transcripts, settings, clock)
        self.file_labels = ports.dispatcher.file_labels or FileLabels(database)
        self.costs = Costs(store.spending, config, clock, self.contexts, self.access, reservations_of(database))
        self.pauses = Pauses(settings, clock, ports.bus.publish)
        self.overheard = Overheard(self.contexts, settings, ports.store.journal)
        self.choices = SessionChoices(
            Modes(self.contexts, settings, self.access, ports.environment.audit, config.policy.mode),
            QueueModes(self.contexts, settings, config.queue.mode),
            AgentSelector(
                Kinds(config), access=self.access, contexts=self.contexts, models=ports.models, stored=settings
            ),
        )
        compaction = CompactionPorts(
            clock=clock,
            bus=ports.bus,
            models=ports.models,
            contexts=self.contexts,
            transcripts=store.transcripts,
            stored=settings,
            costs=BackgroundCosts(self.costs),
        )
        checkpoints = CheckpointStore(database)
        self.compactor = Compactor(config.compaction, compaction, checkpoints, ports.dispatcher.hooks)
        self.summary_retries = SummaryRetries(compaction, self.compactor, ports.outbox.ownership)
        self.maintenance = self._maintenance(compaction, is_alone)
        self.schedules = self._build_schedules(database, users, engine)
        self._build_turns(engine, transcriber)
        self.forgetter = self._forgetter(database, blank_audit)

    def command_ports(
        self,
        *,
        details: Callable[[str], Awaitable[Details]],
        engine: Engine,
        rights: Callable[[Actor, str], str],
        tools: ToolListing,
        pairing: Pairing | None = None,
        logins: WebLogins | None = None,
    ) -> CommandPorts:
        """Return the services of commands; for the arguments see there."""
        ports = self.ports
        return CommandPorts(
            access=self.access,
            environment=ports.environment,
            bus=ports.bus,
            engine=engine,
            questions=ports.questions,
            rules=ports.approvals.rules,
            schedules=self.schedules,
            sessions=self,
            reports=Reports(details, rights, ports.store.spending, tools),
            entrances=Entrances(pairing, logins),
        )

    def _build_schedules(self, database: Database, users: Users, engine: Engine) -> Schedules:
        """Bind them to what they start: turns through the engine, messages through the outbox."""
        ports, config, clock = self.ports, self.ports.config, self.ports.clock
        rows = ScheduleRows(database)
        quiet = QuietHours(database, users, config.quiet_hours, ports.outbox, clock)
        heartbeat = Heartbeat(
            config.heartbeat, rows, users, ports.environment, engine.queue, engine.submit, quiet, clock
        )
        settings, audit = ports.store.settings, ports.environment.audit
        others = MessagesToOthers(
            database, self.access, users, settings, quiet, ports.outbox.channels, engine.submit, clock, audit, ports.bus
        )
        ports.questions.besides.append(others.answer)
        scheduler = Scheduler(rows, self.access, engine.submit, others, clock, heartbeat.prepare)
        return Schedules(
            rows,
            scheduler,
            self.access,
            users,
            config,
            clock,
            ports.models,
            lambda actor: [kind.name for kind in self.choices.agents.list_for(actor)],
            ports.store.settings,
            heartbeat,
        )

    def _maintenance(self, compaction: CompactionPorts, is_alone: Callable[[Actor, str], bool]) -> MaintenanceQueue:
        ports, checkpoints = self.ports, Checkpoints(self.ports.config.checkpoint, self.compactor)
        flush = Flush(ports.store.settings, self.access, ports.environment, self.compactor, is_alone)
        return MaintenanceQueue(checkpoints, compaction, self.compactor, flush, self.summary_retries)

    def _build_turns(self, engine: Engine, transcriber: Transcriber | None) -> None:
        ports = self.ports
        self.agents = Agents(
            ports, self.choices.agents, self.contexts, self.pauses, lambda run: AgentServices(self._context, run)
        )
        self.teams = Teams(ports, self.agents)
        attachments = Attachments(
            ports.environment,
            channels=ports.outbox.channels,
            registry=ports.dispatcher.registry,
            transcriber=transcriber,
        )
        prompt = SystemPrompt(approved=ports.environment.approved_files, ask=ports.questions.prompt_files.ask)
        context = self._context = TurnContext(
            ports,
            self.choices,
            RequestParts(prompt, DemoTurns(self.contexts, ports.store.settings)),
            Helpers(self.agents, self.teams),
            ChatTexts(attachments, InterimTexts(ports.outbox.channels, ports.outbox, ports.clock)),
            compactor=self.compactor,
            contexts=self.contexts,
            costs=self.costs,
            schedules=self.schedules,
            unattended=UnattendedTurns(self.schedules.scheduler, engine),
        )
        self.external_runs = ExternalRuns(
            context, self.agents, self.pauses, rules_of(ports.config.limits), ports.outbox.ownership
        )
        shortage = self._shortage = WindowShortage(context)
        self.inspection = SessionInspection(
            context, self.agents, self.pauses, shortage, self.summary_retries, self.teams
        )

    def turns(self, commands: CommandPort) -> Sessions:
        """Return what does turns. `commands`: the gateway, which needs all these parts itself."""
        return Sessions(self._context, self.maintenance, self.pauses, self._shortage, commands)

    def _forgetter(self, database: Database, blank_audit: BlankAudit) -> Forgetter:
        ports = self.ports
        return Forgetter(
            ports.environment,
            blank_audit=blank_audit,
            bus=ports.bus,
            codes=Codes(ports.store.settings, ports.clock),
            contexts=self.contexts,
            end_external_runs=self.external_runs.end,
            forgetting=Forgetting(database),
            models=ports.models,
            overheard=self.overheard,
        )


def build_sessions(
    database: Database,
    *,
    access: Access,
    blank_audit: BlankAudit,
    bus: Bus,
    engine: Engine,
    environment: ToolEnvironment,
    hooks: Hooks,
    is_alone: Callable[[Actor, str], bool],
    journal: Journal,
    models: Models,
    outbox: Outbox,
    registry: Registry,
    transcriber: Transcriber | None,
    users: Users,
    config_file: Path | None = None,
) -> SessionParts:
    """Return the parts of sessions on a database.

    `config_file`: need not exist yet; None if unknown. `is_alone`, `blank_audit`: see `SessionParts`.
    """
    questions = Questions(access=access, bus=bus, environment=environment, journal=journal, outbox=outbox, users=users)
    ports = SessionPorts(
        bus=bus,
        clock=environment.clock,
        store=SessionStore(database, journal),
        outbox=outbox,
        dispatcher=Dispatcher(registry, access, environment, hooks, FileLabels(database)),
        environment=environment,
        models=models,
        questions=questions,
        approvals=StandingApprovals(access, environment.audit, environment.clock, ApprovalRules(database)),
        config_file=config_file,
    )
    return SessionParts(ports, database, engine, users, transcriber, is_alone, blank_audit)
