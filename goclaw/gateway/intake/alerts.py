"""Alerts to an administrator about faults that need the operator: each fault is reported once while it lasts.

A fault is reported again only after it ended and came back, or when a day has passed. This state outlives restarts. It
is a row for each fault, exchanged in the transaction that promises the message: of several processes on one store that
see a fault, one reports it. Only what cannot be stored is reported by each.
It is no log (the module that sees a fault logs it) and no monitoring: only faults that a person has to act on
belong here. Other modules use `events.Alerts`.
"""

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from goclaw.channels.base import Channel, Unrecorded
from goclaw.common.auth.users import Users
from goclaw.common.config.policies import ADMIN
from goclaw.common.config.schema import AlertSettings
from goclaw.common.config.webhooks import NOTIFY
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Address, Delivery
from goclaw.common.core.redact import mask, printable
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import BoundStatement, ConstraintViolated
from goclaw.durable.store.settings import Settings
from goclaw.errors import DeliveryError, StateError

log = logging.getLogger(__name__)

FACT = "alerts"
"""Name of the stored facts: when a fault was reported, and when it ended; behind a ":" the fault's key."""
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

    @property
    def stored(self) -> list[Any]:
        """The state as its row has it."""
        return [self.at, self.ended]


@dataclass(slots=True)
class OpenFault:
    """A present fault."""

    text: str
    since: float
    """When this process saw it first, in epoch seconds."""


