"""The services of routes on a listener, of a running core."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens
from goclaw.common.config.load import CONFIG_FILE
from goclaw.common.health.resources import DiskGauge
from goclaw.common.health.samples import Samples
from goclaw.gateway.servers.admission import Admission
from goclaw.gateway.servers.routes import Gauges, RoutePorts, WebSignIn
from goclaw.gateway.servers.terminals import REMOTE_ENTRY
from goclaw.gateway.servers.web.cookies import DeviceCookies
from goclaw.llm.base import ModelWatch
from tests.harness import Core, World


def route_ports(
    world: World,
    core: Core,
    tokens: Tokens,
    audited: list[AuditEntry],
    *,
    counts: Callable[[], Mapping[str, float]] = dict,
    model_watches: list[ModelWatch] | None = None,
    samples: Samples | None = None,
) -> RoutePorts:
    """Return the ports that the daemon would give; what is audited goes to `audited`."""
    sessions = core.sessions
    environment: Any = sessions.ports.environment
    return RoutePorts(
        environment=replace(environment, audited=audited),
        access=sessions.access,
        users=world.users,
        engine=core.engine,
        schedules=core.schedules,
        gateway=core.gateway,
        admission=Admission(tokens, world.clock, audited.append, REMOTE_ENTRY),
        gauges=Gauges(
            spending=sessions.ports.store.spending,
            bus=core.bus,
            outbox=core.outbox,
            disk=DiskGauge(world.config, world.clock),
            store_use=core.database.use,
            counts=counts,
            samples=samples,
            model_watches=[] if model_watches is None else model_watches,
        ),
        config_file=world.config.state_dir / CONFIG_FILE,
        web=WebSignIn(world.logins, DeviceCookies(world.config)) if world.logins and world.config.http.web else None,
    )
