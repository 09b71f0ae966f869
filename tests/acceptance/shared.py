"""One daemon for the tests of a module, each of which talks to it as a person of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests import canaries
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel, Gate, echo_model, last_words
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import BOT_NAME, Sent
from tests.http_server import Json

FIRST, MOST = 1_000, 100
"""The number of the first person, and how many there are."""


@dataclass
class SharedDaemon:
    """A daemon that runs while the tests of a module do."""

    home: Installation
    telegram: FakeTelegram
    model: EchoModel
    users: dict[str, Mapping[str, Any]]
    """What users.json says."""
    numbers: "count[int]" = field(default_factory=lambda: count(FIRST))

    def person(self) -> "Person":
        """Return a person who has said nothing yet."""
        return Person(next(self.numbers), self)

    def allow(self, changes: Mapping[int, Mapping[str, Any]]) -> None:
        """Change the entries of these people in users.json."""
        self.users |= {f"telegram:{number}": entry for number, entry in changes.items()}
        self.home.write_users(self.users)


@dataclass(frozen=True)
class Person:
    """A person in Telegram, with a private chat and a group."""

    number: int
    daemon: SharedDaemon

    @property
    def group(self) -> int:
        return -self.number

    @property
    def session(self) -> str:
        return f"telegram:{self.number}"

    @property
    def requests(self) -> list[Json]:
        """What the model was asked for this person, oldest first."""
        return [body for body in self.daemon.model.requests if self.name("") in last_words(body)]

    def name(self, letter: str) -> str:
        """Return the id of a message, which no other test uses: `m1000a`."""
        return f"m{self.number}{letter}"

    def answer(self, letter: str) -> str:
        """Return the plain answer to that message."""
        return f"answer {self.name(letter)} (end)"

    def sent(self, chat: int | None = None) -> list[Sent]:
        """Return the bot's messages in the private chat, or in another one."""
        return self.daemon.telegram.sent(self.number if chat is None else chat)

    def texts(self, chat: int | None = None) -> list[str]:
        """Return what these say."""
        return [sent.text for sent in self.sent(chat)]

    def gate(self, letter: str, *, streamed: int = 1) -> Gate:
        """Hold the answer to a message after so many pieces."""
        return self.daemon.model.gate(self.name(letter), streamed=streamed)

    async def say(self, text: str, **more: Any) -> Json:
        """Write in the private chat."""
        return await self.daemon.telegram.world.say(text, user=self.number, **more)

    async def say_in_group(self, text: str, **more: Any) -> Json:
        """Write in the group, to the bot."""
        return await self.say(f"{BOT_NAME} {text}", chat=self.group, **more)

    async def hears(self, messages: int = 1) -> list[str]:
        """Wait for so many messages in the private chat; return what they say."""
        return [sent.text for sent in await self.daemon.telegram.wait_sent(self.number, messages)]

    async def ask(self, text: str) -> str:
        """Write in the private chat; return what comes next."""
        before = len(self.sent())
        await self.say(text)
        return (await self.hears(before + 1))[-1]


@asynccontextmanager
async def open_shared(folder: Path) -> AsyncIterator[SharedDaemon]:
    """A daemon with Telegram and a model, where everybody who has a number may do everything."""
    numbers = range(FIRST, FIRST + MOST)
    async with (
        FakeTelegram() as telegram,
        echo_model() as model,
        installation(folder, telegram, model.url, forks=True) as home,
    ):
        home.config["telegram"]["groups"] = [-number for number in numbers]
        home.write_config()
        home.environment = {"TELEGRAM_BOT_TOKEN": telegram.token}
        made = SharedDaemon(home, telegram, model, {f"telegram:{number}": {} for number in numbers})
        made.allow({})
        await home.start(telegram)
        yield made
        assert await home.stop() == 0
        canaries.check(folder, model.requests)
