"""Who may read `/metrics`: an admin by access token; or, where only this machine is listened to, its programs."""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web

from goclaw.channels.base import Handler
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.listening import METRICS as PATH
from goclaw.common.config.listening import is_loopback
from goclaw.common.core.events import Actor
from goclaw.common.health.resources import DiskUse, resident_memory
from goclaw.durable.store.replicas import StoreUse
from goclaw.errors import StateError
from goclaw.gateway.servers.admission import NotAdmitted, shown_token
from goclaw.gateway.servers.connections import FORWARDING, network_of
from goclaw.gateway.servers.http import HEADERS
from goclaw.gateway.servers.metrics.counting import Counting
from goclaw.gateway.servers.metrics.families import CONTENT_TYPE, Measures, exposition
from goclaw.gateway.servers.routes import RoutePart, RoutePorts
from goclaw.gateway.servers.terminals import REMOTE_ENTRY


class MetricsPage:
    """Answers scrapes."""

    def __init__(self, ports: RoutePorts, counting: Counting) -> None:
        self._ports = ports
        self._counting = counting

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer with all metrics, or refuse."""
        if request.query_string:
            return web.Response(status=HTTPStatus.BAD_REQUEST)  # a token in an address ends up in logs
        secret = shown_token(request)
        if "Authorization" in request.headers or not self._is_local(request):
            try:
                await self._admit(secret, network_of(request.remote or ""))
            except NotAdmitted as refusal:
                return refusal.response()
        now = Measures(self._ports.gauges.counts(), resident_memory(), await self._disk(), await self._store())
        body = exposition(self._counting.counts, self._ports.gauges.outbox, now)
        return web.Response(body=body, headers={**HEADERS, "Content-Type": CONTENT_TYPE})

    async def _admit(self, secret: str, address: str) -> None:
        """Raise NotAdmitted unless the secret is an admin's."""
        _, token = await self._ports.admission.admit(secret, address)
        actor = Actor(token.user, REMOTE_ENTRY)
        if not self._ports.access.is_admin(actor):
            self._ports.audit(AuditEntry("metrics.read", PATH, actor, allowed=False, rule="for admins"))
            raise NotAdmitted(HTTPStatus.FORBIDDEN, {}, "only admins may read the metrics")

    def _is_local(self, request: web.Request) -> bool:
        """Whether a program of this machine asks: by its own name, over no proxy, and none else could."""
        peer = request.transport.get_extra_info("peername") if request.transport else None
        named = urlsplit(f"//{request.host}").hostname or ""
        places = (self._ports.config.http.host, str(peer[0]) if peer else "", named)
        return all(map(is_loopback, places)) and not any(name in request.headers for name in FORWARDING)

    async def _disk(self) -> DiskUse | None:
        try:
            return await self._ports.gauges.disk.use()
        except (OSError, StateError):
            return None

    async def _store(self) -> StoreUse | None:
        try:
            return await self._ports.gauges.store_use()
        except StateError:
            return None


def routes(ports: RoutePorts) -> Sequence[tuple[str, str, Handler]]:
    """Begin to count, and return the route."""
    counting = Counting(ports.clock, ports.engine)
    counting.watch(ports.gauges.bus)
    ports.gauges.model_watches.append(counting)
    return [("GET", PATH, MetricsPage(ports, counting).answer)]


METRICS = RoutePart(routes)
