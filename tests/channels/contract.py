"""How the contract of channels speaks with each of them: a person with one way in, before the whole daemon.

A `Way` is what a person has in hand: it outlives the daemon, and shows what stands on the screen now. One line of
`WAYS` for each channel; `test_contract` is red until a new one has its own.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from aiohttp.test_utils import unused_port

from goclaw.channels.memory import Heard, Room
from goclaw.clients.tui.client import Client, RemoteDaemon, attach
from goclaw.clients.tui.plain import PlainView
from goclaw.common.auth.tokens import add_token
from goclaw.common.config.schema import Config
from goclaw.common.core.events import (
    Actor,
    AgentProgress,
    Attachment,
    MessageStored,
    Question,
    QuestionAsked,
    TodosChanged,
    ToolFinished,
    ToolStarted,
)
from goclaw.common.core.messages import Artifact, AssistantMessage, ToolResult
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import ArtifactFrame, AskArtifact, Decide
from goclaw.errors import DeliveryError
from goclaw.program.app import open_app
from goclaw.program.app.parts import App
from tests.acceptance.waiting import LOOK_SECONDS, PATIENCE, clock, eventually
from tests.channels.telegram.support import UNHURRIED
from tests.fake_telegram.server import FakeTelegram

Json = dict[str, Any]
SHED = ("memory", "shed")
"""A chat without a person, for ways that have no other one."""


class Way(ABC):
    """A person before the daemon. `open` holds what outlives it; `meet` is called at every start of it."""

    key: ClassVar[str]
    """Who it is, in users.json."""
    session: ClassVar[str]
    other: ClassVar[tuple[str, str]] = SHED
    """A chat beside their own, with its channel."""
    has_chat: ClassVar[bool] = True
    """Whether messages have ids, and can be changed later."""
    takes_files: ClassVar[bool] = True
    has_buttons: ClassVar[bool] = True
    """Whether options are buttons; else each has a number."""
    moment: ClassVar[float] = 0.0
    """Seconds until what goes on is shown anew: what is over sooner may never be seen."""
    first: ClassVar[str] = "1"
    """The id of the first message to the person, if that answers the first one of theirs."""
    settings: Json

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.room = Room()
        self.settings = {"channels": {"memory": {"room": self.room}}}
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The world outside stands."""
        yield

    @asynccontextmanager
    async def meet(self, app: App) -> AsyncIterator[None]:
        """A daemon stands, too."""
        yield

    @abstractmethod
    async def say(self, text: str) -> None: ...

    async def send_file(self, name: str, mime: str, content: bytes) -> None:
        """Send a file, a picture as what the way sends pictures as."""
        raise NotImplementedError

    @abstractmethod
    def shown(self) -> Sequence[str]:
        """What stands in the chat now, message by message, or line by line; files are not in it."""

    def reactions(self) -> Sequence[str]:
        """All that stand in the chat."""
        return ()

    def files(self) -> Sequence[tuple[str, bytes]]:
        """Names and contents of the files that came."""
        return ()

    async def kept(self) -> str:
        """What a tool kept for people, as they get it to see."""
        return (await eventually(self.files))[0][1].decode()

    @abstractmethod
    async def asked(self, words: str) -> str:
        """Wait until a question with these words stands there; returns its id."""

    @abstractmethod
    async def choose(self, words: str, option: str) -> None:
        """Press the button of the question with these words, or its key."""

    @abstractmethod
    def progress(self) -> str:
        """All that was seen of what goes on, in order."""

    def there(self) -> Sequence[str]:
        """What arrived in the other chat, a line each."""
        arrived = [heard.delivery.text for heard in self.room.all if heard.delivery.address.chat == self.other[1]]
        return [" ".join(text.replace("**", "").split()) for text in arrived]

    @abstractmethod
    def close_chat(self) -> None:
        """Let the next message be refused for good, in words that contain `no`."""

    async def until(self, *words: str) -> None:
        """Wait until all the words stand on the screen."""
        await eventually(lambda: all(word in "\n".join(self.shown()) for word in words) or None)


