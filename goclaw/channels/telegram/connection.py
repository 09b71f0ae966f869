"""The connection to Telegram: its health in words, and the lock that makes one process its only poller.

Health is one line for `/status`, log lines without repetitions, and alerts. Only a finished poll counts: a connection,
or the success of other calls, does not show that messages arrive.

Telegram disconnects one of two pollers, so there is one per bot on this machine, across state folders. The lock is one
of the operating system on a file in the user's runtime folder: it ends with the process however that dies, so it is
never stale. The file's name has a hash of the bot's token and server; its content names the poller.
"""

import fcntl
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from telegram.error import Conflict, TelegramError

from goclaw.channels.telegram.request import Flood
from goclaw.core.clock import Clock
from goclaw.core.events import Alerts
from goclaw.core.events.ports import NoAlerts

log = logging.getLogger(__name__)


REFUSED = (
    "the bot token is refused (401 or 404); check telegram.token (from @BotFather) and telegram.base_url, then restart"
)
CONFLICT = "another program uses this bot's token (409); stop the other one"
WEBHOOK = "the bot has a webhook, so Telegram lets nobody poll (409); whoever set it again uses this bot, too"
LOCKED = "polls with this bot's token already; stop it there, or give this one a bot of its own"
SILENT = "no poll was answered for a while; the connection is made anew"

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

    def polled(self) -> None:
        """Telegram answered a poll."""
        self.connected()
        self._last_answer = self._clock.monotonic()

    def connected(self) -> None:
        """Note that the token works and that no other poller takes the messages."""
        if self._said:
            log.info("telegram answers again")
            self._said.clear()
        self._alerts.clear(TOKEN_ALERT)
        self._alerts.clear(CONFLICT_ALERT)
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

    def locked(self, holder: str, pause: float) -> None:
        """Another GoClaw of this machine polls with our token."""
        self._show("locked", f"{holder} {LOCKED}")
        self._retry_at = self._clock.monotonic() + pause
        self._alerts.tell(CONFLICT_ALERT, f"Telegram: {self._problem}.")

    def token_refused(self) -> None:
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
            return "connecting"
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


LOCK_TRIES = 20
"""Attempts to take a lock whose file disappears meanwhile."""
MAX_LOCK_NOTE = 4_096
"""Maximum bytes read of the lock's holder."""


class BotInUse(Exception):
    """Another process polls for this bot; the message says which."""


@contextmanager
def only_poller(token: str, base_url: str, state_dir: Path) -> Iterator[None]:
    """Hold the bot's lock on this machine until the block ends.

    Where no folder can hold the lock, the block runs without: Telegram itself still reports two pollers (409).

    Raises:
        Taken: another process does; the message is `another GoClaw (pid 5, /home/ann/.goclaw)`.
    """
    name = _lock_name(token, base_url)
    with ExitStack() as stack:
        # All of them: not every user who starts a daemon has the same environment.
        for folder in _lock_folders():
            stack.enter_context(_held(folder / name, f"pid {os.getpid()}, {state_dir}"))
        yield


@contextmanager
def _held(path: Path, note: str) -> Iterator[None]:
    """Hold one lock; its file is there only as long as it is held."""
    descriptor = _locked(path)
    if descriptor is None:
        yield
        return
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, note.encode(errors="replace"), 0)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Open and lock the file; None if it cannot be locked for another reason than a holder."""
    for _ in range(LOCK_TRIES):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            log.debug("%s is no lock: %s", path, error.strerror)
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(path, descriptor):
                return descriptor
        except BlockingIOError:
            note = os.pread(descriptor, MAX_LOCK_NOTE, 0).decode(errors="replace")
            os.close(descriptor)
            raise BotInUse(f"another GoClaw ({note})" if note else "another GoClaw") from None
        except OSError as error:
            log.debug("%s is no lock: %s", path, error.strerror)
        os.close(descriptor)
    return None


def _is_there(path: Path, descriptor: int) -> bool:
    """Whether what we locked is still what others will find: the last holder may just have taken it away."""
    found, held = path.stat(), os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def _lock_name(token: str, base_url: str) -> str:
    """Return the lock's file name: half a hash reveals nothing of the token, whose secret part has over 200 bits."""
    digest = hashlib.sha256(f"{base_url.rstrip('/')}\n{token}".encode()).hexdigest()
    return f"goclaw-telegram-{digest[:32]}.lock"


def _lock_folders() -> Iterator[Path]:
    """Yield the user's runtime folder, and one that is there without a login as well; those that are ours alone."""
    candidates = [Path(tempfile.gettempdir()) / f"goclaw-{os.geteuid()}"]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        candidates.insert(0, Path(runtime))
    for folder in candidates:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            log.debug("%s holds no lock: %s", folder, error.strerror)
            continue
        # In a folder of others they could take the lock, or lead us to another file.
        if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            yield folder
