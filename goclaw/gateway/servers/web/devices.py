"""Devices: browsers that are logged in. Makes and ends them, and says to the page who it is."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web

import goclaw
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Token, add_device, revoke_token
from goclaw.common.auth.web_logins import LetIn
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.api.problems import Problem
from goclaw.gateway.servers.http import HEADERS
from goclaw.gateway.servers.programs import DEVICE_ENTRY, Program, Programs, actor_of
from goclaw.gateway.servers.routes import RoutePorts
from goclaw.gateway.servers.web.cookies import DeviceCookies, csrf_of

DEVICE_SECONDS = 30 * 24 * 3600.0
"""Seconds for which a browser stays logged in at most."""
OWNER_NAME = "the owner of this computer"
"""The name of the owner where users.json gives none."""
_BROWSERS: Sequence[tuple[str, str]] = (
    (r"\bEdgA?/", "Edge"),
    (r"\bOPR/", "Opera"),
    (r"\bSamsungBrowser/", "Samsung Internet"),
    (r"\bFirefox/|\bFxiOS/", "Firefox"),
    (r"\bChrome/|\bChromium/|\bCriOS/", "Chrome"),
    (r"\bSafari/", "Safari"),
)
_SYSTEMS: Sequence[tuple[str, str]] = (
    (r"\biPhone\b", "iPhone"),
    (r"\biPad\b", "iPad"),
    (r"\bAndroid\b", "Android"),
    (r"\bWindows\b", "Windows"),
    (r"\bMac OS X\b|\bMacintosh\b", "macOS"),
    (r"\bCrOS\b", "ChromeOS"),
    (r"\bLinux\b", "Linux"),
)


@record
class NewDevice:
    """A browser that has just been let in."""

    program: Program
    secret: str


class Devices:
    """The devices of one daemon."""

    def __init__(self, ports: RoutePorts, cookies: DeviceCookies, programs: Programs) -> None:
        self._ports = ports
        self._cookies = cookies
        self._programs = programs
        self._path = ports.config.tokens_path
        self._writer = file_writer(ports.config)

    async def make(self, request: web.Request, let_in: LetIn, parent: Token | None = None) -> NewDevice:
        """Let a browser in. The device that it was before ends: no secret from before a login is good after it.

        `parent`: the token that was shown, with which the device ends.

        Raises:
            NotAdmitted: 403, the user has no rights.
            Problem: 503, the file of tokens cannot be written.
        """
        now = self._ports.clock.now()
        until = now + DEVICE_SECONDS
        if parent and parent.until is not None:
            until = min(until, parent.until)
        # Not an `Actor` of the token: it does not exist yet, and must not for a user without rights.
        actor = Actor(let_in.user, DEVICE_ENTRY, owner=let_in.owner, name=let_in.user)
        if rule := self._programs.missing_right(actor):
            self._ports.audit(AuditEntry("web.login", "", actor, request.remote or "", allowed=False, rule=rule))
            raise NotAdmitted(HTTPStatus.FORBIDDEN, {}, f"this user may not sign in: {rule}")
        before = await self._now(request)
        name, secret = await self._write(request, let_in, until, parent)
        token = self._ports.admission.tokens.get(name)
        if token is None:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "the sign-in was removed at once; try again")
        if before:
            await self.end(before, "web.logout", actor, request)
        entry = AuditEntry("web.login", name, actor, request.remote or "", rule=let_in.how, detail=token.device)
        self._ports.audit(entry)
        return NewDevice(Program(name, token, actor_of(token)), secret)

    async def end(self, name: str, action: str, actor: Actor, request: web.Request) -> None:
        """End a device; one that is gone already has ended."""
        try:
            await asyncio.to_thread(revoke_token, self._path, name, self._writer)
        except ConfigError as error:
            if self._ports.admission.tokens.get(name):
                raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(error.problems)) from error
        await self._ports.admission.tokens.refresh()
        self._ports.audit(AuditEntry(action, name, actor, request.remote or "", rule="own device", result="ok"))

    def me(self, program: Program, secret: str) -> Mapping[str, Any]:
        """Return the data that the page needs about its user."""
        return {
            "person": program.actor.key,
            "name": self.name_of(program.actor.key, is_owner=program.actor.owner),
            "admin": self._ports.gateway.oversees(program.actor),
            "session": self._programs.home(program.actor),
            "csrf": csrf_of(secret),
            "device": program.name,
            "until": program.token.until,
            "version": goclaw.__version__,
        }

    def name_of(self, key: str, *, is_owner: bool) -> str:
        """Return the name of a person to show to people: as in users.json, where an admin wrote it."""
        user = self._ports.users.get(key)
        return (user and user.name) or (OWNER_NAME if is_owner else key.partition(":")[2])

    def answer(self, request: web.Request, made: NewDevice) -> web.Response:
        """Return the answer to a login: who the page is, and its cookie."""
        response = web.json_response(self.me(made.program, made.secret), headers=HEADERS)
        until = made.program.token.until
        seconds = DEVICE_SECONDS if until is None else max(0.0, until - self._ports.clock.now())
        self._cookies.put(request, response, made.secret, seconds)
        return response

    async def _now(self, request: web.Request) -> str:
        """Return the device that a browser is until now; empty: none."""
        secret = self._cookies.secret_in(request)
        tokens = self._ports.admission.tokens
        name = await tokens.find_new(secret) if secret else ""
        token = tokens.get(name)
        return name if token and token.device else ""

    async def _write(self, request: web.Request, let_in: LetIn, until: float, parent: Token | None) -> tuple[str, str]:
        try:
            made = await asyncio.to_thread(
                add_device,
                self._path,
                let_in.user,
                browser_of(request),
                self._ports.clock.now(),
                until,
                owner=let_in.owner,
                parent=parent.sha256 if parent else None,
                writer=self._writer,
            )
        except ConfigError as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(error.problems)) from error
        await self._ports.admission.tokens.refresh()
        return made


def browser_of(request: web.Request) -> str:
    """Return the kind of a browser in words of ours: nothing that its user agent says is repeated."""
    said = request.headers.get("User-Agent", "")
    browser = next((name for pattern, name in _BROWSERS if re.search(pattern, said)), "another program")
    system = next((name for pattern, name in _SYSTEMS if re.search(pattern, said)), "")
    return f"{browser} on {system}" if system else browser