class MemoryWay(Way):
    """A program that embeds GoClaw."""

    key = session = "memory:ann"
    me = Actor(key, "memory", name="Ann")

    async def say(self, text: str) -> None:
        await self.room.say(text, actor=self.me, chat="ann")

    async def send_file(self, name: str, mime: str, content: bytes) -> None:
        kind = "image" if mime.startswith("image/") else "document"
        attachment = Attachment(kind, "", mime, name, len(content))  # type: ignore[arg-type]  # one of the two
        await self.room.say("", actor=self.me, chat="ann", files=[(attachment, content)])

    def _standing(self) -> dict[str, Heard]:
        """The messages of the chat as they are now."""
        found: dict[str, Heard] = {}
        for heard in self.room.all:
            if heard.delivery.address.chat != "ann":
                continue
            if heard.delivery.action == "delete":
                found.pop(heard.message_id)
            elif heard.delivery.action != "react":
                found[heard.message_id] = heard
        return found

    def shown(self) -> Sequence[str]:
        return [heard.delivery.text for heard in self._standing().values()]

    def reactions(self) -> Sequence[str]:
        return [heard.delivery.emoji or "" for heard in self.room.all if heard.delivery.action == "react"]

    def files(self) -> Sequence[tuple[str, bytes]]:
        blobs = self.state / "blobs" / "media"
        media = [heard.delivery for heard in self._standing().values() if heard.delivery.media]
        return [(each.media_name, (blobs / str(each.media)).read_bytes()) for each in media]

    async def _asking(self, words: str) -> Heard:
        def look() -> Heard | None:
            standing = (heard for heard in self._standing().values() if heard.delivery.choices)
            return next((heard for heard in standing if words in heard.delivery.text), None)

        return await eventually(look)

    async def asked(self, words: str) -> str:
        return (await self._asking(words)).delivery.choices[0].question

    async def choose(self, words: str, option: str) -> None:
        choices = (await self._asking(words)).delivery.choices
        await self.room.press(next(choice for choice in choices if choice.label == option), self.me)

    def progress(self) -> str:
        lines = []
        for event in self.room.happened:
            match event:
                case ToolStarted() | ToolFinished():
                    lines.append(event.hint)
                case AgentProgress():
                    lines.append(event.doing)
                case TodosChanged():
                    lines += [f"{todo.status} {todo.content}" for todo in event.todos]
                case _:
                    pass
        return "\n".join(lines)

    def close_chat(self) -> None:
        self.room.failures.append(DeliveryError("there is no such room", permanent=True))


class TelegramWay(Way):
    """A person in Telegram, in private."""

    key = session = "telegram:5"
    other = ("telegram", "9")
    first = "2"  # the person's own has a number, too
    moment = 0.6

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with FakeTelegram() as self.telegram:
            self.telegram.world.meet(9)
            here = {"token": self.telegram.token, "base_url": self.telegram.base_url, "poll_seconds": 5}
            self.settings |= {"telegram": UNHURRIED | here}
            yield

    async def say(self, text: str) -> None:
        await self.telegram.world.say(text)

    async def send_file(self, name: str, mime: str, content: bytes) -> None:
        if mime.startswith("image/"):
            await self.telegram.world.say(photo=content)
        else:
            await self.telegram.world.say(document=content, mime=mime, file_name=name)

    def shown(self) -> Sequence[str]:
        return [sent.text for sent in self.telegram.sent(5)]

    def reactions(self) -> Sequence[str]:
        return [emoji for sent in self.telegram.sent(5) for emoji in sent.reactions]

    def files(self) -> Sequence[tuple[str, bytes]]:
        return [(sent.file_name, sent.file) for sent in self.telegram.sent(5) if sent.file is not None]

    async def _buttons(self, words: str) -> tuple[int, dict[str, str]]:
        def look() -> tuple[int, dict[str, str]] | None:
            for sent in self.telegram.sent(5):
                if words in sent.text and sent.keyboard:
                    buttons = [button for row in sent.keyboard for button in row]
                    return sent.message_id, {button["text"]: button["callback_data"] for button in buttons}
            return None

        return await eventually(look)

    async def asked(self, words: str) -> str:
        _, buttons = await self._buttons(words)
        return next(iter(buttons.values())).split(":")[1]

    async def choose(self, words: str, option: str) -> None:
        message_id, buttons = await self._buttons(words)
        await self.telegram.world.press(5, message_id, buttons[option])

    def progress(self) -> str:
        return "\n".join(draft.get("text", "") for draft in self.telegram.called("sendMessageDraft"))

    def there(self) -> Sequence[str]:
        return [" ".join(sent.text.split()) for sent in self.telegram.sent(9)]

    def close_chat(self) -> None:
        self.telegram.fail("sendMessage", status=400, description="Bad Request: there is no such chat", times=1)


