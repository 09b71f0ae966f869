"""The services that sessions use."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from goclaw.agent.prompt import SystemPrompt
from goclaw.blobs import Blobs
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
from goclaw.sessions.flush import Flush
from goclaw.sessions.models import Models
from goclaw.sessions.questions import Questions
from goclaw.store.checkpoints import CheckpointStore
from goclaw.store.forgetting import Forgetting
from goclaw.store.retention import Retention
from goclaw.store.settings import Settings
from goclaw.store.spending import Spending
from goclaw.store.transcripts import Transcripts
from goclaw.toolkit.base import ToolEnvironment
from goclaw.toolkit.dispatcher import Dispatcher
from goclaw.transcribers.base import Transcriber


@record
class SessionPorts:
    """The services that sessions use; `app` fills them in."""

    config: Config
    clock: Clock
    bus: Bus
    blobs: Blobs
    transcripts: Transcripts
    outbox: Outbox
    channels: Mapping[str, Channel]
    dispatcher: Dispatcher
    environment: ToolEnvironment
    models: Models
    prompt: SystemPrompt
    checkpoints: CheckpointStore
    flush: Flush
    journal: Journal
    forgetting: Forgetting
    retention: Retention
    questions: Questions
    approvals: StandingApprovals
    settings: Settings
    spending: Spending
    transcriber: Transcriber | None = None
    hooks: Hooks = field(default_factory=Hooks)
    command_port: CommandPort = field(default_factory=CommandPort)
    config_file: Path | None = None
    """The configuration file, which need not exist yet; None if unknown."""
