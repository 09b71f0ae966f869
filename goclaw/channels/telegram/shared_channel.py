"""The Telegram channel of one process among several that share a store.

Each one sends, and shows the turns of its sessions. One polls, or sees to the registration of the webhook; it also
hands over what others leave behind that die. With a webhook each one takes updates.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from goclaw.channels.sharing import ChannelSharing
from goclaw.channels.telegram.connection import PollHealth
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.polling import Poller
from goclaw.channels.telegram.rate_limits import RateLimiter
from goclaw.channels.telegram.shared_state import SharedChatMigrations, SharedLiveMessageIds
from goclaw.channels.telegram.shared_updates import SharedUpdateHandler
from goclaw.channels.telegram.webhook import Webhook
from goclaw.config.schema import TelegramSettings
from goclaw.core.clock import Clock
from goclaw.core.supervise import background, keep_running
from goclaw.errors import StateError

log = logging.getLogger(__name__)

DUTY = "telegram-poll"
"""The duty to poll, or to register the webhook and watch it: of replicas that are set otherwise one does either."""
LOOK_SECONDS = 1.0
"""Seconds between two looks whether a store that was away can be reached again."""
HOLD = "telegram-hold"
"""Kind of what processes tell each other: a chat with which Telegram asked one of them to wait, and the seconds."""


class SharedListening:
    """What the channel does beside other processes, for as long as `run` runs."""

    def __init__(self, sharing: ChannelSharing, ids: Path, moved: Path, clock: Clock) -> None:
        """Reads the files of before: call this in a thread."""
        self.ids = SharedLiveMessageIds(ids, sharing)
        self.moved = SharedChatMigrations(moved, sharing)
        self._sharing = sharing
        self._clock = clock
        self._intake: SharedUpdateHandler | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        """Set while `run` runs."""
        sharing.takes.append(self.ids.take)

    def handler(self, settings: TelegramSettings, **parts: Any) -> SharedUpdateHandler:
        """Make the handler of updates; `parts`: those of `UpdateHandler`."""
        self._intake = SharedUpdateHandler(settings, **parts, sharing=self._sharing, moved=self.moved)
        return self._intake

    def connect(self, limiter: RateLimiter, live: LiveViews) -> None:
        """Have 429 honoured by all processes, whichever of them gets it, and live messages noted by their session."""
        self.ids.session_of = live.session_of

        def held(words: str) -> None:
            chat, _, seconds = words.partition(" ")
            limiter.held_elsewhere(int(chat), float(seconds))

        self._sharing.hear(HOLD, held)
        limiter.on_hold = self._tell

    async def run(self, webhook: Webhook | None, poller: Callable[[], Poller], health: PollHealth) -> None:
        """Take updates in: all that come, or those that are polled while this process has the duty.

        Returns when the token is refused. `handler` comes first.
        """
        intake = self._intake
        if intake is None:
            raise TypeError("there is no handler of updates")
        async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
            self._tasks = tasks
            stack.callback(self._end)
            for work in (self._sharing.follow, partial(self._import, intake)):
                beside = keep_running("telegram beside other processes", work, self._clock)
                await stack.enter_async_context(background(beside, "telegram beside other processes"))
            if webhook:
                stack.enter_context(webhook.listening(intake.take, stands_by=True))
            await keep_running(DUTY, partial(self._lead, intake, webhook, poller, health), self._clock)

    def _end(self) -> None:
        self._tasks = None
        for task in self._telling:
            task.cancel()

    async def _import(self, intake: SharedUpdateHandler) -> None:
        await self.moved.put_into_store()
        await intake.put_into_store()

    async def _lead(
        self, intake: SharedUpdateHandler, webhook: Webhook | None, poller: Callable[[], Poller], health: PollHealth
    ) -> None:
        """Do what one process does, when it is this one. Returns when the token is refused.

        Raises:
            DiskError: the duty is lost.
        """
        had_duty = False

        async def listen() -> None:
            nonlocal had_duty
            had_duty = True
            looking = keep_running("messages left behind", intake.look_after, self._clock)
            async with background(looking, "messages left behind"):
                await (webhook.keep_registered() if webhook else poller().run(intake.take))

        health.stand_by()
        try:
            await self._sharing.lead(DUTY, listen)
        except (StateError, ExceptionGroup):  # the duty is lost, or the poller could not have a message kept
            if webhook:
                webhook.stand_by()
            elif had_duty:
                await self._poll_without_store(intake, poller())
            raise

    async def _poll_without_store(self, intake: SharedUpdateHandler, poller: Poller) -> None:
        """Go on polling while the store is away: nothing is acknowledged, but people are told why they wait.

        Ends when the store can be reached, or another process polls: that one can reach it.
        """

        async def take(update: Any) -> None:
            try:
                await intake.take(update)
            except StateError:
                # Its sender was told. It is not acknowledged, and comes again when the store is back.
                await asyncio.Event().wait()

        polling = keep_running("polling without the store", partial(poller.run, take), self._clock)
        async with background(polling, "polling without the store"):
            while not poller.conflicts and not await self._is_reachable():
                await self._clock.sleep(LOOK_SECONDS)

    async def _is_reachable(self) -> bool:
        try:
            await self._sharing.fact(DUTY)
        except StateError:
            return False
        return True

    def _tell(self, chat: int, seconds: float) -> None:
        if self._tasks is None:
            return

        async def tell() -> None:
            try:
                await self._sharing.tell(HOLD, f"{chat} {seconds:g}")
            except StateError as error:
                log.debug("a request to wait is not told to other processes: %s", error)

        task = self._tasks.create_task(tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
