"""Chats where the bot cannot write, or does not listen: blocked chats, and groups that are not listed.

Nothing is sent to a chat that refuses messages (blocked, deleted, left) until it opens again: a message comes from
there, Telegram reports it, or a delivery succeeds; one is tried every hour, in case no update came. In memory only: a
restart tries each chat once.

Messages of groups that are not in `telegram.groups` are ignored; the operator gets the ids, to list them. Any person
can put a bot into a group, so only an admin who does so gets a private message; else there is a log line.
"""

import logging
from collections.abc import Callable, Mapping

from goclaw.channels.telegram.chat_migrations import ChatMigrations
from goclaw.channels.telegram.updates import CHANNEL, Membership
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import Actor, Alerts
from goclaw.common.core.records import BoundedDict, record
from goclaw.errors import DeliveryError

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
            self._alert(chat, reason)
            raise DeliveryError(reason, closed=True)

    def close(self, chat: int, reason: str) -> None:
        """A chat took no message: nothing more is tried there."""
        self._note(chat, reason)
        self._alert(chat, reason)

    def report_closed_topic(self, chat: int) -> DeliveryError:
        """Report once to the operator that a group's General topic refused a message; return the error of its delivery.

        Its other topics may be open: nothing is held back in the group.
        """
        if chat not in self._told:
            self._told.add(chat)
            log.warning("the General topic of group %d is closed; a message was not sent", chat)
            self._alerts.tell(
                _blocked_key(chat),
                f"I could not send a message to the Telegram group {chat} because its General topic is closed. Reopen "
                "the topic, or let the bot manage topics as an admin of the group.",
            )
        return DeliveryError("telegram: the General topic of the group is closed", closed=True)

    def open(self, chat: int) -> None:
        """Mark a chat as open: it takes messages (again), or a message came from there."""
        if self._closed.pop(chat, None) or chat in self._told:
            self._told.discard(chat)
            self._alerts.clear(_blocked_key(chat))

    def mark(self, chat: int) -> None:
        """Mark a chat as blocked, as Telegram reports; no alert is needed while nothing is sent there."""
        self._note(chat, "telegram: the bot was blocked or removed from the chat")

    def _note(self, chat: int, reason: str) -> None:
        if len(self._closed) >= MAX_CHATS:
            self._closed.clear()
            self._told.clear()
        self._closed[chat] = (reason, self._clock.monotonic())

    def _alert(self, chat: int, reason: str) -> None:
        """The log and the operator, once."""
        if chat in self._told:
            return
        self._told.add(chat)
        log.warning("chat %d no longer accepts messages; nothing is sent there until it does: %s", chat, reason)
        self._alerts.tell(
            _blocked_key(chat),
            f"Telegram chat {chat} no longer accepts messages ({reason}). Nothing is sent there until somebody writes "
            "to the bot in it again.",
        )


def _blocked_key(chat: int) -> str:
    return f"telegram:blocked:{chat}"


SAID_SECONDS = 60.0
"""Seconds between two log lines about the same group."""
MAX_GROUPS = 1_000
"""Maximum groups remembered for that."""


class UnlistedGroups:
    """Log lines and alerts about groups that are not listed."""

    def __init__(self, is_admin: Callable[[Actor], bool], alerts: Alerts, clock: Clock) -> None:
        self._is_admin = is_admin
        self._alerts = alerts
        self._clock = clock
        self._said: BoundedDict[int, float] = BoundedDict(MAX_GROUPS)

    def log_message(self, chat: int) -> None:
        """Log that a message came from the group, once in a while."""
        now = self._clock.monotonic()
        if now - self._said.get(chat, -SAID_SECONDS) < SAID_SECONDS:
            return
        self._said[chat] = now
        log.warning(
            "telegram: ignored a message in group %d, which is not listed: add %d to telegram.groups", chat, chat
        )

    def report_join(self, chat: int, by: int) -> None:
        """Report that the bot was put into the group."""
        log.warning("telegram: %d added the bot to group %d, which is not listed in telegram.groups", by, chat)
        if self._is_admin(Actor(f"{CHANNEL}:{by}", CHANNEL)):
            self._alerts.tell(
                _unlisted_key(chat),
                f"an admin added me to the Telegram group {chat}, where I do not answer yet. To let listed people "
                f"talk to me there, add {chat} to telegram.groups in the configuration, then "
                f"{daemon_command('restart')}.",
            )

    def forget(self, chat: int) -> None:
        """Note that the bot has left."""
        self._alerts.clear(_unlisted_key(chat))


def _unlisted_key(chat: int) -> str:
    return f"telegram:group:{chat}"


@record
class ChatAccess:
    """The bot's own place in its chats."""

    blocked: BlockedChats
    unlisted: UnlistedGroups
    migrations: ChatMigrations
    groups: Mapping[int, int]
    """The listed groups (`telegram.groups`), with what each keeps of what others say."""

    def note(self, change: Membership) -> None:
        """Note that the bot was put into a chat, or taken out of it."""
        if change.reachable:
            self.blocked.open(change.chat)
        else:
            self.blocked.mark(change.chat)
        if not change.private:
            self._note_group(change)

    def _note_group(self, change: Membership) -> None:
        what = "was added to" if change.reachable else "was removed from"
        log.info("telegram: the bot %s group %d, by %d", what, change.chat, change.by)
        is_listed = change.chat in self.groups or self.migrations.origin(change.chat) in self.groups
        if not change.reachable:
            self.unlisted.forget(change.chat)
        elif not is_listed:
            self.unlisted.report_join(change.chat, change.by)
