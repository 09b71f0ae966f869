"""The paths under `/v1`: the caller is settled here, then the body's request, then the form of the answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from http import HTTPStatus

from aiohttp import web

from goclaw.channels.base import Handler, PathRule
from goclaw.common.config.listening import OPENAI as PREFIX
from goclaw.errors import ToolError
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.downloads import file_response
from goclaw.gateway.servers.event_stream import EventStream
from goclaw.gateway.servers.http import HEADERS
from goclaw.gateway.servers.openai.answers import Completion, Form, Response, named_by, stream
from goclaw.gateway.servers.openai.asking import Answered, Asking, Wanted
from goclaw.gateway.servers.openai.errors import ApiError, bad_request, refusal_response
from goclaw.gateway.servers.openai.places import Models, Place, Places
from goclaw.gateway.servers.openai.reading import file_named_by
from goclaw.gateway.servers.openai.requests import ChatRequest, RequestT, ResponsesRequest, parse
from goclaw.gateway.servers.programs import Program, Programs
from goclaw.gateway.servers.routes import RoutePart, RoutePorts

log = logging.getLogger(__name__)

SESSION, IDEMPOTENCY_KEY = "X-GoClaw-Session", "Idempotency-Key"
MAX_BODY = 12 << 20
"""Bytes of a request: a conversation with some photographs."""
LARGE_BODY = 64 << 10
"""Bytes from which on a body is read in a thread."""
MAX_KEY = 255
_CODES = {HTTPStatus.UNAUTHORIZED: "invalid_api_key", HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded"}


class OpenAIRoutes:
    """The handlers. The listener calls them."""

    def __init__(self, ports: RoutePorts) -> None:
        self._ports = ports
        self._programs = Programs(ports.admission, ports.access, ports.audit, ports.clock)
        self._places = Places(ports, self._programs)
        self._asking = Asking(ports, self._programs)
        self._models = Models(ports.config, ports.access, ports.clock.now())

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        """Return the routes with their handlers."""
        return [
            ("GET", f"{PREFIX}models", partial(self._handle, self._list)),
            ("GET", f"{PREFIX}models/{{name}}", partial(self._handle, self._one)),
            ("POST", f"{PREFIX}chat/completions", partial(self._handle, self._complete)),
            ("POST", f"{PREFIX}responses", partial(self._handle, self._respond)),
            ("GET", f"{PREFIX}files/{{name}}/content", partial(self._handle, self._content)),
        ]

    async def _handle(
        self, handler: Callable[[web.Request, Program], Awaitable[web.StreamResponse]], request: web.Request
    ) -> web.StreamResponse:
        """Admit the caller, and answer errors in the protocol's shape."""
        try:
            if request.query_string:
                raise bad_request(
                    "query parameters are not supported; put a token in the Authorization header", code="no_query"
                )
            program = await self._programs.admit(request)
            with self._programs.count(program):
                return await handler(request, program)
        except NotAdmitted as refusal:
            code = _CODES.get(refusal.status)
            return ApiError(refusal.status, str(refusal), code=code, headers=refusal.headers).response()
        except ApiError as error:
            return error.response()

    async def _list(self, _: web.Request, program: Program) -> web.StreamResponse:
        listed = {"object": "list", "data": self._models.list_entries(program.actor)}
        return web.json_response(listed, headers=HEADERS)

    async def _one(self, request: web.Request, program: Program) -> web.StreamResponse:
        return web.json_response(self._models.one(program.actor, request.match_info["name"]), headers=HEADERS)

    async def _content(self, request: web.Request, program: Program) -> web.StreamResponse:
        """Return a file that an answer has a link to."""
        identity = request.match_info["name"]
        session, blob = file_named_by(identity)
        name = None
        if session and self._places.may_read(program, session):
            name = await self._ports.gateway.media_name(session, blob)
        if name is not None:
            with suppress(ToolError):  # it was deleted
                return await file_response(await self._ports.environment.blobs.get(blob), name, blob)
        raise ApiError(HTTPStatus.NOT_FOUND, f"you have no file {identity[:100]!r}", code="file_not_found")

    async def _complete(self, request: web.Request, program: Program) -> web.StreamResponse:
        body = await self._body(request, ChatRequest)
        key, session = _header(request, IDEMPOTENCY_KEY), _header(request, SESSION)
        agent, asked = self._models.agent(program.actor, body.model), body.extract_question()
        if session:
            place, turn = await self._places.find_place(program, session, key)
        else:
            place, turn = self._places.fresh(program, key)
        include_usage = body.stream_options is not None and body.stream_options.include_usage
        form = Completion(turn, body.model, self._ports.clock.now(), include_usage=include_usage)
        return await self._reply(Wanted(request, program, place, turn, asked, agent, bool(body.stream)), form)

    async def _respond(self, request: web.Request, program: Program) -> web.StreamResponse:
        body = await self._body(request, ResponsesRequest)
        agent, asked = self._models.agent(program.actor, body.model), body.extract_question()
        place, turn = await self._place_of(request, program, body)
        form = Response(turn, place, body.model, self._ports.clock.now(), body.previous_response_id)
        return await self._reply(Wanted(request, program, place, turn, asked, agent, bool(body.stream)), form)

    async def _place_of(self, request: web.Request, program: Program, body: ResponsesRequest) -> tuple[Place, str]:
        """Return the session and the turn of a request to /v1/responses."""
        key, header = _header(request, IDEMPOTENCY_KEY), _header(request, SESSION)
        named = {"conversation": body.conversation_id, SESSION: header}
        wanted = {name: value for name, value in named.items() if value}
        if len(wanted) + bool(body.previous_response_id) > 1:
            raise bad_request(f"send one of `conversation`, `previous_response_id` and {SESSION}", "conversation")
        if wanted:
            ((name, session),) = wanted.items()
            return await self._places.find_place(program, session, key, name)
        if not body.previous_response_id:
            return self._places.fresh(program, key)
        return await self._after(program, body.previous_response_id, key)

    async def _after(self, program: Program, previous: str, key: str) -> tuple[Place, str]:
        """Return the session of an earlier response, and the turn of the request that goes on there."""
        param = "previous_response_id"
        before, session = named_by(previous)
        try:
            place, turn = await self._places.find_place(program, session, key, param)
        except ApiError:
            place, turn = None, ""
        last = await self._places.last_turn(place.session) if place else ""
        if place is None or not last:
            words = f"you have no response {previous[:100]!r}"
            raise ApiError(HTTPStatus.NOT_FOUND, words, param=param, code="previous_response_not_found")
        if last not in (before, turn):
            raise bad_request("its conversation has continued since; only the latest response can be continued", param)
        return place, turn

    async def _body(self, request: web.Request, kind: type[RequestT]) -> RequestT:
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body without a Content-Encoding")
        raw = await request.read()
        return await asyncio.to_thread(parse, kind, raw) if len(raw) > LARGE_BODY else parse(kind, raw)

    async def _reply(self, wanted: Wanted, form: Form) -> web.StreamResponse:
        headers = {SESSION: wanted.place.session} if wanted.place.is_kept else {}
        async with aclosing(self._asking.answer(wanted)) as pieces:
            if wanted.live:
                return await stream(EventStream(wanted.request, headers), form, pieces, self._ports.clock)
            said: list[str] = []
            async for piece in pieces:
                if isinstance(piece, Answered):
                    body = form.whole("".join(said), piece)
                    return web.json_response(body, headers={**HEADERS, **headers})
                said.append(piece.text)
        raise ConnectionResetError  # the caller is gone


def _header(request: web.Request, name: str) -> str:
    """Return the value of a header, or empty: two of them may be read as one by a proxy and as the other by us."""
    found = request.headers.getall(name, [])
    if len(found) > 1 or any(not each or len(each) > MAX_KEY or not each.isprintable() for each in found):
        raise bad_request(f"{name} should have one value of at most {MAX_KEY} printable characters", name)
    return found[0] if found else ""


OPENAI = RoutePart(lambda ports: OpenAIRoutes(ports).routes(), (PathRule(PREFIX, MAX_BODY, refusal_response),))
