"""The parts of the open daemon."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from goclaw.access import Access
from goclaw.alerts import AlertDesk
from goclaw.app.environment import Environment
from goclaw.app.sessions import SessionParts
from goclaw.bus import Bus
from goclaw.channels.base import Channel, Routes
from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.engine.journal import Journal
from goclaw.engine.lanes import Lanes
from goclaw.engine.outage import Outage
from goclaw.engine.outbox import Outbox
from goclaw.health.disk import DiskGauge
from goclaw.health.readiness import Probe
from goclaw.llm.base import ModelPorts
from goclaw.records import record
from goclaw.sessions.models import Models
from goclaw.sessions.stuck import StuckTurns
from goclaw.store.database import Database
from goclaw.toolkit.registry import Registry
from goclaw.toolkit.sources import Sources
from goclaw.users import Users


@dataclass(slots=True)
class McpState:
    """The state of the listener for MCP clients."""

    line: str = ""
    """A line for people; empty: nothing to report."""
    port: int = 0
    """The port it listens on; 0: none."""


@record
class Foundation:
    """The parts that all others use."""

    config: Config
    clock: Clock
    users: Users
    access: Access
    bus: Bus
    database: Database
    environment: Environment
    ports: ModelPorts
    disk: DiskGauge
    alerts: AlertDesk
    """Takes faults that need the operator."""
    routes: Routes
    """The routes of the HTTP listener beside its own pages."""
    vitals: Callable[[], Mapping[str, str]]
    """Lines that the process around adds to the status: name and text."""
    counts: Callable[[], Mapping[str, float]]
    """The same in numbers, for machines."""
    began: float
    """When the daemon began to open, by `Clock.awake_or_not`."""


@record
class App:
    """The running daemon, for the code that started it."""

    foundation: Foundation
    channels: Mapping[str, Channel]
    models: Models
    registry: Registry
    sources: Sources
    """The sources of the registry's tools, and their faults."""
    sessions: SessionParts
    journal: Journal
    engine: Lanes
    outbox: Outbox
    outage: Outage
    probe: Probe
    """Whether messages are taken now."""
    stuck: StuckTurns
    mcp_server: McpState = field(default_factory=McpState)
    """The state of the listener for MCP clients."""
