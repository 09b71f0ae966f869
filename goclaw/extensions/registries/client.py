"""The client of one registry: reading its catalogue page by page, and publishing (docs/registries.md).

The token goes to the origin of the configured address and nowhere else, also not with redirects. All answers are
bounded: each page, their number, all of them together. `syncing` decides which entries are stored.
"""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from goclaw.common.config.registries import RegistrySettings
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.records import record
from goclaw.common.core.redact import remember
from goclaw.common.net.client import KEY_REFUSED, MAX_ERROR, parse_retry_after, quoted_error, read_whole
from goclaw.errors import ConfigError
from goclaw.extensions.registries.base import MAX_BYTES, MAX_ENTRIES, EntryKind, RegistryError, pack
from goclaw.extensions.registries.pages import (
    MAX_PAGE,
    RegistryPage,
    Wanted,
    Wrapped,
    read_page,
    read_public_page,
)

PAGE = 100
"""Entries per request."""
MAX_PAGES = 1_000
MAX_READ = 2 * MAX_BYTES
"""Bytes of all pages together, with unwanted entries."""
MAX_REDIRECTS = 5
MAX_PAUSE = 60.0
"""Seconds between two tries of one request. A registry that asks for a longer pause is called at the next sync."""
MAX_ETAG = 200
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses worth a retry. 409 is not among them: a version exists with another content."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})


@record
class RegistryCatalog:
    """All entries that a registry lists."""

    listed: Sequence[Wrapped]
    """`via` of each ends with the id of this registry, if it has one."""
    etag: str = ""
    refused: tuple[str, ...] = ()
    """Invalid entries, each with the reason, for people."""


@record
class _Answer:
    status: int
    etag: str
    body: bytes


class _Passing(Exception):
    """A temporary fault: another try may succeed, after `wait` seconds if the registry named them."""

    def __init__(self, words: str, wait: float | None = None) -> None:
        super().__init__(words)
        self.wait = wait


def everything(name: str) -> bool:
    """Accept every name."""
    return True


