"""Groups that are not in `telegram.groups`: their messages are ignored. The operator gets their ids, to list them.

Any person can put a bot into a group, so only an admin who does so gets a private message; else there is a log line.
"""

import logging
from collections.abc import Callable

from goclaw.bounded import BoundedDict
from goclaw.channels.telegram.inbound import CHANNEL
from goclaw.clock import Clock
from goclaw.events import Actor, Alerts

log = logging.getLogger(__name__)

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

    def heard(self, chat: int) -> None:
        """Log that a message came from the group, once in a while."""
        now = self._clock.monotonic()
        if now - self._said.get(chat, -SAID_SECONDS) < SAID_SECONDS:
            return
        self._said[chat] = now
        log.warning(
            "telegram: ignored a message in group %d, which is not listed: add %d to telegram.groups", chat, chat
        )

    def joined(self, chat: int, by: int) -> None:
        """Report that the bot was put into the group."""
        log.warning("telegram: %d put the bot into group %d, which is not listed in telegram.groups", by, chat)
        if self._is_admin(Actor(f"{CHANNEL}:{by}", CHANNEL)):
            self._alerts.tell(
                _key(chat),
                f"an admin put me into the Telegram group {chat}, where I hear nothing yet. To let listed people talk "
                f"to me there, add {chat} to telegram.groups in the configuration, then `goclaw restart`.",
            )

    def left(self, chat: int) -> None:
        """The bot is there no more."""
        self._alerts.clear(_key(chat))


def _key(chat: int) -> str:
    return f"telegram:group:{chat}"
