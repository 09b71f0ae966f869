"""The interface of the registry, version v1: reading, publishing and withdrawing, as JSON, on a listener of its own.

The first publisher of a name owns it; admins may withdraw everything. All changes are in the audit log, refused or not.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from goclaw.channels.base import Handler
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens
from goclaw.common.auth.users import Users
from goclaw.common.config.listening import is_loopback
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.core.redact import printable
from goclaw.errors import StateError
from goclaw.extensions.registries.base import Entry, EntryKind, entry_of
from goclaw.extensions.registries.catalog_store import FILE, CatalogFull, CatalogStore, ChangedEntry, ForeignName
from goclaw.extensions.registries.server.catalogue import PAGE_ENTRIES, Catalogue
from goclaw.extensions.registries.server.visitors import RegistryUser, RequestRefused, Visitors, refused
from goclaw.extensions.registries.syncing import ID
from goclaw.gateway.servers.http import HEADERS, MAX_LOGGED, Endpoint, ListenerLimits, guarded, open_listener

log = logging.getLogger(__name__)


VERSION = "v1"
ANSWER_SECONDS = 60.0
"""Maximum seconds for a caller to read its answer: a caller that reads nothing blocks two megabytes."""
_NO_ENTRY = "this registry has no such entry"
_STATUS: Mapping[type[StateError], HTTPStatus] = {
    ChangedEntry: HTTPStatus.CONFLICT,
    ForeignName: HTTPStatus.FORBIDDEN,
    CatalogFull: HTTPStatus.INSUFFICIENT_STORAGE,
}


class Pages:
    """The handlers. `about`: the registry's description of itself, its id and its name."""

    def __init__(
        self,
        about: Mapping[str, str],
        store: CatalogStore,
        catalogue: Catalogue,
        visitors: Visitors,
        clock: Clock,
        audit: Callable[[AuditEntry], None],
    ) -> None:
        self._about = about
        self._store = store
        self._catalogue = catalogue
        self._visitors = visitors
        self._clock = clock
        self._audit = audit

    def add_to(self, application: web.Application) -> None:
        """Add the handlers to an application."""
        versions = f"/{VERSION}/entries/{{kind}}/{{name}}/versions"
        pages: tuple[tuple[str, str, Handler], ...] = (
            ("GET", f"/{VERSION}/", self.about),
            ("GET", f"/{VERSION}", self.about),
            ("GET", f"/{VERSION}/entries", self.entries),
            ("GET", versions, self.versions),
            ("GET", f"{versions}/{{version}}", self.version),
            ("PUT", f"{versions}/{{version}}", self.publish),
            ("DELETE", f"{versions}/{{version}}", self.withdraw),
        )
        for method, path, page in pages:
            application.router.add_route(method, path, page)
        application.middlewares.append(self.answer)

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Send a handler's answer, within its time."""
        try:
            response = await handler(request)
        except RequestRefused as refusal:
            await _drain(request)
            response = refusal.response()
        except StateError as error:
            log.error("the registry cannot answer: %s", error)
            response = RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "this registry cannot answer now").response()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await response.prepare(request)
                await response.write_eof()
        except (TimeoutError, ConnectionError):
            if request.transport:
                request.transport.abort()
        return response

    async def about(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/`."""
        await self._visitors.reader(request)
        return _json({"registry": self._about, "api_version": VERSION})

    async def entries(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/entries`: a page of the catalogue. The first one has the ETag of the whole."""
        await self._visitors.reader(request)
        query = request.query
        kind, cursor, limit = query.get("kind", ""), query.get("cursor", ""), query.get("limit", str(PAGE_ENTRIES))
        if kind and kind not in set(EntryKind):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"`kind` should be one of {', '.join(EntryKind)}")
        if not (limit.isascii() and limit.isdigit() and len(limit) < 10):
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "`limit` should be a number")
        # Before the page: changes in between cause one more request, and are not overlooked.
        tag = "" if cursor else await asyncio.to_thread(self._catalogue.tag, kind)
        if tag and tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers={**HEADERS, "ETag": tag})
        try:
            page = await asyncio.to_thread(self._catalogue.page, kind, cursor, int(limit))
        except ValueError as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, str(error)) from None
        return _json({"registry": self._about, **page}, headers={"ETag": tag} if tag else {})

    async def versions(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/entries/{kind}/{name}/versions`."""
        await self._visitors.reader(request)
        found, complete = await asyncio.to_thread(
            self._catalogue.versions, request.match_info["kind"], request.match_info["name"]
        )
        if not found:
            raise RequestRefused(HTTPStatus.NOT_FOUND, _NO_ENTRY)
        return _json({"versions": found, "complete": complete})

    async def version(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/entries/{kind}/{name}/versions/{version}`, or `latest`."""
        await self._visitors.reader(request)
        found = await asyncio.to_thread(self._catalogue.version, *_address(request))
        if found is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, _NO_ENTRY)
        return _json(found)

    async def publish(self, request: web.Request) -> web.StreamResponse:
        """`PUT` the same address: store a version, forever unchanged."""
        self._visitors.may_change(await self._visitors.identify(request))
        body = await request.read()
        visitor = await self._visitors.identify(request)  # rights may have been removed while the body came

        def store_document() -> bool:
            return self._store.publish(_document(body, _address(request)), visitor.user, self._clock.now())

        is_new = await self._change("publish", visitor, request, store_document)
        return _json({}, HTTPStatus.CREATED if is_new else HTTPStatus.OK)

    async def withdraw(self, request: web.Request) -> web.StreamResponse:
        """`DELETE` it: it is not served any more."""
        visitor = await self._visitors.identify(request)
        self._visitors.may_change(visitor)
        kind, name, version = _address(request)

        def remove() -> bool:
            if kind not in set(EntryKind):
                return False
            by = None if visitor.is_admin else visitor.user
            return self._store.withdraw(EntryKind(kind), name, version, by)

        if not await self._change("withdraw", visitor, request, remove):
            raise RequestRefused(HTTPStatus.NOT_FOUND, _NO_ENTRY)
        return web.Response(status=HTTPStatus.NO_CONTENT, headers=HEADERS)

    async def _change(self, verb: str, visitor: RegistryUser, request: web.Request, work: Callable[[], bool]) -> bool:
        """Change the store, if allowed, and record in the audit log who did or tried it. Raises `RequestRefused`."""
        outcome, what = await _outcome(visitor, work), " ".join(_address(request))
        refusal = outcome if isinstance(outcome, RequestRefused) else None
        result = "done" if outcome else "nothing to do"
        self._audit(
            AuditEntry(
                f"registry.{verb}",
                what,
                visitor.actor,
                visitor.address,
                allowed=refusal is None or refusal.status != HTTPStatus.FORBIDDEN,
                rule=f"token {visitor.token}{f', {visitor.publishes}' if visitor.publishes else ''}",
                result="refused" if refusal else result,
                detail=str(refusal or ""),
            )
        )
        shown = " ".join(printable(f"{verb} {what}").split())[:MAX_LOGGED]
        log.info("%s with the token %s: %s: %s", visitor.user, visitor.token, shown, refusal or result)
        if isinstance(outcome, RequestRefused):
            self._visitors.count_refusal(visitor)
            raise outcome
        return outcome


async def _outcome(visitor: RegistryUser, work: Callable[[], bool]) -> bool | RequestRefused:
    """Run the change in a thread: return whether something has changed, or why it is refused."""
    if not visitor.publishes:
        words = "this user may not publish here; only admins and the users in `registry_server.publishers` may"
        return RequestRefused(HTTPStatus.FORBIDDEN, words)
    try:
        return await asyncio.to_thread(work)
    except ValueError as error:
        return RequestRefused(HTTPStatus.BAD_REQUEST, str(error))
    except tuple(_STATUS) as error:
        return RequestRefused(_STATUS[type(error)], str(error))


def _json(
    content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> web.Response:
    headers = {**HEADERS, **(headers or {})}
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json", headers=headers)


def _address(request: web.Request) -> tuple[str, str, str]:
    found = request.match_info
    return found["kind"], found["name"], found["version"]


def _document(body: bytes, address: tuple[str, str, str]) -> Mapping[str, Any]:
    """Return the document that was sent, if it belongs to the address. Raises ValueError."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ValueError("an entry should be JSON") from None
    if not isinstance(document, dict):
        raise ValueError("an entry should be a JSON object")
    entry: Entry = entry_of(document)
    if (entry.kind, entry.name, entry.version) != address:
        raise ValueError("kind, name and version in the address should match the document")
    return document


async def _drain(request: web.Request) -> None:
    """Read and drop the rest of a body: a caller that is still sending would not read our refusal."""
    left = 1 << 20
    while left > 0 and (piece := await request.content.read(65_536)):
        left -= len(piece)


@asynccontextmanager
async def open_registry(
    config: Config,
    users: Users,
    tokens: Tokens,
    clock: Clock,
    audit: Callable[[AuditEntry], None],
    caps: ListenerLimits | None = None,
) -> AsyncIterator[int]:
    """Serve the registry of this state folder while the block runs; yields the port.

    Raises:
        StateError: the port is taken, or `registry.db` cannot be used.
    """
    settings, caps = config.registry_server, caps or ListenerLimits()
    store = CatalogStore(config.state_dir / FILE)
    names = [name.lower() for name in settings.hosts]
    own_id = await asyncio.to_thread(store.fact, ID, secrets.token_hex(16))
    about = {"id": own_id, "name": next(iter(names), "goclaw")}
    place = Endpoint("the registry", "registry_server.port", settings.host, settings.port, names=frozenset(names))
    application = guarded(place, caps, refused)
    shared = [name for name, each in config.registries.items() if each.federation.share]
    visitors = Visitors(settings, users, tokens, clock, audit)
    Pages(about, store, Catalogue(store, shared), visitors, clock, audit).add_to(application)
    async with open_listener(place, application, caps) as port:
        yield port


def warnings_of(config: Config) -> list[str]:
    """Return warnings about the settings, for the operator."""
    settings = config.registry_server
    if is_loopback(settings.host):
        return []
    found = ["other machines reach the registry without encryption: put a reverse proxy with TLS in front of it"]
    if settings.open:
        found.append("anybody who can reach the registry may read all of it (`registry_server.open`)")
    return found
