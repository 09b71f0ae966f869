"""Which message shows which turn, kept in the store.

After a crash the answer is edited into its live message, not sent in addition to it. A preview that Telegram took, but
without a recorded id, cannot be found again: the Bot API lists no messages. What can be known is that there may be one
(`is_lost`), so that no second one is sent, and whether it shows the answer's text (`may_match`), so that the answer is
marked as a possible repetition.
"""

import logging
from zlib import crc32

from goclaw.channels.state import ChannelState
from goclaw.channels.telegram.updates import CHANNEL
from goclaw.common.core.records import BoundedDict
from goclaw.errors import StateError

log = logging.getLogger(__name__)

MAX_TURNS = 200
"""Maximum turns remembered: far more than run at once, so that each is kept until its answer is delivered."""
LOST = 0
"""In place of an id: a message was about to be sent; below it, a number derived from its text (`_lost_id_of`)."""


class LiveMessageIds:
    """The latest turns of this process and their messages."""

    def __init__(self, state: ChannelState) -> None:
        self._state = state
        self._messages: BoundedDict[str, int] = BoundedDict(MAX_TURNS)
        """By turn, or by the delivery that got the message."""
        self._sessions: BoundedDict[str, str] = BoundedDict(MAX_TURNS)
        """Their sessions."""
        self._unkept: BoundedDict[str, None] = BoundedDict(MAX_TURNS)
        """Turns with a message id that could not be kept yet."""

    async def load(self, session: str | None) -> None:
        """Read the notes of a former run, of all sessions (None), or of those that it did not know ("").

        Raises:
            DiskError: the store cannot be read.
        """
        known = await self._state.previews(CHANNEL, session)
        for key, message in reversed([*known.items()]):  # the oldest are forgotten first
            self._messages[key] = message

    async def read_notes(self, session: str) -> None:
        """Read the previous process's notes of a session. Where that fails, its preview is not found."""
        try:
            known = await self._state.previews(CHANNEL, session)
        except StateError as error:
            log.warning("previews of another process stay next to their answers: %s", error)
            return
        # Of what this one noted when it had the session last, another process may have handed some over.
        for key in [key for key, noted in self._sessions.items() if noted == session]:
            self._sessions.pop(key)
            self._messages.pop(key, None)
            self._unkept.pop(key, None)
        self._messages |= known
        for key in known:
            self._sessions[key] = session

    def message_of(self, turn: str) -> int | None:
        """Return the id of the message that began to grow for this turn."""
        known = self._messages.get(turn, LOST)
        return known if known > LOST else None

    def is_lost(self, turn: str) -> bool:
        """Whether a message with an unknown id may stand in the chat."""
        return self._messages.get(turn, LOST + 1) <= LOST

    def may_match(self, turn: str, text: str) -> bool:
        """Whether that message has this very text, if it exists."""
        return self._messages.get(turn) == _lost_id_of(text)

    async def intend(self, turn: str, session: str, text: str = "") -> bool:
        """Note that a message with this text is about to be sent, or that the sent one cannot be relied on.

        False: that cannot be kept, so a crash would leave a message unknown to the next run of the daemon.
        """
        if not text and self.is_lost(turn):
            return True
        before = self._messages.get(turn)
        if await self._note(turn, session, _lost_id_of(text) if text else LOST):
            return True
        if text and before is not None:
            self._messages[turn] = before
        elif text:
            self._messages.pop(turn, None)
        return False

    async def remember(self, turn: str, session: str, message_id: int) -> None:
        """Keep the id of a message that was sent. Where that fails, a crash leaves it in the chat: see `store`."""
        self._unkept.pop(turn, None)
        if not await self._note(turn, session, message_id):
            self._unkept[turn] = None

    async def store(self, turn: str) -> bool:
        """Store the id of a turn's message. False: that failed again, so the message may say no more."""
        known = self.message_of(turn)
        if turn in self._unkept and (known is None or await self._note(turn, self._sessions.get(turn, ""), known)):
            self._unkept.pop(turn, None)
        return turn not in self._unkept

    async def hand_over(self, turn: str, delivery: str) -> int | None:
        """Make the message that grew for a turn that of one of its deliveries; the turn goes on with another one.

        Returns the message's id, the same one for a delivery that is tried again; None where no message grew.

        Raises:
            StateError: this cannot be kept; the message stays as it is, in addition to its text.
        """
        if known := self._messages.get(delivery):
            return known
        if not (grew := self.message_of(turn)):
            return None
        del self._messages[turn]
        session = self._sessions.get(turn, "")
        await self._state.note_preview(CHANNEL, session, delivery, grew, instead_of=turn)
        self._messages[delivery], self._sessions[delivery] = grew, session
        return grew

    async def _note(self, turn: str, session: str, message_id: int) -> bool:
        self._messages[turn], self._sessions[turn] = message_id, session
        try:
            await self._state.note_preview(CHANNEL, session, turn, message_id)
        except StateError as error:
            log.warning("a preview will be forgotten at a restart: %s", error)
            return False
        return True


def _lost_id_of(text: str) -> int:
    return LOST - 1 - crc32(text.encode())
