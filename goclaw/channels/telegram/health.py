"""How the connection to Telegram is doing: one line for `/status`, and log lines that do not repeat themselves."""

import logging

from telegram.error import Conflict, TelegramError

from goclaw.clock import Clock

log = logging.getLogger(__name__)

REFUSED = (
    "the bot token is refused (401 or 404); check telegram.token (from @BotFather) and telegram.base_url, then restart"
)
CONFLICT = "another program uses this bot's token, or it has a webhook (409); stop the other one"


class Health:
    """Told by the poll loop what happens."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_answer: float | None = None
        self._problem = ""
        self._retry_at: float | None = None

    def answered(self) -> None:
        """Telegram answered something; a poll may still be in trouble."""
        self._last_answer = self._clock.monotonic()

    def polled(self) -> None:
        """Telegram answered a poll."""
        if self._problem:
            log.info("telegram answers again")
        self._problem, self._retry_at = "", None
        self.answered()

    def trouble(self, error: TelegramError, pause: float) -> None:
        """Something went wrong that waiting may mend; the next try comes in `pause` seconds."""
        problem = f"{CONFLICT} ({error.message})" if isinstance(error, Conflict) else f"no connection: {error.message}"
        if problem != self._problem:
            log.warning("telegram: %s", problem)
        self._problem, self._retry_at = problem, self._clock.monotonic() + pause

    def token_refused(self) -> None:
        """Only the operator can mend this."""
        log.error("telegram: %s", REFUSED)
        self._problem, self._retry_at = REFUSED, None

    def line(self) -> str:
        """The state in words."""
        now = self._clock.monotonic()
        if self._problem:
            again = "" if self._retry_at is None else f"; next try in {max(0.0, self._retry_at - now):.0f} s"
            return self._problem + again
        if self._last_answer is None:
            return "connecting"
        return f"polling, last answer {now - self._last_answer:.0f} s ago"
