"""Who takes updates in: the one process of a store, or one of several.

Where several share a store, each one sends, and shows the turns of its sessions. One polls, or sees to the registration
of the webhook; it also hands over the leftovers of others that die. With a webhook each one takes updates.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial
from typing import Any, Protocol

from goclaw.channels.processes import Processes
from goclaw.channels.state import ChannelState
from goclaw.channels.telegram.connection import PollHealth
from goclaw.channels.telegram.poll_lock import BotInUse
from goclaw.channels.telegram.polling import Poller
from goclaw.channels.telegram.rate_limits import RateLimiter
from goclaw.channels.telegram.update_handler import UpdateHandler
from goclaw.channels.telegram.updates import chat_of
from goclaw.channels.telegram.webhook import Webhook
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.errors import StateError

log = logging.getLogger(__name__)

LOCK_SECONDS = 5.0
"""Seconds between two checks whether another GoClaw has released the bot."""
DUTY = "telegram-poll"
"""The duty to poll, or to register the webhook and watch it: of replicas that are set otherwise one does either."""
LOOK_SECONDS = 1.0
"""Seconds between two looks whether a store that was away can be reached again."""
HOLD = "telegram-hold"
"""Kind of what processes tell each other: a chat with which Telegram asked one of them to wait, and the seconds."""


class Listening(Protocol):
    """Takes updates in while `run` runs."""

    async def run(self, intake: UpdateHandler, webhook: Webhook | None, poller: Callable[[], Poller]) -> None:
        """Take updates in from the webhook; None: from polls. Returns when the token is refused."""
        ...


async def _set_menus(intake: UpdateHandler, clock: Clock) -> None:
    await run_with_restarts("telegram menus", partial(intake.menus.run, intake.gateway), clock)


class ListeningAlone:
    """Where no other process uses the store: another GoClaw of this machine may still have the bot."""

    def __init__(self, lock: Callable[[], AbstractContextManager[object]], health: PollHealth, clock: Clock) -> None:
        """`lock` holds the bot; raises `BotInUse`."""
        self._lock = lock
        self._health = health
        self._clock = clock

    async def run(self, intake: UpdateHandler, webhook: Webhook | None, poller: Callable[[], Poller]) -> None:
        source = webhook or poller()
        while True:
            try:
                with self._lock():
                    async with background(_set_menus(intake, self._clock), "telegram menus"):
                        return await source.run(intake.handle)
            except BotInUse as error:
                self._health.record_lock(str(error), LOCK_SECONDS)
            await self._clock.sleep(LOCK_SECONDS)


class ListeningAmongOthers:
    """Where several processes share the store."""

    def __init__(
        self, processes: Processes, state: ChannelState, limiter: RateLimiter, health: PollHealth, clock: Clock
    ) -> None:
        """Has 429 honoured by all processes, whichever of them gets it."""
        self._processes = processes
        self._state = state
        self._health = health
        self._clock = clock
        self._telling: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        """Set while `run` runs."""

        def on_hold(words: str) -> None:
            chat, _, seconds = words.partition(" ")
            limiter.adopt_pause(int(chat), float(seconds))

        processes.subscribe(HOLD, on_hold)
        limiter.on_hold = self._broadcast_pause

    async def run(self, intake: UpdateHandler, webhook: Webhook | None, poller: Callable[[], Poller]) -> None:
        async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
            self._tasks = tasks
            stack.callback(self._end)
            following = run_with_restarts("telegram beside other processes", self._processes.follow, self._clock)
            await stack.enter_async_context(background(following, "telegram beside other processes"))
            if webhook:
                stack.enter_context(webhook.listening(intake.handle, stands_by=True))
            await run_with_restarts(DUTY, partial(self._lead, intake, webhook, poller), self._clock)

    def _end(self) -> None:
        self._tasks = None
        for task in self._telling:
            task.cancel()

    async def _lead(self, intake: UpdateHandler, webhook: Webhook | None, poller: Callable[[], Poller]) -> None:
        """Do what one process does, when it is this one. Returns when the token is refused.

        Raises:
            DiskError: the duty is lost.
        """
        had_duty = False

        async def listen() -> None:
            nonlocal had_duty
            had_duty = True
            looking = run_with_restarts("messages left behind", intake.adopt_groups, self._clock)
            menus = background(_set_menus(intake, self._clock), "telegram menus")
            async with background(looking, "messages left behind"), menus:
                await (webhook.maintain_registration() if webhook else poller().run(intake.handle))

        self._health.stand_by()
        try:
            await self._processes.lead(DUTY, listen)
        except (StateError, ExceptionGroup):  # the duty is lost, or the poller could not have a message kept
            if webhook:
                webhook.stand_by()
            elif had_duty:
                await self._poll_without_store(intake, poller())
            raise

    async def _poll_without_store(self, intake: UpdateHandler, poller: Poller) -> None:
        """Go on polling while the store is away: nothing is acknowledged, but people learn why they wait.

        Ends when the store can be reached, or another process polls: that one can reach it.
        """
        waiting = set[int | None]()

        async def handle(update: Any) -> None:
            chat = chat_of(update)
            if chat not in waiting:
                try:
                    await intake.handle(update)
                    return
                except StateError:
                    # Its sender was told. It is not acknowledged, and comes again when the store is back.
                    waiting.add(chat)
            # Nor is what follows in this chat taken before it.
            await asyncio.Event().wait()

        polling = run_with_restarts("polling without the store", partial(poller.run, handle), self._clock)
        async with background(polling, "polling without the store"):
            while not poller.conflicts and not await self._is_reachable():
                await self._clock.sleep(LOOK_SECONDS)

    async def _is_reachable(self) -> bool:
        try:
            await self._state.fact(DUTY)
        except StateError:
            return False
        return True

    def _broadcast_pause(self, chat: int, seconds: float) -> None:
        if self._tasks is None:
            return

        async def broadcast() -> None:
            try:
                await self._processes.broadcast(HOLD, f"{chat} {seconds:g}")
            except StateError as error:
                log.debug("other processes were not told of a request to wait: %s", error)

        task = self._tasks.create_task(broadcast())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
