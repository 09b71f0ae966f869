"""People who never stop talking: what they write is fixed by the seed, what they answer by what they see.

Each chat tries something else: commands that stop a turn, messages that join it or take its place, questions and
approvals, a group where several speak. Nobody waits for a daemon to be alive.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from goclaw.gateway.intake.owners import NOT_ANSWERED
from tests.acceptance.books import Seen, read_chat
from tests.acceptance.model import END, QUESTION
from tests.acceptance.waiting import clock
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import BOT_NAME

LOOK_SECONDS = 0.03
"""How often people look at their chats."""
GONE = "This question does not exist"
TRIES = 5
"""How often a person repeats an approval that came too early or too late."""


@dataclass(frozen=True)
class Habits:
    """How a chat is used."""

    users: tuple[int, ...]
    kinds: tuple[str, ...]
    waiting: int = 4
    """Messages without an answer when a daemon starts: more than it can answer until it is killed."""
    mode: str = ""
    """Its queue mode."""
    presses: bool = False
    """Questions are answered by their buttons."""
    commands: Mapping[str, float] = field(default_factory=dict)
    """What else is written now and then: the share of the rounds."""


CHATS: Mapping[int, Habits] = {
    11: Habits((11,), ("plain", "exec", "both", "long", "file", "plain"), commands={"/stop": 0.15, "/compact": 0.04}),
    12: Habits((12,), ("plain", "exec", "plain"), mode="steer"),
    13: Habits((13,), ("plain", "exec"), waiting=2, mode="interrupt"),
    14: Habits((14,), ("ask", "write", "plain"), waiting=1),
    15: Habits((15,), ("plain", "exec", "both", "write"), waiting=6),
    -100: Habits((11, 12, 15), ("plain", "exec", "plain"), waiting=6),
}
MEDIUM_ASKS = {"stricter": {"medium": "ask"}}
"""The policy with which `write` waits for an approval."""


@dataclass
class Chat:
    """What was written in a chat so far."""

    number: int
    habits: Habits
    said: list[tuple[str, str]] = field(default_factory=list)
    """Name and kind of every message that wants an answer."""
    commands: Counter[str] = field(default_factory=Counter)
    reacted: Counter[str] = field(default_factory=Counter)
    """How often a question or an approval was answered."""
    presses: int = 0
    """How many buttons were pressed."""
    refused: dict[str, int] = field(default_factory=dict)
    """How often people were told that there is no such question, when each approval was given."""


class People:
    """Everybody."""

    def __init__(self, telegram: FakeTelegram, seed: str, chats: Mapping[int, Habits] = CHATS) -> None:
        self.telegram = telegram
        self.seed = seed
        self.chats = {number: Chat(number, habits) for number, habits in chats.items()}

    async def talk(self, round_: int, needed: str = "") -> None:
        """Everybody writes until enough is unanswered; `needed` is a command that must be among it."""
        for chat in self.chats.values():
            random = Random(f"{self.seed}:talk:{chat.number}:{round_}")
            if chat.habits.mode and not chat.commands["/queue"]:
                await self._command(chat, f"/queue {chat.habits.mode}")
            for command, share in chat.habits.commands.items():
                if random.random() < share or command == needed:
                    await self._command(chat, command)
            for _ in range(chat.habits.waiting - len(self.waiting(chat))):
                await self._say(chat)

    async def react(self) -> None:
        """Answer questions and approvals as they are seen, until cancelled."""
        while True:
            for chat in self.chats.values():
                await self._look(chat)
            await clock.sleep(LOOK_SECONDS)

    def seen(self, chat: Chat) -> list[Seen]:
        """The chat as its people read it."""
        return read_chat(self.telegram.sent(chat.number))

    def answered(self, chat: Chat) -> set[str]:
        """The names of the messages that have their whole answer."""
        return {piece.split()[0] for seen in self.seen(chat) for piece in seen.pieces if piece.endswith(END)}

    def waiting(self, chat: Chat) -> list[str]:
        """What was written after the last message that has an answer."""
        answered = self.answered(chat)
        names = [name for name, _ in chat.said]
        last = max((place for place, name in enumerate(names) if name in answered), default=-1)
        return names[last + 1 :]

    async def _say(self, chat: Chat) -> None:
        number = len(chat.said)
        random = Random(f"{self.seed}:said:{chat.number}:{number}")
        name, kind = f"m{number}c{abs(chat.number)}", random.choice(chat.habits.kinds)
        chat.said.append((name, kind))
        # Joint answers of several parts are not for the books, which read those by name.
        joins = "long" not in chat.habits.kinds
        await self._write(chat, f"{name} {kind}", random.choice(chat.habits.users), right_behind=joins)

    async def _command(self, chat: Chat, command: str) -> None:
        chat.commands[command.split()[0]] += 1
        await self._write(chat, command, chat.habits.users[0])

    async def _write(self, chat: Chat, text: str, user: int, *, right_behind: bool = False) -> None:
        if chat.number < 0:
            text, where = f"{BOT_NAME} {text}", chat.number
        else:
            where = user
        await self.telegram.world.say(text, user=user, chat=where, right_behind=right_behind)

    async def _look(self, chat: Chat) -> None:
        seen = self.seen(chat)
        for message in seen:
            if question := self._asked_by(chat, message):
                await self._approve(chat, question, seen, about=message.text)
            if found := re.search(rf"{QUESTION} (\w+)", message.text):
                await self._answer(chat, found[1], message.message_id)

    def _asked_by(self, chat: Chat, message: Seen) -> str:
        """The id of the call that a message asks for; empty: of none."""
        sent = [each for each in self.telegram.sent(chat.number) if each.message_id == message.message_id]
        buttons = [button for each in sent for row in each.keyboard for button in row]
        return next((str(b["callback_data"]).split(":")[1] for b in buttons if b["text"] == "Allow once"), "")

    async def _answer(self, chat: Chat, name: str, message_id: int) -> None:
        """Answer a question once, in words or by its first button: that answer must not be lost."""
        if chat.reacted[name]:
            return
        chat.reacted[name] += 1
        [asked] = [sent for sent in self.telegram.sent(chat.number) if sent.message_id == message_id]
        user = chat.habits.users[0]
        if chat.habits.presses and asked.keyboard:
            chat.presses += 1
            data = asked.keyboard[0][0]["callback_data"]
            await self.telegram.world.press(chat.number, message_id, data, user=user)
        else:
            await self._write(chat, "red", user)

    async def _approve(self, chat: Chat, question: str, seen: Sequence[Seen], *, about: str) -> None:
        """Approve; again where the answer was that there is no such question, or that its process does not answer."""
        names = re.findall(r"m\d+c\d+", about)
        refusals = sum(message.text.startswith((GONE, NOT_ANSWERED)) for message in seen)
        is_refused = refusals > chat.refused.get(question, refusals) and not self.answered(chat) & set(names)
        if not chat.reacted[question] or (is_refused and chat.reacted[question] < TRIES):
            chat.reacted[question] += 1
            chat.refused[question] = refusals
            chat.commands["/approve"] += 1
            await self._write(chat, f"/approve {question}", chat.habits.users[0])


async def ended(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
