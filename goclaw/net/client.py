"""The shared HTTP client: environment proxies and the system's certificates honoured, bounded waits, no total timeout.

With the environment variable `GOCLAW_LOOPBACK_ONLY` set (our tests set it), nothing but this machine can be reached: a
test that would call a real model or a real Telegram fails instead.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.connector import Connection

from goclaw.config.listening import is_loopback as is_loopback  # for code that parses addresses
from goclaw.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.tracing import Trace

CONNECT_TIMEOUT = 15.0
"""The time-out for a connection in seconds (name look-up, proxy and TLS included): longer means no server."""
IDLE_TIMEOUT = 300.0
"""Seconds without a byte before a server counts as dead. Reasoning models send nothing for minutes."""
CONNECTION_LIMIT = 100
"""Connections at once. A turn has one open to its model, so this is also a bound on file descriptors."""
LOOPBACK_ONLY = "GOCLAW_LOOPBACK_ONLY"


class FreshestFirst(aiohttp.TCPConnector):
    """Takes the connection that has rested for the shortest time, so that those which only a burst needed end by rest.

    aiohttp takes the others: a few requests a second then keep every connection alive that was ever open at once, each
    with its buffers and, with TLS, with tens of kilobytes more.
    """

    async def _get(self, key: "ConnectionKey", traces: list["Trace"]) -> Connection | None:
        if resting := self._conns.get(key):
            resting.rotate(1)  # the newest comes to the front, where aiohttp takes it
        return await super()._get(key, traces)


@asynccontextmanager
async def open_client() -> AsyncIterator[aiohttp.ClientSession]:
    """Open the client that every room shares; leaving the block closes its connections.

    Certificates are checked against the system's store (`SSL_CERT_FILE` is honoured); `HTTP(S)_PROXY`, `NO_PROXY` and
    `.netrc` are read. There is no total timeout: a stream may take as long as it moves. Cookies are not kept: nothing
    that we ask needs them, and a hostile server would fill the memory with them.
    """
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=IDLE_TIMEOUT)
    async with aiohttp.ClientSession(
        connector=FreshestFirst(limit=CONNECTION_LIMIT),
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=True,
        middlewares=(stay_on_loopback,),
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
