"""A listener with the web page on the core of the daemon, and the browsers that open it."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from goclaw.channels.base import Routes
from goclaw.channels.processes import SoleProcess
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens
from goclaw.common.auth.users import User
from goclaw.common.auth.web_logins import LoginLimits, LoginRequest, WebLogins
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.health.readiness import Readiness
from goclaw.gateway.servers.http import open_http
from goclaw.gateway.servers.routes import RoutePart
from goclaw.tools.toolkit.base import Tool
from tests.gateway.servers import calling
from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.route_ports import route_ports
from tests.harness import Answer, Core, World

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
JSON = ("application/json", "application/problem+json")
PLAIN = {"Accept-Encoding": "identity"}
SECRET = re.compile(r"goclaw_[A-Za-z0-9_-]{43}")


def web_world(
    folder: Path,
    *answers: Answer,
    users: tuple[User, ...] = (ANN, BOB),
    given: Sequence[Tool] = (),
    http: Mapping[str, Any] | None = None,
    limits: LoginLimits | None = None,
    **config: Any,
) -> World:
    """A world with `http.web`."""
    world = calling.world_with("web", folder, *answers, users=users, given=given, http=http, **config)
    world.open_logins = lambda settings: WebLogins(
        *(world.clock, world.audited.append, Told(), settings, "sole", SoleProcess()), limits=limits or LoginLimits()
    )
    return world


class Told(list[LoginRequest]):
    """What the owner is shown."""

    def __call__(self, request: LoginRequest) -> None:
        self.append(request)


@dataclass(frozen=True)
class Heard(calling.Answered):
    """What a browser hears."""

    cookies: SimpleCookie = field(default_factory=SimpleCookie)

    @property
    def problem(self) -> str:
        """The words of a refusal, which is problem details."""
        assert self.headers["Content-Type"] == "application/problem+json", self.said
        assert self.said["status"] == self.status
        return str(self.said["detail"])


@dataclass
class Browser:
    """A browser with the page open; `headers` are those that it adds to every request by itself."""

    port: int
    host: str = "127.0.0.1"
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}" if self.is_here else self.host

    @property
    def origin(self) -> str:
        return f"{'http' if self.is_here else 'https'}://{self.address}"

    @property
    def is_here(self) -> bool:
        """Whether it calls the listener by a name of this machine; otherwise a proxy passes its requests on."""
        return self.host in ("127.0.0.1", "localhost")

    async def send(self, method: str, path: str, body: object = None, **headers: str) -> Heard:
        """Send what the page sends; `headers` with `_` for `-` over its own, an empty one is left out."""
        own = {"Host": self.address, "User-Agent": FIREFOX, "Sec-Fetch-Site": "same-origin", **PLAIN, **self.headers}
        if method != "GET":
            own |= {"Origin": self.origin, "Content-Type": "application/json", "X-CSRF-Token": self.csrf}
        if self.cookies:
            own["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        own = {name: value for name, value in own.items() if value}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as http,
            http.request(method, url, data=data, headers=own, allow_redirects=False) as response,
        ):
            raw = await response.read()
            said = json.loads(raw) if response.content_type in JSON and raw else raw
            heard = Heard(response.status, said, response.headers, response.cookies)
        self._keep(heard)
        return heard

    async def get(self, path: str, **headers: str) -> Heard:
        return await self.send("GET", path, **headers)

    async def post(self, path: str, body: object = None, **headers: str) -> Heard:
        return await self.send("POST", path, {} if body is None else body, **headers)

    async def login(self, **body: str) -> Mapping[str, Any]:
        """Log in, by `token` or `link`; returns who it is now."""
        heard = await self.post("/web/login", body)
        assert heard.status == 200, heard.said
        me: Mapping[str, Any] = heard.said
        return me

    def _keep(self, heard: Heard) -> None:
        """Do with cookies what browsers do; and know the CSRF token, as the page does."""
        for name, morsel in heard.cookies.items():
            self.cookies.pop(name, None)
            if morsel.value and morsel["max-age"] != "0":
                self.cookies[name] = morsel.value
        if heard.status == 200 and isinstance(heard.said, dict) and "csrf" in heard.said:
            self.csrf = heard.said["csrf"]


@dataclass
class Pages(calling.Service):
    """The listener, as browsers and programs reach it."""

    def browser(self, host: str = "127.0.0.1", **headers: str) -> Browser:
        """A new browser without cookies."""
        return Browser(self.port, host, {name.replace("_", "-"): value for name, value in headers.items()})

    async def entered(self, user: str = ANN.key) -> Browser:
        """A browser that is logged in as this user."""
        browser = self.browser()
        await browser.login(token=self.secret(user))
        return browser

    @property
    def logins(self) -> WebLogins:
        assert self.world.logins is not None
        return self.world.logins

    @property
    def told(self) -> Sequence[LoginRequest]:
        """What the owner was shown of pages that ask."""
        assert isinstance(self.logins.tell, Told)
        return self.logins.tell

    def noted(self, action: str) -> list[AuditEntry]:
        """What the audit log says of an action."""
        return [entry for entry in (*self.audited, *self.world.audited) if entry.action == action]


@asynccontextmanager
async def serving_pages(world: World, core: Core) -> AsyncIterator[Pages]:
    """Serve the page and the API as the daemon does."""
    tokens = Tokens(world.config.tokens_path, world.clock)
    await tokens.refresh()
    audited: list[AuditEntry] = []
    ports = route_ports(world, core, tokens, audited)
    routes = Routes()
    for name in ("api", "web"):
        part = load(catalog.ROUTES[name], RoutePart)
        routes.added.extend(part.routes(ports))
        routes.rules.extend(part.rules)

    async def ready() -> Readiness:
        return Readiness()

    async with open_http(world.config, routes, ready) as server:
        yield Pages(world, core, server.port, tokens, audited)
