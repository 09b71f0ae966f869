"""The ids of live messages and the migrated chats, where several processes share a store: rows in place of files.

The files of before are read once more at each start: what they say is put into the store, which changes nothing the
second time.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from goclaw.channels.sharing import ChannelSharing
from goclaw.channels.telegram.state_files import MOVED_FROM, ChatMigrations, LiveMessageIds
from goclaw.channels.telegram.updates import CHANNEL
from goclaw.core.records import BoundedDict
from goclaw.errors import StateError

log = logging.getLogger(__name__)

MANY_CHATS = 10_000
"""Chats that are known to have migrated or not, at most; others are asked for again."""
MANY_TURNS = 1_000


class SharedLiveMessageIds(LiveMessageIds):
    """The live messages of the sessions that this process works on."""

    def __init__(self, path: Path, sharing: ChannelSharing) -> None:
        """Reads the file of before: call this in a thread."""
        super().__init__(path)
        self._sharing = sharing
        self._sessions: BoundedDict[str, str] = BoundedDict(MANY_TURNS)
        self.session_of: Callable[[str], str] = _unknown
        """Returns the session of a turn that is shown."""

    async def take(self, session: str) -> None:
        """Read what the process before has noted of a session. A preview of its is not found where that fails."""
        try:
            known = await self._sharing.previews(CHANNEL, session)
        except StateError as error:
            log.warning("previews of another process stay beside their answers: %s", error)
            return
        # Of what this one noted when it had the session last, another process may have handed some over.
        for key in [key for key, noted in self._sessions.items() if noted == session]:
            self._sessions.pop(key)
            self._messages.pop(key, None)
            self._unkept.pop(key, None)
        self._messages |= known
        for key in known:
            self._sessions[key] = session

    async def hand_over(self, turn: str, delivery: str) -> int | None:
        if known := self._messages.get(delivery):
            return known
        if not (grew := self.message_of(turn)):
            return None
        del self._messages[turn]
        await self._sharing.note_preview(CHANNEL, self._session(turn), delivery, grew, instead_of=turn)
        self._messages[delivery] = grew
        return grew

    async def _note(self, turn: str, message_id: int) -> bool:
        self._messages[turn] = message_id
        if not (session := self._session(turn)):
            return False  # nothing of it was shown that could be kept, and now its view has ended
        try:
            await self._sharing.note_preview(CHANNEL, session, turn, message_id)
        except StateError as error:
            log.warning("a preview is not remembered over a restart: %s", error)
            return False
        return True

    def _session(self, turn: str) -> str:
        if session := self.session_of(turn):
            self._sessions[turn] = session
        return self._sessions.get(turn, "")


def _unknown(turn: str) -> str:
    """Return no session."""
    return ""


class SharedChatMigrations(ChatMigrations):
    """The migrated chats that this process has asked for."""

    def __init__(self, path: Path, sharing: ChannelSharing) -> None:
        """Reads the file of before: call this in a thread."""
        super().__init__(path)
        self._sharing = sharing
        self._known: BoundedDict[int, None] = BoundedDict(MANY_CHATS)

    async def put_into_store(self) -> None:
        """Let the store know what the file of before says.

        Raises:
            DiskError: it cannot be reached.
        """
        await self._sharing.learn({f"{MOVED_FROM}:{new}": old for old, new in self._after.items()})

    async def look(self, chat: int, *, is_message: bool = True) -> None:
        """Have it known whether a chat is one that migrated.

        One look at a message is enough: Telegram sends what is said in the new chat only after its message about the
        migration has been acknowledged, and that is kept before. Of the bot's membership there it may tell earlier.

        Raises:
            DiskError: the store cannot be reached.
        """
        while chat not in self._known and chat not in self._before:
            before = await self._sharing.fact(f"{MOVED_FROM}:{chat}")
            if not isinstance(before, int):
                if is_message:
                    self._known[chat] = None
                return
            self._after[before], self._before[chat] = chat, before
            chat = before

    async def remember(self, old: int, new: int) -> None:
        """Do as the file does.

        Raises:
            DiskError: the store cannot be reached; nothing is remembered.
        """
        known = old in self._after or new in self._before
        if known or self.current(new) == old or old == new:  # nothing goes in circles
            return
        self._after[old], self._before[new] = new, old
        log.info("telegram: group %d is the supergroup %d now; the conversation goes on", old, new)
        try:
            await self._sharing.learn({f"{MOVED_FROM}:{new}": old})
        except StateError:
            del self._after[old], self._before[new]  # Telegram says so again
            raise
