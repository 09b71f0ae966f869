"""Routes of the daemon's listener beside its own pages; loaded through the catalogue where configured."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from goclaw.auth.access import Access
from goclaw.auth.audit import AuditEntry
from goclaw.auth.users import Users
from goclaw.auth.web_logins import WebLogins
from goclaw.channels.base import Handler, PathRule
from goclaw.config.schema import Config
from goclaw.core.bus import Bus
from goclaw.core.clock import Clock
from goclaw.core.events import Actor, QuestionAsked
from goclaw.core.records import record
from goclaw.engine.base import Engine
from goclaw.engine.outbox import Outbox
from goclaw.health.resources import DiskGauge
from goclaw.health.samples import Samples
from goclaw.llm.base import ModelWatch
from goclaw.schedules.requests import Schedules
from goclaw.servers.admission import Admission
from goclaw.servers.programs import Cookies
from goclaw.servers.serving import ServingGateway
from goclaw.store.blobs import Blobs
from goclaw.store.spending import Spending

if TYPE_CHECKING:
    from goclaw.store.replicas import StoreUse


@record
class RoutePorts:
    """The services that such routes use."""

    config: Config
    clock: Clock
    access: Access
    users: Users
    engine: Engine
    schedules: Schedules
    gateway: ServingGateway
    admission: Admission
    """Authenticates programs by their access tokens."""
    audit: Callable[[AuditEntry], None]
    bus: Bus
    outbox: Outbox
    disk: DiskGauge
    store_use: Callable[[], Awaitable["StoreUse | None"]]
    """Returns which gateways use the store; None where it is one alone."""
    counts: Callable[[], Mapping[str, float]]
    """The daemon's vital signs in numbers (`Vitals.counts`)."""
    model_watches: list[ModelWatch]
    """Told of each request to a model."""
    blobs: Blobs
    spending: Spending
    answerable: Callable[[Actor], Awaitable[Sequence[QuestionAsked]]]
    """Returns the open questions that an actor may answer now, in all sessions."""
    config_file: Path | None
    """The configuration file, which need not exist yet; None: unknown."""
    logins: WebLogins | None = None
    """Pages that ask to be let in, and links that let in; None: there is no web page."""
    samples: Samples | None = None
    """What plots of the daemon's state show; None: no samples are taken."""
    cookies: Cookies | None = None
    """The cookies of the web page; None: there is no web page."""


@record
class RoutePart:
    """An entry of the catalogue."""

    routes: Callable[[RoutePorts], Sequence[tuple[str, str, Handler]]]
    """Returns method, path and handler of each route; raises ConfigError for what cannot be used."""
    rules: Sequence[PathRule] = ()
