"""The poll loop: an update is acknowledged to Telegram only after it is durable, with everything that came before it.

The library's own Updater raises the offset first and handles later; a crash in between loses messages. Polling
goes on while something is not durable yet (a slow disk): with an offset that stays below it, so that Telegram repeats
it, which is passed over.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from telegram import Bot
from telegram.error import Conflict, InvalidToken, NetworkError, TelegramError

from goclaw.channels.telegram.connection import PollHealth, is_webhook
from goclaw.channels.telegram.exchange import ANSWER_MARGIN, poll_parameters
from goclaw.channels.telegram.request import Flood, PollingRequest, Unanswered, Unsent, call
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.supervise import ends_within

log = logging.getLogger(__name__)

GAP = 0.5
"""Seconds between the beginnings of two polls, unless the first one brought news: at most two polls a second."""
FIRST_PAUSE = 0.5
"""Seconds before the next try after trouble."""
MAX_PAUSE = 30.0
MAX_CONFLICT_PAUSE = 60.0
"""Longer than any poll lives at Telegram's side (50 s): the other poller's last one is over by then."""
MAX_FLOOD_PAUSE = 3600.0
"""Maximum seconds to wait, whatever an answer says: one number must not stop the bot for days."""
SILENCE = 120.0
"""Seconds without a finished poll after which the client is rebuilt (openclaw's watchdog has the same)."""
MAX_POLL = 70.0
"""Maximum seconds of a healthy poll: the longest configurable wait (50), plus connecting and answering."""
FIRST_LOOK, MAX_LOOK = 0.1, 0.5
"""Seconds before the next poll while something is not durable yet: growing, because it may be a disk in trouble."""
IDLE_SECONDS = 6 * 24 * 3600.0
"""Seconds without updates after which the offset is forgotten.

After a week without updates Telegram may continue with smaller ids (Bot API, Update). Forgetting the offset only makes
it send unconfirmed updates again.
"""

Updates = Sequence[dict[str, Any]]
Take = Callable[[dict[str, Any]], Awaitable[None]]


class Stalled(Exception):
    """A poll that took too long to expect an answer."""


class UpdateAcks:
    """Durability of updates, and the offset up to which they may be acknowledged."""

    def __init__(self) -> None:
        self.offset: int | None = None
        self._seen: set[int] = set()
        self._working: set[int] = set()
        self._settled: asyncio.Future[None] | None = None
        """Waited for by `wait_until_idle`; None: nothing waits."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being made durable."""
        return not self._working

    def new_among(self, updates: Updates) -> Updates:
        """Return those that are not known: not being taken, nor durable and merely repeated."""
        return [update for update in updates if update["update_id"] not in self._seen]

    def start(self, update_id: int) -> None:
        """An update is being made durable."""
        self._seen.add(update_id)
        self._working.add(update_id)

    def end(self, update_id: int) -> None:
        """It is durable: it and those before it may be acknowledged, up to the first that is not."""
        self._working.discard(update_id)
        self.offset = min(self._working, default=max(self._seen) + 1)
        if self._settled and not self._working and not self._settled.done():
            self._settled.set_result(None)

    async def wait_until_idle(self, clock: Clock, seconds: float) -> bool:
        """Wait until nothing is being made durable, at most so many seconds; returns whether it is so."""
        if not self.is_idle:
            self._settled = asyncio.get_running_loop().create_future()
            await ends_within(self._settled, clock, seconds)
        return self.is_idle

    def confirm(self, offset: int | None) -> None:
        """Note that a poll with this offset was answered: no update before it comes again.

        A poll with an older offset may be under way until then.
        """
        if offset is not None:
            self._seen = {seen for seen in self._seen if seen >= offset}

    def forget_offset(self) -> None:
        """Have everything sent again that is not acknowledged."""
        if not self._working:
            self.offset = None
            self._seen.clear()


class Poller:
    """Takes updates in until it is cancelled or the token turns out to be wrong."""

    def __init__(self, bot: Bot, line: PollingRequest, clock: Clock, health: PollHealth, poll_seconds: int) -> None:
        self._bot = bot
        self._line = line
        self._clock = clock
        self._health = health
        self._poll_seconds = poll_seconds
        self._receipts = UpdateAcks()
        self._backoff = Backoff(FIRST_PAUSE, MAX_PAUSE)
        self._looks = Backoff(FIRST_LOOK, MAX_LOOK)
        self._probe = True
        """The next poll asks for an answer at once: it shows that the connection works before a message comes."""
        self._began_at = -GAP
        self._last_finished = self._last_news = clock.monotonic()
        self._webhook_removed = False
        self.conflicts = 0
        """How often Telegram has answered that another process polls, or a webhook is set."""

    async def run(self, take: Take) -> None:
        """Give every update to `take`, those of one batch in order; acknowledge it when that has returned.

        Returns when the token is refused. What `take` raises ends this: then nothing more is acknowledged.
        """
        async with asyncio.TaskGroup() as group:
            tasks: set[asyncio.Task[None]] = set()
            while await self._poll_on_one_client(take, group, tasks):
                self._health.silent()
            for task in tasks:
                task.cancel()  # not durable, so it is not acknowledged either

    async def _poll_on_one_client(self, take: Take, group: asyncio.TaskGroup, tasks: set[asyncio.Task[None]]) -> bool:
        """Poll until no poll finishes any more (True), or the token is refused (False)."""
        self._last_finished = self._clock.monotonic()
        async with self._line.client():
            while self._silence() < SILENCE:
                try:
                    updates = await self._poll()
                except Stalled:
                    break
                except InvalidToken:
                    self._health.record_token_refusal()
                    return False
                except TelegramError as error:
                    await self._wait_after(error)
                    continue
                for update in self._receipts.new_among(updates):
                    self._last_news = self._clock.monotonic()
                    self._receipts.start(update["update_id"])
                    task = group.create_task(self._handle(take, update))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                await self._wait_for_receipts()
        return True

    def _silence(self) -> float:
        """Return the seconds since the last finished poll, successful or not."""
        return self._clock.monotonic() - self._last_finished

    async def _handle(self, take: Take, update: dict[str, Any]) -> None:
        await take(update)
        self._receipts.end(update["update_id"])

    async def _wait_for_receipts(self) -> None:
        """Go on when everything is durable; after a little while also with the rest."""
        await asyncio.sleep(0)  # most need no longer than this
        if self._receipts.is_idle:
            self._looks.reset()
            return
        if await self._receipts.wait_until_idle(self._clock, self._looks.next()):
            self._looks.reset()
        self._began_at = -GAP  # this was the pause

    async def _poll(self) -> Updates:
        began = self._clock.monotonic()
        if began - self._last_news > IDLE_SECONDS:
            self._last_news = began
            self._receipts.forget_offset()
        if (early := self._began_at + GAP - began) > 0:
            await self._clock.sleep(early)
        self._began_at = self._clock.monotonic()
        probe, self._probe = self._probe, False
        offset = self._receipts.offset
        found = await self._await_answer(self._ask(0 if probe else self._poll_seconds))
        updates = parse_updates(found)
        self._receipts.confirm(offset)
        self._last_finished = self._clock.monotonic()
        self._health.record_poll()
        if not probe:
            self._backoff.reset()
        if self._are_news(updates):
            self._began_at = -GAP
        return updates

    def _are_news(self, updates: Updates) -> bool:
        """Whether there is something that Telegram does not only repeat."""
        offset = self._receipts.offset or 0
        return any(update["update_id"] >= offset for update in self._receipts.new_among(updates))

    async def _ask(self, seconds: int) -> Any:
        parameters = poll_parameters(seconds)
        # The first poll has no offset: what was not acknowledged before a crash comes again.
        if self._receipts.offset is not None:
            parameters["offset"] = self._receipts.offset
        return await call(self._bot, "getUpdates", parameters, seconds + ANSWER_MARGIN, self._line)

    async def _await_answer(self, asking: Awaitable[Any]) -> Any:
        """Return an answer; cancel the request when the watchdog's time is over."""
        poll = asyncio.ensure_future(asking)
        try:
            if not await ends_within(poll, self._clock, max(SILENCE - self._silence(), MAX_POLL)):
                raise Stalled
            return poll.result()
        finally:
            poll.cancel()
            await asyncio.wait({poll})  # its connection is free, or closed, before another one begins

    async def _wait_after(self, error: TelegramError) -> None:
        """Pause, longer each time, for what waiting may mend."""
        if not isinstance(error, Unsent | Unanswered):
            self._last_finished = self._clock.monotonic()  # an answer, if not a good one
        self.conflicts += isinstance(error, Conflict)
        if isinstance(error, Conflict) and is_webhook(error) and await self._remove_webhook():
            return
        pause = self._backoff.next(MAX_CONFLICT_PAUSE if isinstance(error, Conflict) else None)
        if isinstance(error, Flood):
            pause = min(max(FIRST_PAUSE, error.seconds), MAX_FLOOD_PAUSE)
        self._probe = isinstance(error, Unsent | Unanswered)
        self._health.trouble(error, pause)
        await self._clock.sleep(pause)

    async def _remove_webhook(self) -> bool:
        """Delete a webhook that blocks polling, once: if it is set again, that has a reason.

        Updates that wait at Telegram stay there: `drop_pending_updates` is not given.
        """
        if self._webhook_removed:
            return False
        try:
            await self._bot.delete_webhook()
        except TelegramError as error:
            log.warning("telegram: the webhook could not be removed: %s", error.message)
            return False
        self._webhook_removed = True
        log.warning("telegram: removed the bot's webhook because telegram.mode is polling")
        return True


def parse_updates(found: Any) -> Updates:
    """Return the updates in an answer, in order; other items are skipped, so that the rest is not held up.

    Raises:
        NetworkError: the answer is no list of updates.
    """
    items = found if isinstance(found, list) else [found]
    updates = [item for item in items if isinstance(item, dict) and type(item.get("update_id")) is int]
    if not isinstance(found, list) or (items and not updates):
        raise NetworkError("getUpdates did not return a list of updates")
    return updates