class TerminalWay(Way):
    """A person in a terminal: the client's end of the connection, and what it prints."""

    key = session = "tui:ann"
    has_buttons = False
    has_chat = takes_files = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.written: list[str] = []
        self._questions: dict[str, Question] = {}
        self._blobs: list[str] = []
        self._files: list[tuple[str, bytes]] = []
        self._kept: asyncio.Queue[str] = asyncio.Queue()
        self._client: Client

    @asynccontextmanager
    async def meet(self, app: App) -> AsyncIterator[None]:
        async with self.line(app) as client:
            self._client = client
            view = PlainView(self.written.append, self.key)
            for question in client.attached.now.questions:
                self._note(question, view)
            async with background(self._follow(client, view), "terminal"):
                yield

    def line(self, app: App) -> AbstractAsyncContextManager[Client]:
        """A connection."""
        return attach(app.foundation.config.socket_path, self.session)

    async def _follow(self, client: Client, view: PlainView) -> None:
        async for received in client.receive():
            match received:
                case QuestionAsked():
                    self._note(received.question, view)
                case ArtifactFrame():
                    self._kept.put_nowait(received.text)
                case ToolFinished():
                    self._blobs += [artifact.blob for artifact in received.artifacts]
                    self._note_files(received.artifacts)
                    view.show(received)
                case MessageStored(message=AssistantMessage(artifacts=artifacts)):
                    self._note_files(artifacts)
                    view.show(received)
                case _ if hasattr(received, "acceptance"):
                    view.show(received.acceptance)
                case _:
                    view.show(received)  # type: ignore[arg-type]  # the other frames are answers to what nobody asks here

    def _note(self, question: Question, view: PlainView) -> None:
        self._questions[question.id] = question
        view.print_question(question)

    def _note_files(self, artifacts: Sequence[Artifact]) -> None:
        blobs = self.state / "blobs" / "media"
        self._files += [(Path(each.name).name, (blobs / each.blob).read_bytes()) for each in artifacts if each.is_file]

    def files(self) -> Sequence[tuple[str, bytes]]:
        return self._files

    async def say(self, text: str) -> None:
        await self._client.submit(text)

    def shown(self) -> Sequence[str]:
        return "".join(self.written).splitlines()

    async def kept(self) -> str:
        blob = (await eventually(lambda: self._blobs))[0]
        await self._client.ask(AskArtifact(blob))
        async with asyncio.timeout(PATIENCE):
            return await self._kept.get()

    async def asked(self, words: str) -> str:
        def look() -> str | None:
            found = (each.id for each in self._questions.values() if words in f"{each.title}\n{each.text}")
            return next(found, None)

        return await eventually(look)

    async def choose(self, words: str, option: str) -> None:
        answer = {"Allow once": "allow", "Deny": "deny"}.get(option, option)
        await self._client.ask(Decide("d1", await self.asked(words), answer))

    def progress(self) -> str:
        return "".join(self.written)

    def close_chat(self) -> None:
        """Do nothing."""


class RemoteWay(TerminalWay):
    """The same over TCP, with a token."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = unused_port()
        self._token = add_token(Config(state_dir=self.state).tokens_path, "laptop", self.key, clock.now())
        self.settings |= {"http": {"clients": True, "port": self._port}}

    def line(self, app: App) -> AbstractAsyncContextManager[Client]:
        return attach(RemoteDaemon(f"http://127.0.0.1:{self._port}", self._token), self.session)


WAYS: dict[str, Callable[[Path], Way]] = {
    "memory": MemoryWay,
    "telegram": TelegramWay,
    "terminal": TerminalWay,
    "remote terminal": RemoteWay,
}
"""Every channel of the catalogue, and terminals, which are no channel, on this machine and over TCP."""


class Scene:
    """A person, their way, and daemons on one state folder, one after the other."""

    def __init__(self, way: Way, answers: Sequence[Json], **settings: Any) -> None:
        self.way = way
        self._settings = settings
        self.app: App
        (way.state / "users.json").write_text(json.dumps({"users": {way.key: {"name": "Ann", "roles": ["admin"]}}}))
        self._script = way.folder / "script.json"
        self._script.write_text(json.dumps({"answers": list(answers), "rest": {"text": "Done."}}))

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[None]:
        """One run of the daemon, with the person before it."""
        config = Config.model_validate(
            {
                "state_dir": self.way.state,
                "models": {"agent": [f"scripted:{self._script}"], "summary": []},
                **self.way.settings,
                **self._settings,
            }
        )
        async with AsyncExitStack() as stack:
            self.app = await stack.enter_async_context(open_app(config))
            await stack.enter_async_context(self.way.meet(self.app))
            yield

    @property
    def workspace(self) -> Path:
        """Where the agent works."""
        return self.app.foundation.environment.workspaces.place(self.way.key).root

    async def results(self) -> list[str]:
        """What the model was told of its calls."""
        rows = await self.app.sessions.ports.store.transcripts.history(self.way.session, 0, 100)
        return [row.message.content for row in rows if isinstance(row.message, ToolResult)]

    async def answered(self, count: int = 1) -> None:
        """Wait until so many turns have their answers."""

        async def count_them() -> int:
            rows = await self.app.sessions.ports.store.transcripts.history(self.way.session, 0, 100)
            return sum(isinstance(row.message, AssistantMessage) and not row.message.calls for row in rows)

        async with asyncio.timeout(PATIENCE):
            while await count_them() < count:
                await clock.sleep(LOOK_SECONDS)

    async def decide_elsewhere(self, question: str, answer: str) -> None:
        """The owner answers a question of the person, in a terminal of this machine."""
        async with attach(self.app.foundation.config.socket_path, self.way.session) as client:
            await client.answer(Decide("elsewhere", question, answer), object)


@asynccontextmanager
async def opened(way: Way, *answers: Json, **settings: Any) -> AsyncIterator[Scene]:
    """A scene with the world outside, and no daemon yet."""
    async with way.open(), asyncio.timeout(60):
        yield Scene(way, answers, **settings)


__all__ = ["WAYS", "Scene", "Way", "opened"]
