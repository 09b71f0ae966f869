"""Quiet hours: hours of the day when a person's chat gets nothing that was not asked for.

Messages during them are kept (`held_messages`) and go as one message when they end. They wait here and not in the
outbox, which sends to a chat in order: an answer to the person would wait for it. A row that has gone stays for a
while, so that a turn that is taken up after a crash does not send its result once more.

Answers to the person's messages, runs that a person ordered, and reminders at a time that the person set count as asked
for.

`send_to_chat` says a text word for word, without a model. First messages of one person to another are kept in the
same table until that one has agreed (`messages_to_others`).
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from sqlalchemy import bindparam, delete, func, select, update

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import NO_HOURS, Users
from goclaw.common.config.webhooks import NOTIFY
from goclaw.common.core.clock import Clock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import LOCAL, Actor, Address, Choice, Delivery, Inbound
from goclaw.common.core.hours import hours
from goclaw.common.core.records import record
from goclaw.conversation.schedules.jobs import DAY_SECONDS, Job
from goclaw.conversation.schedules.times import shown_shortly
from goclaw.durable.engine.base import TurnKind
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import BoundStatement, Database, Row, Statement, insert_into
from goclaw.durable.store.schema import held_messages

HELD = ":held"
"""Suffix of the id of the message that delivers the held parts, after the id of the last part."""
HEADING = "This arrived during your quiet hours:"
AT_ONCE = 100
"""Held messages that become one."""
ASKED = "asked:"
"""Begins `chat` of a message that waits for its receiver's answer; the question's subject follows."""

_DELIVERY: Codec[Delivery] = Codec(Delivery)
_HOLD = insert_into(held_messages, "id", "session", "person", "chat", "body", "held_at", "until", ignore_conflict=True)
_KNOWN = Statement(select(held_messages.c.id).where(held_messages.c.id == bindparam("of")))
_DUE = Statement(
    select(held_messages)
    .where(held_messages.c.until.is_not(None), held_messages.c.until <= bindparam("now"))
    .order_by(held_messages.c.chat, held_messages.c.seq)
    .limit(bindparam("count"))
)
_EARLIEST = Statement(select(func.min(held_messages.c.until)).where(held_messages.c.until.is_not(None)))
_WAITING = Statement(
    select(held_messages)
    .where(held_messages.c.chat == bindparam("of_chat"), held_messages.c.until.is_not(None))
    .order_by(held_messages.c.seq)
)
_GONE = Statement(update(held_messages).where(held_messages.c.id == bindparam("of")).values(until=None))
_BOUND = Statement(
    update(held_messages)
    .where(held_messages.c.until > bindparam("latest"), ~held_messages.c.chat.startswith(ASKED))
    .values(until=bindparam("new_until"))
)
_PRUNE = Statement(
    delete(held_messages).where(held_messages.c.until.is_(None), held_messages.c.held_at < bindparam("before"))
)


class QuietHours:
    """Holds messages back, and lets them go."""

    def __init__(self, database: Database, users: Users, default: str | None, outbox: Outbox, clock: Clock) -> None:
        """`default`: the quiet hours of people who have set none; None: no hours."""
        self._database = database
        self._users = users
        self._default = default or ""
        self.outbox = outbox
        self._clock = clock
        self.changed: Callable[[], None] = lambda: None
        """Called when a message is held; the scheduler binds it."""
        self.on_unanswered: Callable[[Sequence[Row]], Awaitable[None]]
        """Called with messages whose receiver has not answered; `MessagesToOthers` binds it."""

    def until(self, person: str, address: Address) -> float | None:
        """Return when the quiet hours end that it is now at an address; None: there are none now.

        They are those of the private chat's owner, elsewhere of `person`, for whom the message was made.
        """
        if address.channel in (LOCAL, NOTIFY):
            return None  # neither a terminal nor a program makes a sound
        user = self._users.get(f"{address.channel}:{address.chat}") or self._users.get(person)
        text = (user.quiet_hours if user else "") or self._default
        if not text or text == NO_HOURS:
            return None
        quiet, now = hours(text), self._clock.now()
        zone = self._users.zone(user.key if user else person)
        return quiet.next_end(now, zone) if quiet.contain(now, zone) else None

    def way(self, person: str, address: Address, *, asked: bool = False) -> "Way":
        """Return where a message for a person goes now; `asked`: it was asked for, so that nothing holds it back."""
        until = None if asked else self.until(person, address)
        return self.outbox if until is None else _Hold(self, person, until)

    async def promise(self, delivery: Delivery, person: str) -> None:
        """Send a delivery that was not asked for, or hold it."""
        if (until := self.until(person, delivery.address)) is None:
            await self.outbox.promise(delivery)
        else:
            await self._defer([delivery], person, until)

    async def filter(self, inbound: Inbound, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Return the deliveries of an unattended turn that go to the chat now; the rest is deferred.

        Called again after a crash for the same turn, it holds and returns nothing that it has held before.
        """
        if not deliveries or inbound.address.channel == LOCAL or (inbound.unattended and inbound.unattended.asked):
            return deliveries
        fresh = [each for each in deliveries if not await self.knows(each.id)]
        until = self.until(inbound.actor.key, inbound.address)
        if until is None or not fresh:
            return fresh
        await self._defer(fresh, inbound.actor.key, until)
        return ()

    async def release(self) -> float | None:
        """Send the messages that have waited long enough: one message to each chat, then the files.

        Returns when the next one may go; None: nothing is held.
        """
        while (until := await self._earliest()) is not None and until <= self._clock.now():
            rows = await self._database.read(_DUE(now=self._clock.now(), count=AT_ONCE))
            for chat, group in groupby(rows, lambda row: row["chat"]):
                held = list(group)
                if chat.startswith(ASKED):
                    await self.on_unanswered(held)
                else:
                    await self._send(held, list(self._join(held)))
        return until

    async def _send(self, held: Sequence[Row], promised: Sequence[Delivery], *also: BoundStatement) -> None:
        gone = [_GONE(of=row["id"]) for row in held]
        await self._database.write(*map(self.outbox.row, promised), *gone, *also, durable=True)
        self.outbox.enqueue(promised)

    async def find_waiting(self, subject: str) -> Sequence[Row]:
        """Return the messages that wait for the answer to a question."""
        return await self._database.read(_WAITING(of_chat=f"{ASKED}{subject}"))

    async def send_after_answer(self, held: Sequence[Row], closed: Delivery, *also: BoundStatement) -> None:
        """Send messages that waited for an answer, and the change of the question."""
        await self._send(held, [*map(self.delivery_of, held), closed], *also)

    async def knows(self, delivery: str) -> bool:
        """Whether a delivery is held, or was."""
        return bool(await self._database.read(_KNOWN(of=delivery)))

    def drop(self, delivery: str) -> BoundStatement:
        """Return the UPDATE that lets a held delivery wait no more."""
        return _GONE(of=delivery)

    def delivery_of(self, held: Row) -> Delivery:
        """Return the delivery in a row."""
        return _DELIVERY.from_json(held["body"])

    async def _earliest(self) -> float | None:
        found: float | None = (await self._database.read(_EARLIEST()))[0][0]
        return found

    async def clock_was_set(self) -> None:
        """Let go soon what waits beyond any quiet hours: the clock was ahead when it was held."""
        now = self._clock.now()
        await self._database.write(_BOUND(latest=now + DAY_SECONDS, new_until=now))

    async def prune(self, before: float) -> None:
        """Forget sent messages that were held before a moment."""
        await self._database.write(_PRUNE(before=before))

    def row(self, delivery: Delivery, person: str, until: float, waits_for: str = "") -> BoundStatement:
        """Return the INSERT that holds a delivery; one that is held or has gone stays as it is.

        `waits_for`: the subject of the question for whose answer it waits; empty: quiet hours hold it.
        """
        address = delivery.address
        return _HOLD(
            id=delivery.id,
            session=delivery.session,
            person=person,
            chat=f"{ASKED}{waits_for}" if waits_for else f"{address.channel}:{address.chat}:{address.thread or ''}",
            body=_DELIVERY.to_json(delivery),
            held_at=self._clock.now(),
            until=until,
        )

    async def _defer(self, deliveries: Sequence[Delivery], person: str, until: float) -> None:
        await self._database.write(*(self.row(each, person, until) for each in deliveries), durable=True)
        self.changed()

    def _join(self, held: Sequence[Row]) -> Iterator[Delivery]:
        """Yield the deliveries to a chat for those held for it: one of each author's, then files and questions."""
        texts, others = dict[str, list[tuple[Delivery, str]]](), list[Delivery]()
        for row in held:
            delivery = self.delivery_of(row)
            if delivery.media or delivery.action != "send" or delivery.asks:
                others.append(delivery)
                continue
            came = shown_shortly(row["held_at"], self._users.zone(row["person"]), self._clock.now())
            texts.setdefault(delivery.author, []).append((delivery, f"{came}: {delivery.text}"))
        for parts in texts.values():
            last = parts[-1][0]
            text = "\n\n".join([HEADING, *(part for _, part in parts)])
            yield replace(last, id=f"{last.id}{HELD}", text=text)
        yield from others


