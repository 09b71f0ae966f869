"""The shared HTTP client, and answers of servers that the operator configured.

The client honours environment proxies and the system's certificates; waits are bounded, there is no total timeout.
Where `GOCLAW_LOOPBACK_ONLY` is in the environment when a client opens (our tests set it), nothing but this machine can
be reached: a test that would call a real model or a real Telegram fails instead.

Answers are read to the end, with error texts fit to be shown, for requests with one answer. The errors of models are
handled in `llm.failures`.
"""

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import orjson
from aiohttp.connector import Connection

from goclaw.common.config.listening import is_loopback as is_loopback  # for code that parses addresses
from goclaw.common.core.fencing import AUTHORITY
from goclaw.common.core.redact import mask, printable
from goclaw.common.net.environment import read_environment
from goclaw.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.tracing import Trace


CONNECT_TIMEOUT = 15.0
"""The time-out for a connection in seconds (name look-up, proxy and TLS included): longer means no server."""
IDLE_TIMEOUT = 300.0
"""Seconds without a byte before a server counts as dead, for requests without a time of their own."""
MAX_CONNECTIONS = 2_000
"""Connections at once: a turn has one open to its model while that writes."""
OTHER_FILES = 256
"""File descriptors that are left for everything else."""
LOOPBACK_ONLY = "GOCLAW_LOOPBACK_ONLY"


class FreshestFirst(aiohttp.TCPConnector):
    """Takes the connection that has rested for the shortest time, so that those which only a burst needed end by rest.

    aiohttp takes the others: a few requests a second then keep every connection alive that was ever open at the same
    time, each with its buffers and, with TLS, with tens of kilobytes more.
    """

    async def _get(self, key: "ConnectionKey", traces: list["Trace"]) -> Connection | None:
        if resting := self._conns.get(key):
            resting.rotate(1)  # the newest comes to the front, where aiohttp takes it
        return await super()._get(key, traces)

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list["Trace"], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if (check := AUTHORITY.get().before_sending) is not None:
            try:
                await check()
            except BaseException:
                connection.release()
                raise
        return connection


@asynccontextmanager
async def open_client() -> AsyncIterator[aiohttp.ClientSession]:
    """Open the client that every room shares; leaving the block closes its connections.

    Certificates are checked against the system's store (`SSL_CERT_FILE` is honoured); `HTTP(S)_PROXY`, `NO_PROXY` and
    `.netrc` are read once, here (`net.environment`). There is no total timeout: a stream may last while it moves.
    Cookies are not kept: nothing that we ask needs them, and a hostile server would fill the memory with them.

    Raises:
        ConfigError: a proxy of the environment has no address that can be used.
    """
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=IDLE_TIMEOUT)
    environment = await asyncio.to_thread(read_environment)
    # As many as this process has file descriptors for.
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    within = MAX_CONNECTIONS if allowed == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, allowed - OTHER_FILES)
    async with aiohttp.ClientSession(
        connector=FreshestFirst(limit=max(OTHER_FILES, within)),
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        # Each one costs every request a chain of calls: only what this process needs.
        middlewares=[
            *([stay_on_loopback] if os.environ.get(LOOPBACK_ONLY) else []),
            *([environment.apply] if environment else []),
        ],
    ) as session:
        yield session


async def stay_on_loopback(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Refuse what leaves this machine while `GOCLAW_LOOPBACK_ONLY` is set."""
    check_reachable(str(request.url.host))
    return await handler(request)


def check_reachable(host: str) -> None:
    """Check that a host may be reached, for code that brings its own HTTP client.

    Raises:
        ConfigError: `GOCLAW_LOOPBACK_ONLY` is set and `host` (a name or an address) is not this machine.
    """
    if os.environ.get(LOOPBACK_ONLY) and not is_loopback(host):
        raise ConfigError(f"{host} may not be reached: {LOOPBACK_ONLY} is set")


PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that waiting may mend."""
KEY_REFUSED = frozenset({401, 403})
MAX_ERROR = 64 << 10
"""Bytes of an answer that are searched for words: masking takes its time by the character."""
WORDS_LIMIT = 200
"""Characters of the server's own words that are shown."""


async def read_whole(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """Return the body of an answer; None where it has more than `most` bytes."""
    content = bytearray()
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > most:
            return None
    return bytes(content)


def quoted_error(body: bytes) -> str:
    """Return the server's error text, bounded and masked, after a colon; else an empty text."""
    if len(body) > MAX_ERROR:
        return ""
    try:
        answer = orjson.loads(body)
        error = answer.get("error", answer)
        words = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    except (orjson.JSONDecodeError, AttributeError):
        return ""
    line = " ".join(printable(mask(str(words))).split())[:WORDS_LIMIT] if words else ""
    return f": {line}" if line else ""


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the server's requested pause in seconds, if given in seconds (RFC 9110, "Retry-After")."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
