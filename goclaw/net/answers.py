"""Answers of servers that the operator configured: read to the end, with error texts fit to be shown.

For requests with one answer. The errors of models are handled in `llm.failures`.
"""

from collections.abc import Mapping

import aiohttp
import orjson

from goclaw.redact import mask, printable

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that waiting may mend."""
KEY_REFUSED = frozenset({401, 403})
MAX_ERROR = 64 << 10
"""Bytes of an answer in which words are looked for: masking takes its time by the character."""
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
    """Return the server's error text, bounded and masked, behind a colon; else an empty text."""
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


def wanted_pause(headers: Mapping[str, str]) -> float | None:
    """Return the server's requested pause in seconds, if given in seconds (RFC 9110, "Retry-After")."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