@record
class _Hold:
    """Holds what would go to the outbox."""

    quiet: QuietHours
    person: str
    until: float

    def row(self, delivery: Delivery) -> BoundStatement:
        return self.quiet.row(delivery, self.person, self.until)

    def enqueue(self, promised: Sequence[Delivery]) -> None:
        self.quiet.changed()


Way = Outbox | _Hold
"""Where a delivery goes: to the outbox, or on hold."""


class Submit(Protocol):
    """Queues a message for its session's lane, in one transaction with other statements (`Engine.submit`)."""

    def __call__(
        self, inbound: Inbound, kind: TurnKind = ..., *, also: Sequence[BoundStatement] = ...
    ) -> Awaitable[bool]: ...


def home_of(actor: Actor, access: Access) -> tuple[str, Address]:
    """Return the session that a person has of their own, and the chat where they read it."""
    session = access.session_for(actor, actor.key)
    channel, _, chat = actor.key.partition(":")
    return session, Address(LOCAL, session) if channel == "tui" else Address(channel, chat)


def chat_of_maker(job: Job, access: Access) -> tuple[str, Address]:
    """Return the session and the chat where a job's maker reads about it."""
    return home_of(job.actor, access) if job.elsewhere else (job.session, job.address)


async def send_to_chat(
    inbound: Inbound, submit: Submit, way: Way, also: Sequence[BoundStatement] = (), choices: tuple[Choice, ...] = ()
) -> bool:
    """Send the text of `inbound` to its address, in one transaction with other statements. False: it was sent before.

    `way`: the outbox, or what `QuietHours.way` returns. `choices`: buttons below it.

    The text is part of the conversation, too: terminals read it there, and the agent knows the words.

    Raises:
        StateError: the disk refuses; nothing is sent.
    """
    delivery = Delivery(
        inbound.id, inbound.address, inbound.text, session=inbound.session, choices=choices, asks=bool(choices)
    )
    promised = [] if inbound.address.channel == LOCAL else [delivery]
    if not await submit(inbound, "say", also=[*also, *map(way.row, promised)]):
        return False
    way.enqueue(promised)
    return True
