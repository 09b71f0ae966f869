"""A world in which people write, stop, change their mind and pull the plug at any moment, for property tests.

Model and tools go on only when they are let: the order of everything that can happen is the test's. What they do
depends on the conversation alone, so that a life after a kill goes on as the one before would have.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, UserMessage
from goclaw.common.specs import SideEffect
from goclaw.llm.base import Finished, ModelEvent, Request, Stop, TextDelta, Usage
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.harness import PATIENCE, Core, World

PEOPLE = (Actor("telegram:1", "telegram", name="Anna"), Actor("telegram:2", "telegram", name="Bert"))
SESSION = "telegram:-100"
WANTS = re.compile(r"\((\d) calls\)")
TURNS = 8
"""Rounds of the event loop and of the disk that everything gets after each thing that happens."""


class Turnstile:
    """Lets one through at a time, or everybody."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self.open = False

    async def pass_through(self) -> None:
        if not self.open:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def let(self, *, everybody: bool = False) -> None:
        self.open = everybody
        while waiting := [future for future in self._waiting if not future.done()]:
            waiting[0].set_result(None)
            if not everybody:
                break
        self._waiting = [future for future in self._waiting if not future.done()]


@dataclass
class Restless:
    """A `ChatModel` that makes as many calls in a turn as its last words ask for, one after the other or at once."""

    turnstile: Turnstile
    requests: list[Request] = field(default_factory=list)
    spec: str = "restless:test"
    context_window: int = 200_000
    sees_images: bool = True

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._events(request))

    async def count(self, request: Request) -> int:
        return 0

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        message = reply(request.messages)
        yield TextDelta(message.text)
        await self.turnstile.pass_through()
        yield Finished(message, Usage(), Stop.TOOLS if message.calls else Stop.END, self.spec)


def reply(messages: Sequence[Message]) -> AssistantMessage:
    """What the model says to a conversation."""
    words = next(message.text for message in reversed(messages) if isinstance(message, UserMessage))
    done = sum(isinstance(message, AssistantMessage) and bool(message.calls) for message in messages)
    wanted = int(found[1]) if (found := WANTS.search(words)) else 0
    answered = isinstance(messages[-1], UserMessage)
    if wanted and answered:
        calls = [ToolCall(f"c{done}-{n}", "touch", {"what": f"{done}-{n}"}) for n in range(wanted)]
        return AssistantMessage("Working.", tuple(calls))
    return AssistantMessage(f"Done: {len(messages)}.")


class Stage:
    """What outlives each life: the disk, the people's unacknowledged messages, the effects of tools."""

    def __init__(self, folder: Path) -> None:
        self.turnstile = Turnstile()
        self.model = Restless(self.turnstile)
        self.effects: Counter[str] = Counter()
        self.said: list[tuple[Actor, str]] = []
        """Everything that was written, in order."""
        self.limbo: list[tuple[str, dict[str, Any]]] = []
        """What nobody has acknowledged: the channel delivers it again."""
        users = [User(person.key) for person in PEOPLE]
        self.world = World(folder, tools=[self._touch()], users=users, model=self.model)

    def _touch(self) -> Tool:
        async def touch(ctx: ToolContext, what: str) -> str:
            """Do what must not happen twice."""
            self.effects[what] += 1
            await self.turnstile.pass_through()
            return "touched"

        return tool(side_effect=SideEffect.READ_ONLY, name="touch", idempotent=False)(touch)

    async def say(self, core: Core, who: int, calls: int, picture: bool) -> None:
        """Somebody writes a text that is like no other."""
        number = len(self.said)
        text = f"message {number} ({calls} calls)"
        pictures = {"image/png": b"png"} if picture else None
        options = {"actor": PEOPLE[who], "session": SESSION, "message_id": str(number), "pictures": pictures}
        self.said.append((PEOPLE[who], text))
        self.limbo.append((text, options))
        await self.deliver(core)

    async def deliver(self, core: Core) -> None:
        """The channel hands over what was not acknowledged, oldest first."""
        while self.limbo and not core.database.dead.is_set():
            text, options = self.limbo[0]
            if await until_dead(core, core.say(text, **options)):
                self.limbo.pop(0)

    async def command(self, core: Core, text: str, who: int = 0) -> None:
        """Somebody gives a command, and does not wait for its answer."""
        saying = asyncio.ensure_future(core.say(text, actor=PEOPLE[who], session=SESSION))
        await self.breathe(core)
        if core.database.dead.is_set():
            saying.cancel()
        elif not saying.done():
            # /stop waits for a turn that waits for the turnstile.
            self.turnstile.let()
            await until_dead(core, saying)

    async def breathe(self, core: Core) -> None:
        """Time enough for whatever can go on by itself."""
        for _ in range(TURNS):
            await until_dead(core, core.transcripts.count(SESSION))


async def until_dead(core: Core, work: Awaitable[object]) -> bool:
    """Wait for `work`, or for the end of the process. Returns whether it was done."""
    doing, dead = asyncio.ensure_future(work), asyncio.ensure_future(core.database.dead.wait())
    try:
        await asyncio.wait({doing, dead}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert doing.done() or dead.done(), "something hangs"
        return doing.done() and doing.exception() is None
    finally:
        doing.cancel()
        dead.cancel()
