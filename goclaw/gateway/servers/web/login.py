"""The ways in for a browser: a token, a one-time link, or a code that a person approves elsewhere; and the way out."""

from http import HTTPStatus
from typing import Annotated, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goclaw.common.auth.web_logins import REQUEST_SECONDS, LetIn, LoginOver, LoginRefused, WebLogins
from goclaw.common.core.supervise import background
from goclaw.gateway.servers.admission import FailureLimits, Failures
from goclaw.gateway.servers.api.operations import JSON
from goclaw.gateway.servers.api.problems import Problem, bad_request
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import ENDING, HEADERS
from goclaw.gateway.servers.programs import Programs
from goclaw.gateway.servers.routes import RoutePorts
from goclaw.gateway.servers.web.cookies import DeviceCookies, demand_own_page
from goclaw.gateway.servers.web.devices import Devices, browser_of

MAX_BODY = 4_096
"""Bytes of a login's body."""
LINK_OVER = "this link has expired or was used; `goclaw web` creates a new one"
LOGINS = FailureLimits(failures=20)
"""Logins of one user with a token in a minute: each writes the file of tokens and a line of the audit log."""
CODES = FailureLimits(failures=20)
"""Codes that an address gets in a minute: each is shown to the owner."""
WAIT_SECONDS = 20.0
"""Seconds that a page's wait lasts at most; then it asks again."""

Secret = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._~+/=-]+$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LoginBody(_Body):
    """One of the two."""

    token: Secret | None = None
    link: Secret | None = None


class LinkBody(_Body):
    """The code of a link."""

    link: Secret


class CodeBody(_Body):
    """No fields."""


class WaitBody(_Body):
    """The secret that came with a code."""

    secret: Secret


BodyT = TypeVar("BodyT", bound=_Body)


class Logins:
    """The handlers, called by the listener; their errors are for `problems.respond`."""

    def __init__(self, ports: RoutePorts, cookies: DeviceCookies, programs: Programs, logins: WebLogins) -> None:
        self._ports = ports
        self._cookies = cookies
        self._programs = programs
        self._logins = logins
        self._codes = Failures(CODES, ports.clock)
        self._by_token = Failures(LOGINS, ports.clock)
        self._devices = Devices(ports, cookies, programs)

    async def login(self, request: web.Request) -> web.Response:
        """Answer `POST /web/login`: with a token or a link."""
        body = await self._body_of(request, LoginBody)
        if (body.token is None) == (body.link is None):
            raise bad_request("give `token` or `link`")
        network = network_of(request.remote or "")
        if body.link is not None:
            let_in = await self._logins.follow(body.link)
            if let_in is None:
                raise self._ports.admission.refuse(network, LINK_OVER)
            return self._devices.answer(request, await self._devices.make(request, let_in))
        name, token = await self._ports.admission.admit(body.token or "", network)
        _limit(self._by_token, LOGINS, token.user, "too many sign-ins by this user; wait a minute")
        return self._devices.answer(
            request, await self._devices.make(request, LetIn(token.user, False, f"token {name}"), token)
        )

    async def link(self, request: web.Request) -> web.Response:
        """Answer `POST /web/login/link`: as whom a link logs in, so that a person decides before it does."""
        body = await self._body_of(request, LinkBody)
        let_in = await self._logins.peek(body.link)
        if let_in is None:
            raise self._ports.admission.refuse(network_of(request.remote or ""), LINK_OVER)
        name = self._devices.name_of(let_in.user, is_owner=let_in.owner)
        shown = {"person": let_in.user, "name": name, "owner": let_in.owner}
        return web.json_response(shown, headers=HEADERS)

    async def code(self, request: web.Request) -> web.Response:
        """Answer `POST /web/login/code`: a code for people, and a secret to wait with."""
        await self._body_of(request, CodeBody)
        address = request.remote or ""
        network = network_of(address)
        _limit(self._codes, CODES, network, "too many codes from this address; wait a minute")
        try:
            code, secret = await self._logins.ask(
                browser_of(request), address, network, is_here=self._cookies.is_here(request)
            )
        except LoginRefused as refused:
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, str(refused), headers={"Retry-After": "60"}) from None
        return web.json_response({"code": code, "secret": secret, "seconds": int(REQUEST_SECONDS)}, headers=HEADERS)

    async def wait(self, request: web.Request) -> web.Response:
        """Answer `POST /web/login/wait`: when the code is approved, denied or over; or after `WAIT_SECONDS`."""
        body = await self._body_of(request, WaitBody)
        try:
            async with background(self._wake_at_end(request), "end of a page's wait"):
                let_in = await self._logins.wait(body.secret, WAIT_SECONDS)
        except LoginOver:
            raise Problem(HTTPStatus.GONE, "this code has expired or was refused; get a new one on the page") from None
        if let_in is None:
            return web.json_response({}, status=HTTPStatus.ACCEPTED, headers=HEADERS)
        return self._devices.answer(request, await self._devices.make(request, let_in))

    async def _wake_at_end(self, request: web.Request) -> None:
        """End the waits when the listener ends: the page asks the next daemon."""
        await request.app[ENDING].wait()
        self._logins.wake()

    async def me(self, request: web.Request) -> web.Response:
        """Answer `GET /web/me`; nothing where the browser is not logged in."""
        secret = self._cookies.secret_in(request)
        if not secret:
            # No failed try, and no error in the browser's console: every page begins so.
            return web.Response(status=HTTPStatus.NO_CONTENT, headers=HEADERS)
        return web.json_response(self._devices.me(await self._programs.admit(request), secret), headers=HEADERS)

    async def logout(self, request: web.Request) -> web.Response:
        """Answer `POST /web/logout`."""
        program = await self._programs.admit(request)
        await self._devices.end(program.name, "web.logout", program.actor, request)
        response = web.Response(status=HTTPStatus.NO_CONTENT, headers=HEADERS)
        self._cookies.remove(request, response)
        return response

    async def _body_of(self, request: web.Request, kind: type[BodyT]) -> BodyT:
        """Return the body of a login, which must come from our own page and over a private way."""
        demand_own_page(request)
        if not self._cookies.is_private(request):
            words = "sign in over https (docs/web-page.md): others could read this connection"
            raise Problem(HTTPStatus.FORBIDDEN, words)
        if request.content_type != JSON:
            # A form of another page can send no such body.
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send the body as {JSON}")
        try:
            return kind.model_validate_json(await request.read())
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            raise bad_request(f"the body cannot be used: {first['msg']}") from None


def _limit(attempts: Failures, bound: FailureLimits, key: str, words: str) -> None:
    """Count an attempt of `key`. Raises Problem (429) with these words: there were too many."""
    times, seconds = attempts.note(key)
    if times > bound.failures:
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, words, headers={"Retry-After": str(int(seconds) + 1)})
