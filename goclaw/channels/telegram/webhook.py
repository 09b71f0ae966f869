"""The webhook: Telegram calls the daemon in place of the poll loop; it needs a public https address.

The secret is checked before anything of the body is read, and 200 is returned only when the update is durable; any
other status makes Telegram send the update again. A body with the secret that is no update can only be a fault of
Telegram's or of a proxy's, which no repetition mends: it is logged and acknowledged.
"""

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telegram import Bot
from telegram.error import BadRequest, InvalidToken, TelegramError

from goclaw.channels.base import ChannelPorts
from goclaw.channels.telegram.connection import PollHealth
from goclaw.channels.telegram.exchange import ALLOWED_UPDATES
from goclaw.channels.telegram.request import Flood, read_json
from goclaw.common.config.state import WEBHOOK_SECRET
from goclaw.common.core.clock import Backoff
from goclaw.common.core.files import Writer, create_file, lock_folder
from goclaw.errors import StateError

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger(__name__)

HEADER = "X-Telegram-Bot-Api-Secret-Token"
CONNECTIONS = 20
"""Maximum concurrent calls of Telegram; those of one chat it makes one after the other."""
LOOK_SECONDS = 120.0
"""Seconds between two checks of the webhook's state: only Telegram knows of calls that do not arrive."""
ALERT = "telegram:webhook"

Take = Callable[[dict[str, Any]], Awaitable[None]]


class Webhook:
    """Takes updates in while `run` runs; before and after that Telegram is asked to come again."""

    def __init__(self, bot: Bot, url: str, secret: str, health: PollHealth, ports: ChannelPorts) -> None:
        self._bot = bot
        self._url = url
        self._secret = secret
        self._health = health
        self._clock = ports.clock
        self._alerts = ports.alerts
        self._take: Take | None = None
        self._stands_by = False
        self._registered_at: float | None = None
        self._last_update: float | None = None
        self._problem = ""

    async def run(self, take: Take) -> None:
        """Give every update to `take`, and acknowledge it when that has returned. Returns when the token is refused."""
        with self.listening(take):
            await self.maintain_registration()

    @contextmanager
    def listening(self, take: Take, *, stands_by: bool = False) -> Iterator[None]:
        """Give updates to `take` while the block runs; `stands_by`: another process may see to the registration."""
        self._take, self._stands_by = take, stands_by
        try:
            yield
        finally:
            self._take = None

    async def maintain_registration(self) -> None:
        """Register our address, and again when it is taken away. Returns when the token is refused."""
        self._stands_by = False
        try:
            while True:
                await self._register()
                await self._watch()
        except InvalidToken:
            self._registered_at, self._problem = None, ""
            self._health.record_token_refusal()

    def stand_by(self) -> None:
        """Another process may see to the registration from here on."""
        self._stands_by, self._registered_at, self._problem = True, None, ""

    async def receive(self, request: "web.Request") -> "web.StreamResponse":
        """Handle one call of Telegram."""
        from aiohttp import web  # 2 MB that polling does not need

        given = request.headers.get(HEADER, "")
        if not hmac.compare_digest(given.encode(errors="replace"), self._secret.encode()):
            raise web.HTTPForbidden
        if self._take is None:
            raise web.HTTPServiceUnavailable
        update = _update_in(await request.read())
        if update is not None:
            try:
                await self._take(update)
            except StateError as error:
                log.warning("telegram: an update could not be stored; Telegram will send it again: %s", error)
                raise web.HTTPServiceUnavailable from None
            self._last_update = self._clock.monotonic()
        return web.Response(status=HTTPStatus.OK)

    def line(self) -> str:
        """Return the state in words, for `/status`; empty while there is nothing to say but what `PollHealth` knows."""
        if self._problem or (self._registered_at is None and not self._stands_by):
            return self._problem
        if self._last_update is None:
            return "webhook, no update since the start"
        return f"webhook, last update {self._clock.monotonic() - self._last_update:.0f} s ago"

    async def _register(self) -> None:
        """Register our address with Telegram until it succeeds; waiting updates stay for us."""
        backoff = Backoff(first=1.0, longest=60.0)
        while True:
            try:
                await self._bot.set_webhook(
                    self._url,
                    allowed_updates=ALLOWED_UPDATES,
                    drop_pending_updates=False,
                    max_connections=CONNECTIONS,
                    secret_token=self._secret,
                )
            except InvalidToken:
                raise
            except TelegramError as error:
                refused = isinstance(error, BadRequest)
                what = "Telegram rejects telegram.webhook.url" if refused else "no connection"
                self._trouble(f"{what}: {error.message}", alert=refused)
                pause = backoff.next()
                await self._clock.sleep(max(error.seconds, pause) if isinstance(error, Flood) else pause)
            else:
                log.info("telegram: Telegram calls us at %s", self._url)
                self._registered_at = self._clock.now()
                self._fine()
                self._health.record_connection()
                return

    async def _watch(self) -> None:
        """Ask now and then how Telegram's calls fare; returns when the address is no longer registered."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                found = await self._bot.get_webhook_info()
            except InvalidToken:
                raise
            except TelegramError as error:
                # Calls may arrive all the same, so that is no trouble of the webhook's.
                log.info("telegram: the state of the webhook could not be read: %s", error.message)
                continue
            if found.url != self._url:
                log.warning("telegram: somebody removed the webhook; setting it again")
                return
            failed_at = found.last_error_date.timestamp() if found.last_error_date else 0.0
            if found.pending_update_count and failed_at > max(self._registered_at or 0.0, self._latest_success()):
                waiting = f"{found.pending_update_count} update(s) waiting"
                self._trouble(f"Telegram cannot reach the webhook: {found.last_error_message}; {waiting}", alert=True)
            else:
                self._fine()

    def _latest_success(self) -> float:
        """When an update came in last, in epoch seconds."""
        if self._last_update is None:
            return 0.0
        return self._clock.now() - (self._clock.monotonic() - self._last_update)

    def _trouble(self, problem: str, *, alert: bool = False) -> None:
        if problem != self._problem:
            log.warning("telegram: %s", problem)
        self._problem = problem
        if alert:
            self._alerts.tell(ALERT, problem)

    def _fine(self) -> None:
        self._problem = ""
        self._alerts.clear(ALERT)


def is_generated_secret(secret: str, state_dir: Path) -> bool:
    """Whether a configured secret is that of the file, which GoClaw has made, and not one that its operator chose."""
    with suppress(OSError, UnicodeDecodeError):
        return _secret_path(state_dir).read_text("ascii").strip() == secret
    return False


def _secret_path(state_dir: Path) -> Path:
    return state_dir / "secrets" / WEBHOOK_SECRET  # the next start reads it as `telegram.webhook.secret`


def load_secret(state_dir: Path, writer: Writer = lock_folder) -> str:
    """Return the secret of this installation; created at the first call, readable for its owner only.

    `writer`: changes the file, which all processes share that use the store.

    Raises:
        StateError: the file can be neither read nor made.
    """
    path = _secret_path(state_dir)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with writer(path):
            if not path.exists():
                with create_file(path) as file:
                    file.write(secrets.token_urlsafe(32).encode())
            secret = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: the webhook's secret can be neither read nor created: {error}") from error
    if not secret:
        raise StateError(f"{path} is empty: remove it, and GoClaw creates a new secret")
    return secret


def _update_in(body: bytes) -> dict[str, Any] | None:
    """Return the update in a body; None, with a line in the log, for anything else."""
    found = read_json(body)
    if isinstance(found, dict) and type(found.get("update_id")) is int:
        return found
    log.error("telegram: ignored %d bytes that are not an update", len(body))
    return None
