"""The services that turns use."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from goclaw.agent.prompt import SystemPrompt
from goclaw.bus import Bus
from goclaw.channels.base import Channel
from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.engine.journal import Journal
from goclaw.engine.outbox import Outbox
from goclaw.hooks.base import Hooks
from goclaw.records import record
from goclaw.sessions.approvals import StandingApprovals
from goclaw.sessions.command_port import CommandPort
from goclaw.sessions.models import Models
from goclaw.sessions.questions import Questions
from goclaw.store.settings import Settings
from goclaw.store.spending import Spending
from goclaw.store.transcripts import Transcripts
from goclaw.toolkit.base import ToolEnvironment
from goclaw.toolkit.dispatcher import Dispatcher


@record
class SessionPorts:
    """The services that turns use; `app.sessions` fills them in."""

    config: Config
    clock: Clock
    bus: Bus
    transcripts: Transcripts
    outbox: Outbox
    channels: Mapping[str, Channel]
    dispatcher: Dispatcher
    environment: ToolEnvironment
    models: Models
    prompt: SystemPrompt
    journal: Journal
    questions: Questions
    approvals: StandingApprovals
    settings: Settings
    spending: Spending
    hooks: Hooks
    config_file: Path | None
    """The configuration file, which need not exist yet; None if unknown."""
    command_port: CommandPort = field(default_factory=CommandPort)
