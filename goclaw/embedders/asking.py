"""Requests to an embedding server over the shared HTTP client; failures become an `EmbeddingError` in words."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import aiohttp
import orjson

from goclaw.embedders.base import quantised
from goclaw.errors import EmbeddingError
from goclaw.net.answers import KEY_REFUSED, PASSING, quoted_error, read_whole, wanted_pause
from goclaw.records import record

SECONDS = 120.0
"""Time limit for one batch: a server on a slow machine may have to load its model first."""
ANSWER_LIMIT = 64 << 20
"""Bytes of an answer that are read; 32 vectors of 4,096 numbers have 3 MB."""
NO_SUCH = 404
PATIENCE = 10.0
MAX_PATIENCE = 600.0
"""Seconds to wait where the server does not say how long; and what is believed of what it says."""


@record
class EmbeddingServer:
    """An embedding server, and its remedies for error messages."""

    name: str
    url: str
    unreachable: str
    """Remedy when no server answers."""
    unknown: str
    """Remedy when the model or the address is unknown there."""
    refused: str
    """Remedy when the key is refused."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = SECONDS

    async def ask(self, http: aiohttp.ClientSession, body: Mapping[str, Any]) -> Any:
        """Send a request and return the JSON of its answer.

        Raises:
            EmbeddingError: it cannot be reached, refuses, or answers something else.
        """
        content = await asyncio.to_thread(orjson.dumps, body)
        headers = {"content-type": "application/json", **self.headers}
        try:
            # A redirect would send the key and the texts to another server.
            async with (
                asyncio.timeout(self.seconds),
                http.post(self.url, data=content, headers=headers, allow_redirects=False) as response,
            ):
                answer = await read_whole(response, ANSWER_LIMIT)
        except TimeoutError:
            raise EmbeddingError(f"{self.name} did not answer in time", retry_after=PATIENCE) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the last for an address that aiohttp refuses
            raise EmbeddingError(
                f"{self.name} cannot be reached ({type(error).__name__}); {self.unreachable}", retry_after=PATIENCE
            ) from None
        if answer is None:
            raise EmbeddingError(f"{self.name} answered more than {ANSWER_LIMIT >> 20} MB")
        if response.status != 200:
            raise self._refusal(response, answer)
        try:
            return await asyncio.to_thread(orjson.loads, answer)
        except orjson.JSONDecodeError:
            raise EmbeddingError(f"{self.name} answers, but not as an embedder does; {self.unknown}") from None

    def _refusal(self, response: aiohttp.ClientResponse, body: bytes) -> EmbeddingError:
        if response.status in KEY_REFUSED:
            return EmbeddingError(f"{self.name} refused the key; {self.refused}")
        message = f"{self.name} answered HTTP {response.status}{quoted_error(body)}"
        if response.status in PASSING:
            asked = wanted_pause(response.headers)
            wait = PATIENCE if asked is None else min(asked, MAX_PATIENCE)
            return EmbeddingError(f"{message}; asked again in {wait:g} s", retry_after=wait)
        return EmbeddingError(f"{message}; {self.unknown}" if response.status == NO_SUCH else message)


async def as_bytes(name: str, vectors: object, count: int) -> list[bytes]:
    """Convert a server's vectors for `count` texts to the form of `Embedder.embed`. In a thread: it is much arithmetic.

    Raises:
        EmbeddingError: these are not as many vectors, or not of one length.
    """
    try:
        return await asyncio.to_thread(_as_bytes, vectors, count)
    except (TypeError, ValueError, OverflowError):
        raise EmbeddingError(f"{name} answered something else than a vector for each text") from None


def _as_bytes(vectors: object, count: int) -> list[bytes]:
    if not isinstance(vectors, Sequence) or len(vectors) != count:
        raise ValueError
    found = [quantised(vector) for vector in vectors]
    if count and (not found[0] or len({len(vector) for vector in found}) != 1):
        raise ValueError
    return found
