"""The connection to Telegram: its health in words.

Health is one line for `/status`, log lines without repetitions, and alerts. Only a finished poll counts: a connection,
or the success of other calls, does not show that messages arrive.
"""

import logging

from telegram.error import Conflict, TelegramError

from goclaw.channels.telegram.request import Flood
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Alerts
from goclaw.common.core.events.ports import NoAlerts

log = logging.getLogger(__name__)


REFUSED = (
    "Telegram refuses the bot token (401 or 404); check telegram.token (from @BotFather) and telegram.base_url, "
    "then restart"
)
CONFLICT = "another program uses this bot's token (409); stop that program"
WEBHOOK = (
    "the bot has a webhook, so Telegram allows no polling (409); another program that uses this bot keeps setting it"
)
LOCKED = "already polls with this bot's token; stop it there, or use another bot here"
STANDING_BY = "another replica polls"
SILENT = "no answer to a poll for a while; reconnecting"

LASTING_SECONDS = 30.0
"""Seconds of pause from which a conflict is lasting: it is not just the last poll of an old run."""
TOKEN_ALERT = "telegram:token"  # noqa: S105 - the name of a fault
CONFLICT_ALERT = "telegram:conflict"


class PollHealth:
    """The results of polls, reported by the poll loop."""

    def __init__(self, clock: Clock, alerts: Alerts | None = None) -> None:
        self._clock = clock
        self._alerts = alerts or NoAlerts()
        self._last_answer: float | None = None
        self._problem = ""
        self._said: set[str] = set()
        self._retry_at: float | None = None
        self._stands_by = False

    def record_poll(self) -> None:
        """Telegram answered a poll."""
        self.record_connection()
        self._last_answer = self._clock.monotonic()

    def record_connection(self) -> None:
        """Note that the token works and that no other poller takes the messages."""
        if self._said:
            log.info("telegram answers again")
            self._said.clear()
        self._alerts.clear(TOKEN_ALERT)
        self._alerts.clear(CONFLICT_ALERT)
        self._problem, self._retry_at = "", None

    def stand_by(self) -> None:
        """Another process that shares the store polls, until this one does."""
        self._stands_by, self._last_answer = True, None
        self._problem, self._retry_at = "", None

    def trouble(self, error: TelegramError, pause: float) -> None:
        """A poll failed in a way that waiting may mend; the next try comes in `pause` seconds."""
        self._show(*_trouble(error))
        self._retry_at = self._clock.monotonic() + pause
        if isinstance(error, Conflict) and pause >= LASTING_SECONDS:
            self._alerts.tell(CONFLICT_ALERT, f"Telegram: {self._problem}.")

    def silent(self) -> None:
        """No poll finished for so long that the client is rebuilt."""
        self._show("silent", SILENT)
        self._retry_at = None

    def record_lock(self, holder: str, pause: float) -> None:
        """Another GoClaw of this machine polls with our token."""
        self._show("locked", f"{holder} {LOCKED}")
        self._retry_at = self._clock.monotonic() + pause
        self._alerts.tell(CONFLICT_ALERT, f"Telegram: {self._problem}.")

    def record_token_refusal(self) -> None:
        """Only the operator can mend this."""
        log.error("telegram: %s", REFUSED)
        self._problem, self._retry_at = REFUSED, None
        self._alerts.tell(TOKEN_ALERT, f"Telegram: {REFUSED}.")

    def line(self) -> str:
        """Return the state in words."""
        now = self._clock.monotonic()
        if self._problem:
            again = "" if self._retry_at is None else f"; next try in {max(0.0, self._retry_at - now):.0f} s"
            return self._problem + again
        if self._last_answer is None:
            return STANDING_BY if self._stands_by else "connecting"
        return f"polling, last answer {now - self._last_answer:.0f} s ago"

    def _show(self, kind: str, problem: str) -> None:
        """Each kind of trouble is logged once, until polls are answered again."""
        if kind not in self._said:
            self._said.add(kind)
            log.warning("telegram: %s", problem)
        self._problem = problem


def is_webhook(error: Conflict) -> bool:
    """Whether a conflict is due to a webhook.

    The Bot API server's other text is `terminated by other getUpdates request`.
    """
    return "webhook" in error.message.lower()


def _trouble(error: TelegramError) -> tuple[str, str]:
    """Return the kind of a trouble, and what people read."""
    if isinstance(error, Conflict):
        said = WEBHOOK if is_webhook(error) else CONFLICT
        return said, f"{said} ({error.message})"
    if isinstance(error, Flood):
        return "flood", error.message
    return error.message, f"no connection: {error.message}"
