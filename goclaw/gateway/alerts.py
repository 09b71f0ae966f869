"""Alerts to an administrator about faults that need the operator: each fault is reported once while it lasts.

A fault is reported again only after it ended and came back, or when a day has passed. This state outlives restarts.
It is no log (the module that sees a fault logs it) and no monitoring: only what a person has to do something about
belongs here. Other modules use `events.Alerts`.
"""

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from goclaw.auth.users import Users
from goclaw.channels.base import Channel, Unrecorded
from goclaw.config.policies import ADMIN
from goclaw.config.schema import AlertSettings
from goclaw.config.webhooks import NOTIFY
from goclaw.core.bus import Bus
from goclaw.core.clock import Clock
from goclaw.core.events import Address, Delivery
from goclaw.core.redact import mask, printable
from goclaw.engine.outbox import Outbox
from goclaw.errors import DeliveryError, StateError
from goclaw.store.database import BoundStatement
from goclaw.store.settings import Settings

log = logging.getLogger(__name__)

FACT = "alerts"
"""Name of the stored fact: when each fault was reported, and when it ended."""
AGAIN_SECONDS = 24 * 3600.0
"""Interval after which a fault that lasts is reported again."""
SETTLE_SECONDS = 300.0
"""A fault that comes back this soon after its end is the same one, which comes and goes."""
GATHER_SECONDS = 60.0
"""Minimum interval between messages: simultaneous faults share one, and no chat is flooded."""
REMIND_SECONDS = 3600.0
"""Interval of the check for faults that have lasted long enough to be reported again."""
MAX_ALERTS = 20
"""Faults that one message names."""
MAX_OPEN = 500
"""Faults that are kept; more have one cause, and it is among them."""
MAX_CHARACTERS = 600
"""Characters of one fault."""


@dataclass(slots=True)
class AlertState:
    """Stored state of a fault, in epoch seconds."""

    at: float
    ended: float | None = None


