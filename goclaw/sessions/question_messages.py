"""Messages of questions in chats: sent with buttons, and edited without them once the question is decided.

The question goes to the chat of its turn. If the person there may not answer it, it goes to everyone who may and has a
private chat; the first answer wins, and the messages of the others say who gave it.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from goclaw.blobs import Blobs
from goclaw.engine.base import Turn
from goclaw.engine.outbox import Outbox
from goclaw.events import ALLOW, ALWAYS, LOCAL, Actor, Address, Delivery, Question
from goclaw.records import record
from goclaw.sessions.wording import buttons, decided_words, decision, in_words
from goclaw.users import Users

NOBODY = "You may not answer this, and nobody who may can be written to: an admin has to, in a terminal."
OTHERS = "You may not answer this. Asked instead: {names}."


@record
class _Told:
    """A question that stands in chats."""

    question: Question
    text: str
    deliveries: tuple[Delivery, ...]


class QuestionMessages:
    """The messages of questions."""

    def __init__(
        self,
        outbox: Outbox,
        blobs: Blobs,
        users: Users,
        channels: Collection[str],
        may_answer: Callable[[Actor, Question, str], bool],
    ) -> None:
        self._outbox = outbox
        self._blobs = blobs
        self._users = users
        self._channels = channels
        self._may_answer = may_answer
        self._told: dict[tuple[str, str], _Told] = {}
        """By turn and step."""

    def name_of(self, key: str) -> str:
        """Return a person's name for people."""
        user = self._users.get(key)
        return (user.name if user else "") or key

    async def ask(self, turn: Turn, step: str, question: Question, text: str, whole: str) -> None:
        """Put a question into the chats where it belongs. The same one again does nothing."""
        media = await self._blobs.put(whole.encode(), "text/plain") if whole else None
        deliveries = self._messages(turn, step, question, text)
        self._told[turn.id, step] = _Told(question, text, tuple(deliveries))
        for delivery in deliveries:
            if media and delivery.choices:
                name = f"{question.about or 'question'}.txt"
                caption = "All of the call that is asked for below."
                document = Delivery(f"{delivery.id}:whole", delivery.address, caption, media=media, media_name=name)
                await self._outbox.promise(replace(document, asks=True))
            await self._outbox.promise(delivery)

    async def tell_decision(self, turn: Turn, step: str, question: Question, text: str, answer: str, by: str) -> None:
        """Edit every message of a question to show its outcome."""
        told = self._told.pop((turn.id, step), None)
        # After a crash right behind the answer no one is asked again, but the messages are still there.
        deliveries = told.deliveries if told else self._messages(turn, step, question, text)
        yes = bool(by) and (answer in (ALLOW, ALWAYS) if question.kind == "approval" else bool(answer))
        words = decision(question, answer, self.name_of(by) if by else "")
        await self._close(question, text, deliveries, words, yes=yes)

    async def withdraw(self, turn: str) -> None:
        """Close the messages of a turn's unanswered questions when the turn ends."""
        for key in [key for key in self._told if key[0] == turn]:
            told = self._told.pop(key)
            await self._close(told.question, told.text, told.deliveries, "Not asked any more", yes=False)

    async def _close(
        self, question: Question, text: str, deliveries: Collection[Delivery], words: str, *, yes: bool
    ) -> None:
        said = decided_words(question, text, words, yes=yes)
        for asked in deliveries:
            await self._outbox.promise(
                Delivery(f"{asked.id}:closed", asked.address, said, action="edit", of=asked.id, session=asked.session)
            )

    def _messages(self, turn: Turn, step: str, question: Question, text: str) -> list[Delivery]:
        """Return the message to the chat of the turn, and those to the other people who may answer."""
        inbound, actor = turn.inbound, turn.inbound.actor
        name, session = f"{turn.id}:{step}", inbound.session
        others: list[tuple[str, Address]] = []
        is_theirs = self._may_answer(actor, question, session)
        if question.kind == "approval" and not is_theirs:
            others = [
                (key, address)
                for key, address in self._private()
                if self._may_answer(Actor(key, address.channel), question, session)
            ]
        names = ", ".join(self.name_of(key) for key, _ in others)
        asked = "" if is_theirs or question.kind == "question" else OTHERS.format(names=names) if others else NOBODY
        here = Delivery(
            name, inbound.address, in_words(question, text, asked=asked), session=session, asks=True,
            choices=() if asked else buttons(question),
        )  # fmt: skip
        there = f"For {self.name_of(actor.key)} ({actor.key}):\n\n{in_words(question, text)}"
        found = [here] if inbound.address.channel != LOCAL else []
        return found + [
            Delivery(f"{name}:to:{key}", address, there, session=session, choices=buttons(question), asks=True)
            for key, address in others
        ]

    def _private(self) -> list[tuple[str, Address]]:
        """Return all listed people with their private chats: with a bot it has the person's own number."""
        found = [(user.key, *user.key.partition(":")[::2]) for user in self._users.all()]
        return [(key, Address(channel, chat)) for key, channel, chat in found if channel in self._channels and chat]
