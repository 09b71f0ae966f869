"""One POST to a model's server, with its failures as `ModelError`: shared by the wires."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from goclaw.clock import Clock
from goclaw.llm.failures import connecting, from_response

ERROR_LIMIT = 64 * 1024
"""Bytes of an error body that are read."""
SETTLE_TIME = 1.0
"""Seconds that the end of a body may lag behind the last event of its stream."""


@asynccontextmanager
async def post(
    http: aiohttp.ClientSession, clock: Clock, spec: str, url: str, headers: Mapping[str, str], body: bytes
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a JSON body; the answer's own body is still to be read. Leaving the block closes the connection.

    Raises:
        ModelError: the server cannot be reached, or its answer is no success.
    """
    sent = {"content-type": "application/json", **headers}
    with connecting(spec):
        # A redirect would send the key and the conversation to another server.
        response = await http.post(url, data=body, headers=sent, allow_redirects=False)
    try:
        if response.status >= 300:
            with connecting(spec):
                refusal = await response.content.read(ERROR_LIMIT)
            raise from_response(spec, response.status, refusal, response.headers, clock.now())
        yield response
    finally:
        # Not `release`: whatever is unread must end, else the model goes on writing (and billing).
        response.close()


async def settle(response: aiohttp.ClientResponse) -> None:
    """Read the little that follows a stream's last event, so that the connection serves the next request, too."""
    try:
        async with asyncio.timeout(SETTLE_TIME):
            async for _ in response.content.iter_any():
                pass
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass  # the answer is complete; only the connection is lost