class AlertDesk:
    """An alert queue: accepts faults at once and sends them from `run`. Implements `events.Alerts`."""

    def __init__(self, settings: AlertSettings, users: Users, bus: Bus, facts: Settings, clock: Clock) -> None:
        self._settings = settings
        self._users = users
        self._bus = bus
        self._facts = facts
        self._clock = clock
        self._open: dict[str, str] = {}
        self._reported: dict[str, AlertState] = {}
        self._ended_early: dict[str, float] | None = {}
        """Faults that ended before the reports of earlier runs were loaded."""
        self._news = asyncio.Event()

    def tell(self, key: str, text: str) -> None:
        new = key not in self._open
        if new and len(self._open) >= MAX_OPEN:
            return
        self._open[key] = _fitting(text)
        if new:
            self._news.set()

    def clear(self, key: str) -> None:
        self._open.pop(key, None)
        if self._ended_early is not None:
            self._ended_early[key] = self._clock.now()
        elif (reported := self._reported.get(key)) and reported.ended is None:
            reported.ended = self._clock.now()
            self._news.set()

    def open(self) -> Mapping[str, str]:
        """Return the faults that are there now, as far as this run knows: key and text."""
        return dict(self._open)

    async def run(self, outbox: Outbox, channels: Mapping[str, Channel]) -> None:
        """Report incoming faults until cancelled."""
        await self._restore()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._remind(), name="reminders of alerts")
            while True:
                await self._news.wait()
                self._news.clear()
                if due := [key for key in self._open if self._is_due(key)]:
                    text = self._announce(due)
                    await self._notify(text, outbox, channels)
                    # Beside the loop: a chat that cannot be reached for hours keeps nothing else back.
                    tasks.create_task(self._reach_admin(text, outbox, channels), name="telling an administrator")
                    await self._clock.sleep(GATHER_SECONDS)
                else:
                    await self._remember()

    async def tell_once(
        self, text: str, fact: str, value: Any, outbox: Outbox, channels: Mapping[str, Channel]
    ) -> None:
        """Tell an administrator what is no fault; `fact` gets `value` in the transaction of the delivery.

        Where no administrator can be reached only watched sessions show it, and it is not repeated.
        """
        learnt = self._facts.learning(fact, value)
        self._bus.notice(text)
        for address in self._addresses():
            if address.channel in channels and await self._reach(
                address, text, outbox, channels[address.channel], learnt
            ):
                return
        log.info("no administrator could be told: %s", text)
        await self._facts.learn(fact, value)

    async def _restore(self) -> None:
        if self._ended_early is None:
            return  # `run` failed and runs again: what it reported already stays reported
        self._reported = _read(await self._facts.fact(FACT))
        for key, ended in self._ended_early.items():
            if (reported := self._reported.get(key)) and reported.ended is None:
                reported.ended = ended
        self._ended_early = None

    async def _remind(self) -> None:
        while True:
            await self._clock.sleep(REMIND_SECONDS)
            self._news.set()

    def _is_due(self, key: str) -> bool:
        """Whether an open fault has to be reported; one that came back too soon counts as never ended."""
        reported, now = self._reported.get(key), self._clock.now()
        if reported is None or now - reported.at >= AGAIN_SECONDS:
            return True
        if reported.ended is not None and now - reported.ended > SETTLE_SECONDS:
            return True
        reported.ended = None
        return False

    def _announce(self, due: Sequence[str]) -> str:
        """Show faults in watched sessions; return the message about them."""
        text = _message([self._open[key] for key in due])
        for key in due:
            self._reported[key] = AlertState(self._clock.now())
        self._bus.notice(text)
        return text

    async def _notify(self, text: str, outbox: Outbox, channels: Mapping[str, Channel]) -> None:
        """Have the targets of `alerts.notify` told; the outbox repeats what they do not take."""
        for name in self._settings.notify:
            delivery = Delivery(f"alert:{uuid.uuid4().hex}", Address(NOTIFY, name), text)
            try:
                await outbox.promise(delivery)
            except StateError:
                # The disk may be the very fault: then the message is sent without a trace on the disk.
                with suppress(DeliveryError):  # the channel has logged it
                    await channels[NOTIFY].deliver(delivery, Unrecorded())

    async def _reach_admin(self, text: str, outbox: Outbox, channels: Mapping[str, Channel]) -> None:
        for address in self._addresses():
            learnt = self._facts.learning(FACT, self._worth_remembering())
            if address.channel in channels and await self._reach(
                address, text, outbox, channels[address.channel], learnt
            ):
                return
        log.error("no administrator could be told (see `alerts.to`): %s", text)
        await self._remember()

    def _addresses(self) -> Sequence[Address]:
        """Return the chats to notify: the configured one, else those of administrators in the order of users.json."""
        if self._settings.to:
            channel, chat, *thread = self._settings.to.split(":")
            return [Address(channel, chat, thread[0] if thread else None)]
        # A person's private chat with a bot has the person's own number.
        found = [user.key.split(":") for user in self._users.all() if ADMIN in user.roles]
        return [Address("telegram", parts[1]) for parts in found if parts[0] == "telegram" and len(parts) == 2]

    async def _reach(
        self, address: Address, text: str, outbox: Outbox, channel: Channel, learnt: BoundStatement
    ) -> bool:
        """Send to one chat; False when it cannot be reached for good (blocked, never written to the bot)."""
        delivery = Delivery(f"alert:{uuid.uuid4().hex}", address, text)
        try:
            try:
                await outbox.send(delivery, learnt)
            except StateError:
                # The disk may be the very fault: then the message is sent without a trace on the disk.
                await channel.deliver(delivery, Unrecorded())
        except DeliveryError as error:
            log.warning("%s:%s could not be told: %s", address.channel, address.chat, error)
            return False
        return True

    async def _remember(self) -> None:
        try:
            await self._facts.learn(FACT, self._worth_remembering())
        except StateError as error:
            log.warning("it could not be noted which faults were told: %s", error)

    def _worth_remembering(self) -> dict[str, list[float | None]]:
        now = self._clock.now()
        self._reported = {
            key: reported
            for key, reported in self._reported.items()
            if now - reported.at < AGAIN_SECONDS and (reported.ended is None or now - reported.ended <= SETTLE_SECONDS)
        }
        return {key: [reported.at, reported.ended] for key, reported in self._reported.items()}


def _read(known: Any) -> dict[str, AlertState]:
    return {key: AlertState(at, ended) for key, (at, ended) in known.items()} if isinstance(known, dict) else {}


def _fitting(text: str) -> str:
    line = " ".join(printable(mask(text)).split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}…"


def _message(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return f"⚠ GoClaw needs you: {texts[0]}"
    more = (
        [f"- … and {len(texts) - MAX_ALERTS} more; `goclaw status --json` lists them"]
        if len(texts) > MAX_ALERTS
        else []
    )
    return "\n".join(["⚠ GoClaw needs you:", "", *(f"- {text}" for text in texts[:MAX_ALERTS]), *more])
