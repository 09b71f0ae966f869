"""Messages that one person sends another through the bot: schedules with `to`, and the tool `message`.

Each names its author and has a button that stops them. The first one is held for a day (`held_messages`) while its
receiver, in a group an admin, is asked; messages between admins ask no question. A receiver's decision about an author
is a fact of the store, so that it holds over restarts and at every gateway. The question stands in the chat, and on a
card in the terminals and pages that show the receiver's session.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from goclaw.channels.base import Channel
from goclaw.common.auth.access import Access, is_group, own_session
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import Users
from goclaw.common.config.webhooks import NOTIFY
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    ALLOW,
    DENY,
    LOCAL,
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    AnswerRefusal,
    Choice,
    Delivery,
    Inbound,
    Question,
    QuestionAnswered,
    QuestionAsked,
    Receipt,
    Unattended,
)
from goclaw.common.core.records import record
from goclaw.conversation.schedules.jobs import DAY_SECONDS
from goclaw.conversation.schedules.quiet_hours import QuietHours, Submit, home_of, send_to_chat
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import BoundStatement, Database, Row
from goclaw.durable.store.settings import Settings
from goclaw.errors import AccessDenied, ToolError

log = logging.getLogger(__name__)

FACT = "messages between people"
"""The facts about pairs of people: who writes to whom, and what the receiver has decided."""
MOST_HELD = 10
"""Messages of one author that wait for one receiver's answer."""
_ASK, _STOP = "a", "s"
"""The first letter of a question's id; the id of the pair follows."""
Standing = Literal["open", "ask", "waits", "stopped", "nobody"]
"""Whether an author may write to a receiver: yes; not before that one is asked, or has answered; no; nobody may say."""
_REFUSED = {
    "stopped": "{to} takes no messages from you",
    "nobody": "I do not know {to}, so nobody there can agree to your messages",
    "waits": "{to} has not said yet whether your messages are welcome",
}
_ASKED = "{name} wants to send you messages through me. Allow?"
_NOT_PLAIN = re.compile(r"[^\w .,'()@:-]+")
"""Characters in a name that could be read as Markdown or as a new line."""


@record
class Pair:
    """An author and a receiver, with what is known of them."""

    author: str
    to: str
    """`channel:chat`."""
    kept: dict[str, Any]
    """The stored fact; empty: none is stored."""

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.author}\n{self.to}".encode()).hexdigest()[:30]

    def fact(self, state: str, **more: Any) -> BoundStatement:
        """Return the statement that keeps a decision."""
        value = {"author": self.author, "to": self.to, "state": state, **more}
        return Settings.learning(f"{FACT}:{self.id}", value)


@record
class Plan:
    """The fate of messages to another person."""

    signed: Sequence[Delivery]
    """The messages, with their author."""
    also: Sequence[BoundStatement]
    """Statements for the transaction that promises them, or that holds them."""
    is_held: bool
    start: Callable[[], None]
    """To be called once that transaction is committed."""


