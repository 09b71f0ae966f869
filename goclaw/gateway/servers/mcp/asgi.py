"""Pass requests of our listener on to the MCP library, which speaks ASGI (asgi.readthedocs.io, version 3)."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from goclaw.gateway.servers.http import wait_until_lost
from goclaw.gateway.servers.mcp.guard import Answering, ClientRequest

Message = dict[str, Any]
Application = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
CALLER = "goclaw.caller"
"""Key in the scope of a request: its `ClientRequest`."""


def answer_by(application: Application) -> Answering:
    """Return a function that answers requests by an ASGI application."""

    async def answer(request: ClientRequest) -> web.StreamResponse:
        # The listener bounds its size and its time.
        exchange = _Exchange(request, await request.request.read())
        await application(_scope_of(request), exchange.receive, exchange.send)
        if request.response is not None:
            return request.response
        if request.request.transport is None or request.request.transport.is_closing():
            return web.Response()  # the library does not answer a caller who is gone
        raise RuntimeError("the MCP library gave no answer")

    return answer


def _scope_of(client: ClientRequest) -> Message:
    request, url = client.request, client.request.rel_url
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": request.scheme,
        "path": url.path,
        "raw_path": url.raw_path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": (request.remote or "", 0),
        "server": None,
        CALLER: client,
        # The library separates the sessions of its older protocol by this: each belongs to the user that opened it.
        "user": AuthenticatedUser(AccessToken(token="", client_id=client.name, scopes=[], subject=client.token.user)),
    }


class _Exchange:
    """A request and its answer as ASGI messages."""

    def __init__(self, client: ClientRequest, body: bytes) -> None:
        self._client = client
        self._body: bytes | None = body

    async def receive(self) -> Message:
        """Return the whole body first; then wait until the caller is gone."""
        if self._body is None:
            await wait_until_lost(self._client.request)
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        """Send the head or a part of the answer."""
        if message["type"] == "http.response.start":
            headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in message["headers"]}
            headers.pop("Server", None)
            await self._client.begin_response(message["status"], headers)
            return
        response = self._client.response
        if message["type"] != "http.response.body" or response is None:
            raise RuntimeError(f"{message['type']} is no part of an answer")
        if body := message.get("body", b""):
            await response.write(body)
        if not message.get("more_body", False):
            await response.write_eof()