class RegistryClient:
    """A client of one registry. Every method raises `RegistryError`."""

    def __init__(self, name: str, settings: RegistrySettings, http: aiohttp.ClientSession, clock: Clock) -> None:
        self._name = name
        self._settings = settings
        self._http = http
        self._clock = clock
        self._base = URL(settings.url.removesuffix(f"/{settings.api_version}") + f"/{settings.api_version}")
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if settings.auth:
            remember(settings.auth.get_secret_value())
            self._headers["Authorization"] = f"Bearer {settings.auth.get_secret_value()}"

    async def listing(self, etag: str = "", wanted: Wanted = everything) -> RegistryCatalog | None:
        """Return all that the registry lists; None: nothing has changed since it gave the `etag`.

        `wanted` selects by name: other entries cost a moment, and no memory.
        """
        entries: list[Wrapped] = []
        refused: list[str] = []
        cursors, read, size, tag = [""], 0, 0, ""
        while True:
            first = len(cursors) == 1
            answer = await self._ask("GET", *self._page(cursors[-1]), etag=etag if first else "")
            if answer.status == HTTPStatus.NOT_MODIFIED and first and etag:
                return None
            self._check_listing(answer)
            page = await self._parse_page(answer.body, wanted)
            tag = answer.etag if first else tag
            entries += page.entries
            refused += page.refused
            read += len(answer.body)
            size += sum(len(entry.document) for entry in page.entries)
            self._check_bounds(len(entries) + len(refused), size)
            if not page.cursor:
                return RegistryCatalog(entries, "" if self._settings.is_public else tag, tuple(refused))
            if page.cursor in cursors or read > MAX_READ or len(cursors) == MAX_PAGES:
                raise RegistryError(f"the registry {self._name} lists page after page without an end")
            cursors.append(page.cursor)

    async def try_out(self) -> None:
        """Fetch the first page only, to check that the registry works."""
        answer = await self._ask("GET", *self._page(""))
        self._check_listing(answer)
        await self._parse_page(answer.body, everything)

    async def publish(self, document: Mapping[str, Any]) -> bool:
        """Publish a version in the registry; return whether it is new there."""
        try:
            offered = await asyncio.to_thread(pack, document)
        except ValueError as error:
            raise RegistryError(f"nothing was published to the registry {self._name}: {error}") from None
        entry = offered.entry
        address = self._address(entry.kind, entry.name, entry.version)
        answer = await self._ask("PUT", address, body=offered.canonical)
        if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise self._failure(f"{entry.kind} {entry.name} {entry.version} was not published", answer)
        return answer.status == HTTPStatus.CREATED

    async def withdraw(self, kind: EntryKind, name: str, version: str) -> bool:
        """Remove a version from the registry; return whether it existed."""
        answer = await self._ask("DELETE", self._address(kind, name, version))
        if answer.status not in (HTTPStatus.OK, HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND):
            raise self._failure(f"{kind} {name} {version} was not withdrawn", answer)
        return answer.status != HTTPStatus.NOT_FOUND

    def _page(self, cursor: str) -> tuple[URL, dict[str, str]]:
        params = {"limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
        return self._base / ("servers" if self._settings.is_public else "entries"), params

    def _address(self, kind: EntryKind, name: str, version: str) -> URL:
        if self._settings.is_public:
            raise RegistryError(
                f"the registry {self._name} has the format of the public MCP registry, which GoClaw can only read: "
                "publish there with its own program"
            )
        path = "/".join(quote(part, safe="") for part in ("entries", kind, name, "versions", version))
        return URL(f"{self._base}/{path}", encoded=True)

    async def _parse_page(self, body: bytes, wanted: Wanted) -> RegistryPage:
        try:
            return await asyncio.to_thread(read_public_page if self._settings.is_public else read_page, body, wanted)
        except ValueError as error:
            raise RegistryError(
                f"the registry {self._name} did not return a catalogue ({error}); are registries.{self._name}.url and "
                ".api_version right?"
            ) from None

    def _check_bounds(self, entries: int, size: int) -> None:
        """Raise RegistryError if the entries exceed the bounds of one registry."""
        if entries > MAX_ENTRIES or size > MAX_BYTES:
            raise RegistryError(
                f"the registry {self._name} is too large (limits: {MAX_ENTRIES:,} entries, {MAX_BYTES >> 20} MB); "
                f"select entries with registries.{self._name}.federation.include"
            )

    def _check_listing(self, answer: _Answer) -> None:
        if answer.status == HTTPStatus.NOT_FOUND:
            raise RegistryError(
                f"the registry {self._name} has no catalogue there (HTTP 404); are registries.{self._name}.url and "
                ".api_version right?"
            )
        if answer.status != HTTPStatus.OK:
            raise self._failure("its catalogue was not fetched", answer)

    def _failure(self, what: str, answer: _Answer) -> RegistryError:
        """Return an error with the registry's own text, if it has one."""
        help_ = f"; check registries.{self._name}.auth" if answer.status in KEY_REFUSED else ""
        words = quoted_error(answer.body)
        text = f"the registry {self._name} refused (HTTP {answer.status}): {what}{words}{help_}"
        return RegistryError(text, status=answer.status)

    async def _ask(
        self, method: str, url: URL, params: Mapping[str, str] | None = None, body: bytes | None = None, etag: str = ""
    ) -> _Answer:
        """Return the answer to one request, which is repeated while that may help."""
        headers = dict(self._headers)
        headers |= {"If-None-Match": etag} if etag else {}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        first, left = self._settings.retry.backoff, self._settings.retry.max
        backoff = Backoff(first, max(MAX_PAUSE, first))
        while True:
            try:
                return await self._try_once(method, url.update_query(params or {}), headers, body)
            except _Passing as error:
                if not left or (error.wait or 0) > MAX_PAUSE:
                    raise RegistryError(f"the registry {self._name} {error}", retry_after=error.wait) from None
                await self._clock.sleep(max(backoff.next(), error.wait or 0))
            left -= 1

    async def _try_once(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> _Answer:
        """Try once, following redirects within the origin."""
        for _ in range(MAX_REDIRECTS):
            try:
                async with (
                    asyncio.timeout(self._settings.timeout),
                    self._http.request(
                        method, url, headers=headers, data=body, allow_redirects=False, auto_decompress=False
                    ) as response,
                ):
                    if response.status not in REDIRECTS:
                        return await self._answer(response)
                    url = self._elsewhere(url, response)
            except TimeoutError:
                raise _Passing(f"did not answer within {self._settings.timeout:g} s") from None
            except ConfigError as error:
                raise RegistryError(f"the registry {self._name} cannot be reached: {error}") from None
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise _Passing(f"cannot be reached ({type(error).__name__})") from None
        raise RegistryError(f"the registry {self._name} redirects without end")

    async def _answer(self, response: aiohttp.ClientResponse) -> _Answer:
        if response.status in PASSING:
            raise _Passing(f"does not answer now (HTTP {response.status})", parse_retry_after(response.headers))
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RegistryError(
                f"the registry {self._name} compresses its answers although GoClaw did not ask for that"
            )
        most = MAX_PAGE if response.status == HTTPStatus.OK else MAX_ERROR
        if (body := await read_whole(response, most)) is None:
            raise RegistryError(f"the registry {self._name} answered with more than {most / (1 << 20):.1f} MB at once")
        etag = response.headers.get("ETag", "")
        is_sound = len(etag) <= MAX_ETAG and etag.isascii() and etag.isprintable()
        return _Answer(response.status, etag if is_sound else "", body)

    def _elsewhere(self, url: URL, response: aiohttp.ClientResponse) -> URL:
        """Return the target of a redirect, which must have the same origin."""
        target = url.join(URL(response.headers.get("Location", "")))
        if target.scheme not in ("http", "https") or target.origin() != self._base.origin():
            raise RegistryError(
                f"the registry {self._name} redirects to another address ({str(target.host)[:100]}), which GoClaw does "
                f"not trust with its token; if the registry has moved, set registries.{self._name}.url"
            )
        return target
