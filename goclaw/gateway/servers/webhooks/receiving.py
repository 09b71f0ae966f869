"""The way of a call: from its head, which is looked at first, to a message or a task on disk."""

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import orjson
from aiohttp import web

from goclaw.channels.base import Handler
from goclaw.common.auth.access import own_session
from goclaw.common.config.webhooks import HOOKS, IncomingWebhook
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, Actor, Address, Inbound, Unattended, session_of_agent
from goclaw.common.core.messages import Foreign
from goclaw.conversation.schedules.quiet_hours import send_to_chat
from goclaw.errors import ConfigError, StateError
from goclaw.gateway.servers.admission import FailureLimits, Failures
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import HEADERS
from goclaw.gateway.servers.routes import RoutePart, RoutePorts
from goclaw.gateway.servers.webhooks.credentials import (
    GITHUB_EVENT,
    GITHUB_ID,
    IDEMPOTENCY_KEY,
    CallFault,
    Headers,
    call_id,
    proof_in,
)
from goclaw.gateway.servers.webhooks.template import Template, TemplateFault

log = logging.getLogger(__name__)

ENTRY = "webhook"
"""The way in, as `Actor.entry` names it."""
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 10_000
"""Addresses whose calls are counted at a time."""
RETRY_SECONDS = 30
"""After which a caller may try again what could not be taken."""
SHOWN_HEADERS = (
    *("Content-Type", "User-Agent", GITHUB_EVENT, GITHUB_ID, IDEMPOTENCY_KEY),
    *("X-GitLab-Event", "X-Gitea-Event", "X-Event-Key"),
)
"""Headers that every template may use."""


