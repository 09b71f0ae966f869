"""Chats that refuse messages of the bot: blocked, deleted, left. Nothing is sent there until they open again.

A chat opens when a message comes from there, when Telegram reports it, or when a delivery succeeds: one is tried every
hour, in case no update came. In memory only: a restart tries each chat once.
"""

import logging

from goclaw.clock import Clock
from goclaw.errors import DeliveryError
from goclaw.events import Alerts

log = logging.getLogger(__name__)

CLOSED_SECONDS = 3600.0
MAX_CHATS = 10_000
"""Maximum closed chats that are remembered."""


class BlockedChats:
    """The chats that the bot cannot reach."""

    def __init__(self, alerts: Alerts, clock: Clock) -> None:
        self._alerts = alerts
        self._clock = clock
        self._closed: dict[int, tuple[str, float]] = {}
        self._told: set[int] = set()

    def ensure(self, chat: int) -> None:
        """See that something may be tried in a chat.

        Raises:
            DeliveryError: it is closed.
        """
        reason, since = self._closed.get(chat, ("", 0.0))
        if reason and self._clock.monotonic() - since < CLOSED_SECONDS:
            self._tell(chat, reason)
            raise DeliveryError(reason, closed=True)

    def close(self, chat: int, reason: str) -> None:
        """A chat took no message: nothing more is tried there."""
        self._note(chat, reason)
        self._tell(chat, reason)

    def open(self, chat: int) -> None:
        """Mark a chat as open: it takes messages (again), or a message came from there."""
        if self._closed.pop(chat, None) or chat in self._told:
            self._told.discard(chat)
            self._alerts.clear(_key(chat))

    def blocked(self, chat: int) -> None:
        """Mark a chat as blocked, as Telegram reports; no alert is needed while nothing is sent there."""
        self._note(chat, "telegram: the bot was blocked or taken out of the chat")

    def _note(self, chat: int, reason: str) -> None:
        if len(self._closed) >= MAX_CHATS:
            self._closed.clear()
            self._told.clear()
        self._closed[chat] = (reason, self._clock.monotonic())

    def _tell(self, chat: int, reason: str) -> None:
        """The log and the operator, once."""
        if chat in self._told:
            return
        self._told.add(chat)
        log.warning("chat %d takes no messages any more, nothing is sent there until it does: %s", chat, reason)
        self._alerts.tell(
            _key(chat),
            f"Telegram chat {chat} takes no messages any more ({reason}). Nothing is sent there until somebody writes "
            "to the bot there again.",
        )


def _key(chat: int) -> str:
    return f"telegram:blocked:{chat}"