class AlertDesk:
    """An alert queue: accepts faults immediately and sends them from `run`. Implements `events.Alerts`."""

    def __init__(self, settings: AlertSettings, users: Users, bus: Bus, facts: Settings, clock: Clock) -> None:
        self._settings = settings
        self._users = users
        self._bus = bus
        self._facts = facts
        self._clock = clock
        self._open: dict[str, OpenFault] = {}
        self._reported: dict[str, AlertState] = {}
        """The rows as they were read last, and what could not be written into them."""
        self._stored: dict[str, list[Any]] = {}
        """The rows as they were read last."""
        self._is_read = False
        self._ended: dict[str, float] = {}
        """When faults have ended, for those whose rows do not say so yet."""
        self._news = asyncio.Event()

    def tell(self, key: str, text: str) -> None:
        known = self._open.get(key)
        if known is not None:
            known.text = _fitting(text)
        elif len(self._open) < MAX_OPEN:
            self._open[key] = OpenFault(_fitting(text), self._clock.now())
            self._news.set()

    def clear(self, key: str) -> None:
        self._open.pop(key, None)
        reported = self._reported.get(key)
        if not self._is_read or (reported and reported.ended is None and key not in self._ended):
            self._ended[key] = self._clock.now()
            self._news.set()

    def open(self) -> Mapping[str, str]:
        """Return the present faults, as far as this run knows: key and text."""
        return {key: fault.text for key, fault in self._open.items()}

    async def run(self, outbox: Outbox, channels: Mapping[str, Channel]) -> None:
        """Report incoming faults until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._remind(), name="reminders of alerts")
            while True:
                await self._load()
                if due := [key for key in self._open if self._is_due(key)]:
                    # Beside the loop: a chat that cannot be reached for hours keeps nothing else back.
                    for work in await self._report(due, outbox, channels):
                        tasks.create_task(work, name="telling an administrator")
                    await self._clock.sleep(GATHER_SECONDS)
                await self._remember()
                await self._news.wait()
                self._news.clear()

    async def notify_once(
        self, text: str, fact: str, value: Any, outbox: Outbox, channels: Mapping[str, Channel]
    ) -> None:
        """Notify an administrator of what is no fault; `fact` gets `value` in the transaction of the delivery.

        Where no administrator can be reached only watched sessions show it, and it is not repeated.
        """
        learnt = self._facts.learning(fact, value)
        self._bus.notice(text)
        for address in self._addresses():
            if address.channel in channels and await self._reach(
                self._delivery(address, text), outbox, channels[address.channel], learnt
            ):
                return
        log.info("no administrator could be told: %s", text)
        await self._facts.learn(fact, value)

    async def _load(self) -> None:
        """Read the faults that were reported, here or elsewhere; raises StateError where none were ever read."""
        try:
            rows = await self._facts.facts(FACT)
            if "" in rows:
                rows = await self._part(rows[""])
        except StateError:
            if not self._is_read:
                raise
            return  # what could not be noted stays as this process knows it
        self._stored = {key: value for key, value in rows.items() if isinstance(value, list) and len(value) == 2}
        unwritten = {
            key: known for key, known in self._reported.items() if known.at > self._clock.now() - AGAIN_SECONDS
        }
        self._reported = {key: AlertState(at, ended) for key, (at, ended) in self._stored.items()}
        for key, known in unwritten.items():
            if key not in self._reported or self._reported[key].at < known.at:
                self._reported[key] = known
        self._is_read = True
        for key, ended in self._ended.items():
            if (reported := self._reported.get(key)) and reported.ended is None:
                reported.ended = ended
        self._ended.clear()

    async def _part(self, together: Any) -> dict[str, Any]:
        """Split the single fact that an older GoClaw kept into one for each fault; return them all."""
        for key, value in together.items() if isinstance(together, dict) else ():
            await self._facts.learn_new(f"{FACT}:{key}", value)
        await self._facts.unlearn(FACT)
        return await self._facts.facts(FACT)

    async def _remind(self) -> None:
        while True:
            await self._clock.sleep(REMIND_SECONDS)
            self._news.set()

    def _is_due(self, key: str) -> bool:
        """Whether an open fault has to be reported; one that came back too soon counts as never ended."""
        reported, now = self._reported.get(key), self._clock.now()
        if reported is None or now - reported.at >= AGAIN_SECONDS:
            return True
        # Where another process saw its end, it has gone on here.
        if (
            reported.ended is not None
            and now - reported.ended > SETTLE_SECONDS < self._open[key].since - reported.ended
        ):
            return True
        reported.ended = None
        return False

    async def _report(
        self, due: Sequence[str], outbox: Outbox, channels: Mapping[str, Channel]
    ) -> Sequence[Coroutine[Any, Any, None]]:
        """Promise the message about faults, unless another process has; return what sends it."""
        text = _message([self._open[key].text for key in due])
        told = [self._delivery(Address(NOTIFY, name), text) for name in self._settings.notify]
        asked = [self._delivery(each, text) for each in self._addresses() if each.channel in channels]
        now = self._clock.now()
        states = {key: AlertState(now) for key in due}
        claims = [
            statement
            for key in due
            for statement in self._facts.exchanging(f"{FACT}:{key}", self._stored.get(key), states[key].stored)
        ]
        for delivery in asked[:1]:
            outbox.report_failure_to_sender(delivery.id)
        before = {key: self._reported[key] for key in due if key in self._reported}
        self._reported |= states  # at once: it may end while the message is stored
        written = {key: state.stored for key, state in states.items()}
        try:
            await self._promise([*told, *asked[:1]], claims, outbox)
        except ConstraintViolated:
            self._reported = {key: known for key, known in self._reported.items() if key not in states} | before
            self._news.set()
            return ()  # what is left of them is seen at once
        except StateError:
            # The disk may be the very fault: then the message is sent without a trace on the disk.
            for delivery in told:
                with suppress(DeliveryError):  # the channel has logged it
                    await channels[NOTIFY].deliver(delivery, Unrecorded())
        else:
            self._stored |= written
        self._bus.notice(text)
        return [self._reach_admin(text, asked, outbox, channels)]

    async def _promise(self, deliveries: Sequence[Delivery], claims: Sequence[BoundStatement], outbox: Outbox) -> None:
        if deliveries:
            first, *others = deliveries
            promise = outbox.prepare(others)
            await outbox.promise(first, *promise.rows, *claims)
            outbox.enqueue_progress(promise.started)
        else:
            await self._facts.commit(*claims)

    async def _reach_admin(
        self, text: str, asked: Sequence[Delivery], outbox: Outbox, channels: Mapping[str, Channel]
    ) -> None:
        for delivery in asked:
            if await self._reach(delivery, outbox, channels[delivery.address.channel]):
                return
        log.error("no administrator could be notified (see `alerts.to`): %s", text)

    @staticmethod
    def _delivery(address: Address, text: str) -> Delivery:
        return Delivery(f"alert:{uuid.uuid4().hex}", address, text)

    def _addresses(self) -> Sequence[Address]:
        """Return the chats to notify: the configured one, else those of administrators in the order of users.json."""
        if self._settings.to:
            channel, chat, *thread = self._settings.to.split(":")
            return [Address(channel, chat, thread[0] if thread else None)]
        # A person's private chat with a bot has the person's own number.
        found = [user.key.split(":") for user in self._users.all() if ADMIN in user.roles]
        return [Address("telegram", parts[1]) for parts in found if parts[0] == "telegram" and len(parts) == 2]

    async def _reach(self, delivery: Delivery, outbox: Outbox, channel: Channel, *others: BoundStatement) -> bool:
        """Send to one chat; False when it cannot be reached for good (blocked, never written to the bot)."""
        address = delivery.address
        try:
            try:
                await outbox.send(delivery, *others)
            except StateError:
                # The disk may be the very fault: then the message is sent without a trace on the disk.
                await channel.deliver(delivery, Unrecorded())
        except DeliveryError as error:
            log.warning("%s:%s could not be notified: %s", address.channel, address.chat, error)
            return False
        return True

    async def _remember(self) -> None:
        """Write what rows do not say yet, and remove those that say nothing any more."""
        now = self._clock.now()
        for key, reported in list(self._reported.items()):
            is_over = reported.ended is not None and now - reported.ended > SETTLE_SECONDS
            known = self._stored.get(key)
            try:
                if now - reported.at >= AGAIN_SECONDS or is_over:
                    if known is not None:
                        await self._facts.unlearn(f"{FACT}:{key}", known)
                    self._stored.pop(key, None)
                    del self._reported[key]
                elif known != reported.stored:
                    await self._facts.commit(*self._facts.exchanging(f"{FACT}:{key}", known, reported.stored))
                    self._stored[key] = reported.stored
            except ConstraintViolated:
                self._news.set()  # another process has written it
            except StateError as error:
                log.warning("could not store which faults were reported: %s", error)
                return


def _fitting(text: str) -> str:
    line = " ".join(printable(mask(text)).split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}…"


def _message(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return f"⚠ GoClaw needs you: {texts[0]}"
    lines = [f"- {text}" for text in texts[:MAX_ALERTS]]
    if len(texts) > MAX_ALERTS:
        lines.append(f"- … and {len(texts) - MAX_ALERTS} more; `goclaw status --json` lists them")
    return "\n".join(["⚠ GoClaw needs you:", "", *lines])
