"""Which message grows for which turn, on disk: after a crash the answer goes into it, not beside it.

A preview that Telegram took, but whose id was not recorded, cannot be found again: the Bot API lists no messages. What
can be known is that there may be one (`is_lost`), so that no second one is sent.
"""

import asyncio
import logging
import os
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

log = logging.getLogger(__name__)

KEPT = 200
"""Turns that are remembered: far more than run at once, so that none is forgotten before its answer is through."""

LOST = 0
"""In place of an id: a message was about to be sent. No message has this number."""

_MESSAGES: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int])


class Grown:
    """The latest turns and their messages. Lives in one file, which is small and never flushed: kill -9 spares it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._messages = _read(path)
        self._writing = asyncio.Lock()

    def message_of(self, turn: str) -> int | None:
        """The id of the message that began to grow for this turn."""
        return self._messages.get(turn) or None

    def is_lost(self, turn: str) -> bool:
        """Whether a message may stand in the chat whose id nobody knows."""
        return self._messages.get(turn) == LOST

    async def intend(self, turn: str) -> None:
        """A message is about to be sent, or the one that was cannot be relied on."""
        await self._note(turn, LOST)

    async def remember(self, turn: str, message_id: int) -> None:
        """On disk when this returns. Where that fails, a crash leaves the beginning of an answer behind; no more."""
        await self._note(turn, message_id)

    async def _note(self, turn: str, message_id: int) -> None:
        self._messages[turn] = message_id
        while len(self._messages) > KEPT:
            del self._messages[next(iter(self._messages))]
        try:
            async with self._writing:
                await asyncio.to_thread(_write, self._path, orjson.dumps(self._messages))
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error.strerror)


def _read(path: Path) -> dict[str, int]:
    try:
        return _MESSAGES.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        log.warning("%s is not used: %s", path, type(error).__name__)
        return {}


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.replace(path)
