"""One exchange with the Bot API over HTTP, and what `getUpdates` is asked: all that the first poll needs.

Nothing here imports the Bot API's library, so that the first poll can go out before that is loaded.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson

CONNECT_SECONDS = 10.0
ANSWER_MARGIN = 10.0
"""Seconds beyond the long poll's own time until its connection counts as dead."""
BATCH = 100
"""Updates in one answer at most; Telegram allows no more."""
ALLOWED_UPDATES = (
    "message",
    "edited_message",
    "message_reaction",
    "callback_query",
    "my_chat_member",
    "stopped_message_generation",
)
"""Kinds of updates to request; `update_handler` handles each one."""

PLAIN = {"content-type": "application/x-www-form-urlencoded"}
Form = aiohttp.FormData | bytes | None
"""Files and texts, or texts alone as they are sent (`plain_form`)."""


def poll_parameters(seconds: int) -> dict[str, Any]:
    """Return the parameters of a poll of so many seconds; 0: an immediate answer."""
    return {"timeout": seconds, "limit": BATCH, "allowed_updates": list(ALLOWED_UPDATES)}


def plain_form(parameters: Mapping[str, Any]) -> bytes:
    """Return the form of a call without files (Bot API, "Making requests"): values that are no text are JSON."""
    texts = {name: value if isinstance(value, str) else as_json(value) for name, value in parameters.items()}
    return urlencode(texts).encode()


def as_json(value: object) -> str:
    """Return a value as JSON, as it stands in a form."""
    return orjson.dumps(value).decode()


def timeout(seconds: float) -> aiohttp.ClientTimeout:
    """Bounds for each part of a request; a long upload may take longer in total."""
    return aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=seconds)


async def exchange(
    session: aiohttp.ClientSession, method: str, url: str, form: Form, *, seconds: float, proxy: str | None
) -> tuple[int, bytes]:
    """Send one request and return status and body of its answer; errors are those of aiohttp."""
    headers = PLAIN if isinstance(form, bytes) else None
    async with session.request(
        method, url, data=form, headers=headers, timeout=timeout(seconds), proxy=proxy, allow_redirects=False
    ) as response:
        return response.status, await response.read()