@dataclass(eq=False)
class MessagesToOthers:
    """Signs messages to other people, holds the first ones, asks, and keeps the answers."""

    database: Database
    access: Access
    users: Users
    facts: Settings
    quiet: QuietHours
    channels: Mapping[str, Channel]
    submit: Submit
    clock: Clock
    audit: Callable[[AuditEntry], None]
    bus: Bus

    def __post_init__(self) -> None:
        self.quiet.on_unanswered = self._notify_about_silence

    def concerns(self, author: Actor, address: Address) -> bool:
        """Whether a message of the author to an address is one to another person, or to a group."""
        return address.channel not in (LOCAL, NOTIFY) and _place(address) != author.key

    async def refusal(self, author: Actor, address: Address) -> tuple[Standing, str]:
        """Return how the author stands with a receiver, and why nothing can be sent now; empty: it can."""
        standing = self._standing(author, await self._pair(author.key, _place(address)))
        return standing, _REFUSED.get(standing, "").format(to=_place(address))

    async def plan(self, author: Actor, deliveries: Sequence[Delivery]) -> Plan:
        """Decide what to do with messages to one address.

        Raises:
            AccessDenied: the receiver refuses them, cannot be asked, or has too many waiting for an answer.
        """
        address = deliveries[0].address
        pair = await self._pair(author.key, _place(address))
        signed = [self._sign(pair, each) for each in deliveries]
        match standing := self._standing(author, pair):
            case "open":
                known = [] if pair.kept else [pair.fact("known")]
                return Plan(signed, known, is_held=False, start=_nothing)
            case "stopped" | "nobody":
                raise AccessDenied(_REFUSED[standing].format(to=pair.to))
        if len(await self.quiet.find_waiting(pair.id)) >= MOST_HELD:
            raise AccessDenied(_REFUSED["waits"].format(to=pair.to))
        until, asking = pair.kept.get("until", 0.0), list[BoundStatement]()
        start: Callable[[], None] = self.quiet.changed
        if standing == "ask":
            until = self.clock.now() + DAY_SECONDS
            card = self._card(pair, signed[0])
            way = self.quiet.way(author.key, address)
            asking = [pair.fact("asked", until=until, card=card.id), way.row(card)]

            def start() -> None:
                self.quiet.changed()
                way.enqueue([card])
                if self._has_card(pair):
                    self.bus.publish(QuestionAsked("", self._session_of(pair), self._question(pair, until)))

        held = [self.quiet.row(each, author.key, until, waits_for=pair.id) for each in signed]
        return Plan(signed, [*held, *asking], is_held=True, start=start)

    async def send(self, inbound: Inbound, also: Sequence[BoundStatement]) -> None:
        """Send a text to another person in one transaction with other statements, or hold it.

        Raises:
            AccessDenied: see `plan`.
        """
        plan = await self.plan(
            inbound.actor, [Delivery(inbound.id, inbound.address, inbound.text, session=inbound.session)]
        )
        signed, way = plan.signed[0], self.quiet.way(inbound.actor.key, inbound.address)
        promised = [] if plan.is_held else [way.row(signed)]
        if await self.submit(replace(inbound, text=signed.text), "say", also=[*also, *plan.also, *promised]):
            plan.start()
            if promised:
                way.enqueue([signed])

    async def deliver(self, author: Actor, own: Address, delivery: Delivery, outbox: Outbox) -> Receipt:
        """Send a message of an agent; `own`: the chat that its turn answers, which is not another person's.

        Raises:
            ToolError: the receiver takes none, or it would change what is in another person's chat.
            DeliveryError: see `Outbox.send`.
        """
        address = delivery.address
        if _place(address) == _place(own) or not self.concerns(author, address):
            return await outbox.send(delivery)
        if delivery.action != "send":
            if self._must_agree(author, _place(address)):
                raise ToolError(f"in another person's chat only `send` is possible, not {delivery.action}")
            if delivery.action != "edit":
                return await outbox.send(delivery)
        if await self.quiet.knows(delivery.id):
            return Receipt("", held=True)
        try:
            plan = await self.plan(author, [delivery])
        except AccessDenied as error:
            raise ToolError(str(error)) from None
        if not plan.is_held:
            return await outbox.send(plan.signed[0], *plan.also)
        await self.database.write(*plan.also, durable=True)
        plan.start()
        return Receipt("", held=True)

    async def filter(self, inbound: Inbound, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Return what of a task's result goes to another person now; its author hears where nothing does.

        Called again after a crash for the same turn, it holds and returns nothing that it has held before.
        """
        author = inbound.actor
        fresh = [each for each in deliveries if not await self.quiet.knows(each.id)]
        if not fresh or not self.concerns(author, inbound.address):
            return await self.quiet.filter(inbound, fresh)
        try:
            plan = await self.plan(author, fresh)
        except AccessDenied as error:
            await self._notify(author.key, f"{inbound.id}:refused", f"Not delivered: {error}.")
            return ()
        if plan.is_held:
            await self.database.write(*plan.also, durable=True)
            plan.start()
            return ()
        await self.database.write(*plan.also)
        return await self.quiet.filter(inbound, plan.signed)

    async def answer(self, actor: Actor, question: str, answer: str) -> Acceptance | None:
        """Take the answer to a question, or the press of "Stop these"; None: the actor has no question of this id."""
        kind, kept = question[:1], await self.facts.fact(f"{FACT}:{question[1:]}")
        if kind not in (_ASK, _STOP) or kept is None or not await self._decides(actor, kept["to"], kept["author"]):
            return None
        pair = Pair(kept["author"], kept["to"], kept)
        if kind == _STOP:
            return await self._stop(actor, pair, "You get no more messages from {name}. /blocked takes that back.")
        if kept["state"] != "asked" or self.clock.now() >= kept["until"]:
            return None
        if answer == DENY:
            return await self._stop(actor, pair, "{name} may not send you messages. /blocked takes that back.")
        if answer != ALLOW:
            return _reply("Answer with yes or no: /approve ID or /deny ID.", AnswerRefusal.INVALID)
        said = f"{self._name_of(pair.author)} may send you messages."
        held = await self.quiet.find_waiting(pair.id)
        await self.quiet.send_after_answer(held, self._close_card(pair, f"✓ {said}"), pair.fact("allowed"))
        self._publish_answer(pair, ALLOW, actor.key)
        self._record(actor, pair, "allowed")
        return _reply(said)

    async def list_stops(self, actor: Actor, address: Address) -> Sequence[Pair]:
        """Return the authors whose messages to the actor, or to the group of this address, are stopped."""
        found = (Pair(each["author"], each["to"], each) for each in (await self.facts.facts(FACT)).values())
        here, stopped = _place(address), [each for each in found if each.kept["state"] == "stopped"]
        if is_group(here):
            return [each for each in stopped if each.to == here] if await self._decides(actor, here) else []
        return [each for each in stopped if not is_group(each.to) and await self._decides(actor, each.to, each.author)]

    async def questions_in(self, session: str) -> Sequence[Question]:
        """Return the open questions to the person, or the group, of a session."""
        now, found = self.clock.now(), (await self.facts.facts(FACT)).values()
        asked = [Pair(each["author"], each["to"], each) for each in found if now < each.get("until", 0.0)]
        open_ones = [pair for pair in asked if pair.kept["state"] == "asked" and self._session_of(pair) == session]
        return [self._question(pair, pair.kept["until"]) for pair in open_ones if self._has_card(pair)]

    async def unblock(self, actor: Actor, pair: Pair) -> None:
        """Have an author's next message ask again."""
        await self.facts.unlearn(f"{FACT}:{pair.id}")
        self._record(actor, pair, "unblocked")

    def describe(self, pair: Pair) -> str:
        """Return the author of a pair, for people."""
        return self._name_of(pair.author)

    async def _pair(self, author: str, to: str) -> Pair:
        pair = Pair(author, to, {})
        return replace(pair, kept=await self.facts.fact(f"{FACT}:{pair.id}") or {})

    def _standing(self, author: Actor, pair: Pair) -> Standing:
        state = pair.kept.get("state")
        if state == "stopped":
            return "stopped"
        if state == "allowed" or not self._must_agree(author, pair.to):
            return "open"
        if self.users.get(pair.to) is None and not is_group(pair.to):
            return "nobody"
        return "waits" if state == "asked" and self.clock.now() < pair.kept["until"] else "ask"

    def _must_agree(self, author: Actor, to: str) -> bool:
        """Whether the receiver must agree: where not both are admins. In a group an admin does."""
        if not all(map(self.access.is_admin, (author, *author.behalf))):
            return True
        return self.users.get(to) is not None and not self.access.is_admin(Actor(to, ""))

    async def _decides(self, actor: Actor, to: str, author: str = "") -> bool:
        """Whether the actor answers for a receiver: that person, in a group an admin of ours or a listed one of its.

        An author who shares the receiver's conversation does not agree to their own messages.
        """
        if actor.behalf or not is_group(to):
            is_theirs = actor.key == to or (actor.key != author and self._is_same_person(actor, to))
            return is_theirs and not actor.behalf
        name, _, chat = to.partition(":")
        if self.access.is_admin(actor) or self.users.get(actor.key) is None or name not in self.channels:
            return self.access.is_admin(actor)
        return actor.key in await self.channels[name].capabilities.admins_of(chat)

    def _is_same_person(self, actor: Actor, to: str) -> bool:
        """Whether the actor is the receiver at a terminal: the two keys, and no other, have one's own session."""
        session = home_of(Actor(to, ""), self.access)[0]
        is_own = self.access.session_for(actor, own_session(actor.key)) == session
        both = Actor(to, actor.entry, behalf=(actor,))
        return (
            is_own
            and session in (own_session(actor.key), own_session(to))
            and self.access.authorize(both, "session.alone", session).allowed
        )

    def _has_card(self, pair: Pair) -> bool:
        """Whether terminals and pages of the receiver's session ask, too: not where others have that session."""
        session, to = self._session_of(pair), pair.to
        if is_group(to) or session == own_session(to):
            return True
        # The key whose own session it is acts there at a terminal, and need not be listed.
        there = Actor(to, "", behalf=(Actor(session, "", owner=True),))
        return session != own_session(pair.author) and self.access.authorize(there, "session.alone", session).allowed

    def _sign(self, pair: Pair, delivery: Delivery) -> Delivery:
        name = self._name_of(pair.author)
        stop = Choice("Stop these", f"{_STOP}{pair.id}", DENY)
        return replace(delivery, text=f"**From {name}:**\n\n{delivery.text}", author=name, choices=(stop,))

    def _session_of(self, pair: Pair) -> str:
        return pair.to if is_group(pair.to) else home_of(Actor(pair.to, ""), self.access)[0]

    def _question(self, pair: Pair, until: float) -> Question:
        """Return the question for clients. As an approval it is answered by its id alone, never by a message."""
        title, asked_at = _ASKED.format(name=self._name_of(pair.author)), until - DAY_SECONDS
        return Question(
            f"{_ASK}{pair.id}",
            "approval",
            pair.to,
            title,
            "",
            (ALLOW, DENY),
            False,
            asked_at=asked_at,
            expires_at=until,
        )

    def _publish_answer(self, pair: Pair, answer: str, by: str) -> None:
        self.bus.publish(QuestionAnswered("", self._session_of(pair), f"{_ASK}{pair.id}", answer, by))

    def _card(self, pair: Pair, first: Delivery) -> Delivery:
        text = _ASKED.format(name=self._name_of(pair.author))
        labels = {ALLOW: "Allow", DENY: "No"}
        choices = tuple(Choice(label, f"{_ASK}{pair.id}", answer) for answer, label in labels.items())
        return Delivery(f"{first.id}:ask", first.address, text, session=first.session, choices=choices, asks=True)

    def _close_card(self, pair: Pair, text: str) -> Delivery:
        """Return the change that takes the buttons from a question that was answered."""
        card, (channel, _, chat) = pair.kept["card"], pair.to.partition(":")
        return Delivery(f"{card}:closed", Address(channel, chat), text, action="edit", of=card)

    async def _stop(self, actor: Actor, pair: Pair, said: str) -> Acceptance:
        held = await self.quiet.find_waiting(pair.id)
        gone = [pair.fact("stopped"), *(self.quiet.drop(row["id"]) for row in held)]
        said = said.format(name=self._name_of(pair.author))
        if pair.kept["state"] == "asked":
            words = f"{_REFUSED['stopped'].format(to=pair.to)}, so your message was not delivered."
            await self._notify(pair.author, f"{pair.kept['card']}:no", words, *gone)
            await self.quiet.send_after_answer([], self._close_card(pair, f"✗ {said}"))
            self._publish_answer(pair, DENY, actor.key)
        else:
            await self.database.write(*gone, durable=True)
        self._record(actor, pair, "stopped")
        return _reply(said)

    async def _notify_about_silence(self, rows: Sequence[Row]) -> None:
        """Tell the authors of held messages that no answer came for a day."""
        for _, group in groupby(rows, lambda row: row["chat"]):
            held = list(group)
            to = _place(self.quiet.delivery_of(held[0]).address)
            words = f"{to} has not said for a day whether your messages are welcome, so yours was not delivered."
            gone = [self.quiet.drop(row["id"]) for row in held]
            await self._notify(held[0]["person"], f"{held[0]['id']}:unanswered", words, *gone)
            self._publish_answer(Pair(held[0]["person"], to, {}), "", "")

    async def _notify(self, author: str, identity: str, words: str, *also: BoundStatement) -> None:
        """Say something to an author in their own chat, once, in one transaction with other statements."""
        actor, now = Actor(author, "schedule"), self.clock.now()
        session, address = home_of(actor, self.access)
        told = Inbound(identity, actor, session, words, address, now, unattended=Unattended(0, "messages", now))
        if not await send_to_chat(told, self.submit, self.quiet.way(author, address), also):
            await self.database.write(*also, durable=True)

    def _name_of(self, key: str) -> str:
        """Return a person's name as users.json has it; with the key where it is missing or another person's, too."""
        user = self.users.get(key)
        name = " ".join(_NOT_PLAIN.sub(" ", user.name if user else "").split())
        others = any(each.key != key and each.name.casefold() == name.casefold() for each in self.users.all())
        return name if name and not others else f"{name} ({key})" if name else key

    def _record(self, actor: Actor, pair: Pair, result: str) -> None:
        log.info("messages of %s to %s: %s", pair.author, pair.to, result)
        self.audit(AuditEntry("message.consent", pair.author, actor, result=result, detail=pair.to))


def _place(address: Address) -> str:
    """Return `channel:chat`, the same for every spelling of a number that a channel takes."""
    try:
        return f"{address.channel}:{int(address.chat)}"
    except ValueError:
        return f"{address.channel}:{address.chat}"


def _reply(text: str, refusal: AnswerRefusal | None = None) -> Acceptance:
    return Acceptance(AcceptKind.ANSWER, text=text, refusal=refusal)


def _nothing() -> None:
    pass
