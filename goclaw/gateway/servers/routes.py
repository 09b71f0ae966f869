"""Routes of the daemon's listener in addition to its own pages; loaded through the catalogue where configured."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from goclaw.channels.base import Handler, PathRule
from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import Users
from goclaw.common.auth.web_logins import WebLogins
from goclaw.common.config.schema import Config
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.health.resources import DiskGauge
from goclaw.common.health.samples import Samples
from goclaw.conversation.schedules.requests import Schedules
from goclaw.durable.engine.base import Engine
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.spending import Spending
from goclaw.gateway.servers.admission import Admission
from goclaw.gateway.servers.programs import Cookies
from goclaw.gateway.servers.serving import ServingGateway
from goclaw.llm.base import ModelWatch
from goclaw.tools.toolkit.base import ToolEnvironment

if TYPE_CHECKING:
    from goclaw.durable.store.replicas import StoreUse


@record
class WebSignIn:
    """How browsers sign in to the web page."""

    logins: WebLogins
    """Pages that ask to be let in, and links that let in."""
    cookies: Cookies


@record
class Gauges:
    """The sources of metrics, plots and reports of cost."""

    spending: Spending
    bus: Bus
    outbox: Outbox
    disk: DiskGauge
    store_use: Callable[[], Awaitable["StoreUse | None"]]
    """Returns which gateways use the store; None where it is one alone."""
    counts: Callable[[], Mapping[str, float]]
    """The daemon's vital signs in numbers (`Vitals.counts`)."""
    model_watches: list[ModelWatch]
    """Told of each request to a model."""
    samples: Samples | None = None
    """What plots of the daemon's state show; None: no samples are taken."""


@record
class RoutePorts:
    """The services that such routes use."""

    environment: ToolEnvironment
    access: Access
    users: Users
    engine: Engine
    schedules: Schedules
    gateway: ServingGateway
    admission: Admission
    """Authenticates programs by their access tokens."""
    gauges: Gauges
    config_file: Path | None
    """The configuration file, which need not exist yet; None: unknown."""
    web: WebSignIn | None = None
    """None: there is no web page."""

    @property
    def config(self) -> Config:
        return self.environment.config

    @property
    def audit(self) -> Callable[[AuditEntry], None]:
        return self.environment.audit

    @property
    def clock(self) -> Clock:
        return self.environment.clock


@record
class RoutePart:
    """An entry of the catalogue."""

    routes: Callable[[RoutePorts], Sequence[tuple[str, str, Handler]]]
    """Returns method, path and handler of each route; raises ConfigError for what cannot be used."""
    rules: Sequence[PathRule] = ()
