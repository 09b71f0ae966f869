"""The paths under `/api/v1`: admits the caller, reads the request, and writes the answer; all by the table."""

from collections.abc import Sequence
from functools import partial

from aiohttp import web

from goclaw.channels.base import Handler, PathRule
from goclaw.common.config.listening import API as PREFIX
from goclaw.common.core.wire import MAX_FRAME
from goclaw.durable.store.uploads import Uploads
from goclaw.gateway.servers.api.files import MAX_FILE, UPLOAD_SECONDS
from goclaw.gateway.servers.api.operations import Answer, Call, Operation, Services
from goclaw.gateway.servers.api.problems import refusal_response, respond
from goclaw.gateway.servers.api.reading import fields_of
from goclaw.gateway.servers.api.table import OPERATIONS
from goclaw.gateway.servers.http import HEADERS
from goclaw.gateway.servers.programs import ProgramLimits, Programs
from goclaw.gateway.servers.routes import RoutePart, RoutePorts
from goclaw.gateway.servers.serving import IdempotencyCache

LIMITS = ProgramLimits(at_once=32, per_minute=600)

for _each in OPERATIONS:
    _each.adapter  # noqa: B018 - made while the module is loaded in a thread: it takes long


class ApiRoutes:
    """The handlers. The listener calls them."""

    def __init__(self, ports: RoutePorts, limits: ProgramLimits = LIMITS) -> None:
        cookies = ports.web.cookies if ports.web else None
        programs = Programs(ports.admission, ports.access, ports.audit, ports.clock, limits, "session.read", cookies)
        uploads = Uploads(ports.config.state_dir / "blobs" / "uploads", ports.environment.blobs, ports.clock)
        self._services = Services(ports, programs, IdempotencyCache(), uploads)

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        """Return the routes with their handlers."""
        return [
            (each.method, f"{PREFIX.rstrip('/')}{each.path}", partial(respond, partial(self._answer, each)))
            for each in OPERATIONS
        ]

    async def _answer(self, operation: Operation, request: web.Request) -> web.StreamResponse:
        program = await self._services.programs.admit(request)
        with self._services.programs.count(program):
            return await self._run(operation, Call(self._services, program, request))

    async def _run(self, operation: Operation, call: Call) -> web.StreamResponse:
        if operation.admins_only:
            call.demand_admin()
        found = await operation.handler(call, await fields_of(operation, call.request))
        if isinstance(found, web.StreamResponse):
            return found
        answer = found if isinstance(found, Answer) else Answer(operation.status, found)
        if operation.response is None:
            return web.Response(status=answer.status, headers=HEADERS)
        head = {**HEADERS, "Content-Type": operation.reply.media_type}
        return web.Response(body=operation.adapter.dump_json(answer.body), status=answer.status, headers=head)


_RULES = (
    PathRule(PREFIX, MAX_FILE, refusal_response, suffix="/files", body_seconds=UPLOAD_SECONDS),
    PathRule(PREFIX, MAX_FRAME, refusal_response),
)
API = RoutePart(lambda ports: ApiRoutes(ports).routes(), _RULES)