class Webhook:
    """One entry of `webhooks`. The listener calls `receive`."""

    def __init__(self, name: str, hook: IncomingWebhook, ports: RoutePorts) -> None:
        """Compile the template.

        Raises:
            ConfigError: it is not valid.
        """
        self.name = name
        self._hook = hook
        self._ports = ports
        self._calls = Failures(FailureLimits(hook.per_minute, WINDOW_SECONDS, MAX_ADDRESSES), ports.clock)
        self._template = template_of(name, hook, ports.clock)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Handle one call; 202 says that its result is on disk."""
        try:
            proof = proof_in(self._hook, request.headers, self._ports.clock.now())
        except CallFault as fault:
            return _refusal(HTTPStatus.UNAUTHORIZED, str(fault))
        calls, seconds = self._calls.note(network_of(request.remote or ""))
        if calls > self._hook.per_minute:
            return _refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many calls", int(seconds) + 1)
        secret = self._hook.secret.get_secret_value()
        if not proof.signs_body and not proof.fits(secret):
            return self._not_right(request)
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return _refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body without a Content-Encoding")
        raw = await request.read()
        if proof.signs_body and not proof.fits(secret, raw):
            return self._not_right(request)
        if self._hook.hmac == "github" and request.headers.get(GITHUB_EVENT) == "ping":
            return _respond(HTTPStatus.OK, "pong")
        try:
            return await self._receive(raw, request.headers)
        except CallFault as fault:
            return _refusal(HTTPStatus.BAD_REQUEST, str(fault))
        except TemplateFault as fault:
            log.warning("webhook %s: its template does not fit a call: %s", self.name, fault)
            return _refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(fault))
        except StateError as error:
            log.warning("webhook %s: a call could not be stored; its caller may repeat it: %s", self.name, error)
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "not now", RETRY_SECONDS)

    def _not_right(self, request: web.Request) -> web.StreamResponse:
        log.warning("webhook %s: a call from %s has a wrong secret", self.name, request.remote)
        return _refusal(HTTPStatus.UNAUTHORIZED, "the secret or signature is wrong")

    async def _receive(self, raw: bytes, headers: Headers) -> web.StreamResponse:
        body, text, foreign = await asyncio.to_thread(self._parse_body, raw, shown_headers(self._hook, headers))
        if not text:
            return _respond(HTTPStatus.OK, "nothing to do")
        if self._ports.users.get(self._hook.user) is None:
            log.warning("webhook %s: its user %s is not in users.json", self.name, self._hook.user)
            return _refusal(HTTPStatus.FORBIDDEN, "the user of this webhook has no access")
        named = call_id(self._hook, headers, raw, body) or uuid.uuid4().hex
        inbound = self._inbound(f"webhook:{self.name}:{named}", text, foreign)
        waiting = (await self._ports.engine.queue(inbound.session)).waiting
        if waiting >= self._ports.config.limits.queued_messages:
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many messages are waiting", RETRY_SECONDS)
        if self._hook.task is None:
            way = self._ports.schedules.scheduler.quiet.way(inbound.actor.key, inbound.address)
            is_new = await send_to_chat(inbound, self._ports.engine.submit, way)
        else:
            is_new = await self._ports.engine.submit(inbound)
        log.info("webhook %s: a call was %s", self.name, "taken" if is_new else "known", extra={"turn": inbound.id})
        return _respond(HTTPStatus.ACCEPTED, "accepted") if is_new else _respond(HTTPStatus.OK, "duplicate")

    def _parse_body(self, raw: bytes, headers: Mapping[str, str]) -> tuple[object, str, tuple[Foreign, ...]]:
        try:
            body: object = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise CallFault("the body is not JSON; set the content type application/json") from None
        return body, *self._template.render(body, headers, f"{ENTRY} {self.name}")

    def _inbound(self, identity: str, text: str, foreign: tuple[Foreign, ...]) -> Inbound:
        hook, now = self._hook, self._ports.clock.now()
        # A terminal reads its session.
        address = Address(LOCAL, "") if hook.address.channel == "tui" else hook.address
        actor = Actor(hook.user, ENTRY, name=f"{ENTRY} {self.name}")
        unattended = Unattended(
            0,
            f"{ENTRY} {self.name}",
            now,
            ask=hook.ask,
            agent=hook.agent,
            model=hook.model or "",
            tools=hook.tools,
            budget=hook.budget,
            seconds=hook.seconds,
        )
        session = self._session(actor, identity)
        return Inbound(*(identity, actor, session, text, address, now), foreign=foreign, unattended=unattended)

    def _session(self, actor: Actor, identity: str) -> str:
        """Return the session of a call: for a task one of its own, unless the configuration names another."""
        home = self._ports.access.session_for(actor, own_session(actor.key))
        if self._hook.task is None or self._hook.session == "same":
            return home
        if self._hook.session != "fresh":
            return self._hook.session
        return session_of_agent(home, f"{self.name}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}")


def template_of(name: str, hook: IncomingWebhook, clock: Clock) -> Template:
    """Return the template of a webhook. Raises ConfigError when it is not valid."""
    kind, text = ("message", hook.message) if hook.task is None else ("task", hook.task)
    try:
        return Template(text or "", clock.monotonic)
    except TemplateFault as fault:
        raise ConfigError(f"webhooks.{name}.{kind}: {fault}") from None


def shown_headers(hook: IncomingWebhook, headers: Headers) -> Mapping[str, str]:
    """Return the headers that a template may use, as it names them: `headers.x_github_event`."""
    wanted = (*SHOWN_HEADERS, *hook.headers, *filter(None, [hook.id_header]))
    return {name.lower().replace("-", "_"): headers[name] for name in wanted if name in headers}


def _respond(status: HTTPStatus, word: str) -> web.StreamResponse:
    return web.json_response({"status": word}, status=status, headers=HEADERS)


def _refusal(status: HTTPStatus, why: str, retry_after: int = 0) -> web.StreamResponse:
    again = {"Retry-After": str(retry_after)} if retry_after else {}
    return web.json_response({"error": why}, status=status, headers={**HEADERS, **again})


def _routes(ports: RoutePorts) -> Sequence[tuple[str, str, Handler]]:
    """Return the route of every webhook; raises ConfigError for a template that is not valid."""
    made = [Webhook(name, hook, ports) for name, hook in ports.config.webhooks.items()]
    return [("POST", f"{HOOKS}{webhook.name}", webhook.receive) for webhook in made]


WEBHOOKS = RoutePart(_routes)
