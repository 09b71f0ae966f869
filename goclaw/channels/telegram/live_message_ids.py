"""Ids of live messages by turn, on disk: after a crash the answer is edited into the message, not sent beside it.

A preview that Telegram took, but whose id was not recorded, cannot be found again: the Bot API lists no messages. What
can be known is that there may be one (`is_lost`), so that no second one is sent, and whether it shows the answer's
text (`may_say`), so that the answer is marked as a possible repetition.
"""

import logging
from pathlib import Path
from zlib import crc32

from pydantic import TypeAdapter

from goclaw.bounded import BoundedDict
from goclaw.channels.telegram import json_file
from goclaw.errors import DiskError

log = logging.getLogger(__name__)

KEPT = 200
"""Maximum turns remembered: far more than run at once, so that each is kept until its answer is delivered."""

LOST = 0
"""In place of an id: a message was about to be sent; below it, a number derived from its text (`_lost`)."""

_MESSAGES: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int])


class LiveMessageIds:
    """The latest turns and their messages. Lives in one file, which is small and rarely flushed: kill -9 spares it."""

    def __init__(self, path: Path) -> None:
        """Reads the file: call this in a thread."""
        self._messages = BoundedDict(KEPT, json_file.read(path, _MESSAGES, {}))
        self._file = json_file.JsonFile(path, flush=False)

    def message_of(self, turn: str) -> int | None:
        """Return the id of the message that began to grow for this turn."""
        known = self._messages.get(turn, LOST)
        return known if known > LOST else None

    def is_lost(self, turn: str) -> bool:
        """Whether a message with an unknown id may stand in the chat."""
        return self._messages.get(turn, LOST + 1) <= LOST

    def may_say(self, turn: str, text: str) -> bool:
        """Whether that message has this very text, if it is there."""
        return self._messages.get(turn) == _lost(text)

    async def intend(self, turn: str, text: str = "") -> None:
        """Note that a message with this text is about to be sent, or that the sent one cannot be relied on."""
        if text or not self.is_lost(turn):
            await self._note(turn, _lost(text) if text else LOST)

    async def remember(self, turn: str, message_id: int) -> None:
        """On disk when this returns. Where that fails, a crash leaves the beginning of an answer behind; no more."""
        await self._note(turn, message_id)

    async def hand_over(self, turn: str, delivery: str) -> int | None:
        """Make the message that grew for a turn that of one of its deliveries; the turn goes on with another one.

        Returns the message's id, the same one for a delivery that is tried again; None where no message grew, or where
        this cannot be kept: the turn's next text would be edited into the message after a restart.
        """
        if known := self._messages.get(delivery):
            return known
        if not (grew := self.message_of(turn)):
            return None
        del self._messages[turn]
        self._messages[delivery] = grew
        try:
            await self._file.write(self._messages, flush=True)
        except DiskError as error:
            log.warning("a preview stays beside its text: %s", error)
            self._messages[turn] = self._messages.pop(delivery)
            return None
        return grew

    async def _note(self, turn: str, message_id: int) -> None:
        self._messages[turn] = message_id
        try:
            await self._file.write(self._messages)
        except DiskError as error:
            log.warning("a preview is not remembered over a restart: %s", error)


def _lost(text: str) -> int:
    return LOST - 1 - crc32(text.encode())
