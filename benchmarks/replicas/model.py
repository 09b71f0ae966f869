"""A model in the benchmark's own process: when it was asked, and when each piece of an answer was written."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.http_server import DONE, Json, frame, serve, stream, tool_call, usage

PATIENCE = 60.0
"""Seconds that anything may take."""
HOLD, CALL = "hold", "call"
"""Words in a message: its answer is held behind the first piece; a call of `exec` comes before it."""


@dataclass
class Asked:
    """A request to the model."""

    at: float
    """When it had come, on the machine's monotonic clock."""
    body: Json
    ended_at: float = 0.0
    written: list[float] = field(default_factory=list)
    """When each piece was written."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was ended, or the client went away."""
    left_at: float = 0.0

    @property
    def said(self) -> str:
        """What the person said last, and what else the request has of that message."""
        return json.dumps(next(each for each in reversed(self.body["messages"]) if each["role"] == "user"))

    @property
    def answers_tool(self) -> bool:
        """Whether the result of a call stands last."""
        return bool(self.body["messages"][-1]["role"] == "tool")


@dataclass
class Model:
    """A model that says `pieces`, and holds or calls a tool where a message asks for that."""

    think: float = 0.0
    pause: float = 0.0
    """Seconds between two pieces."""
    pieces: list[str] = field(default_factory=lambda: ["lobster "] * 4)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: nothing is held."""
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        body = json.loads(await request.read())
        asked = Asked(time.monotonic(), body)
        self.asked.append(asked)
        await self._tell()
        try:
            return await stream(request, self._events(asked))
        finally:
            asked.left_at = time.monotonic()
            asked.left.set()

    async def _events(self, asked: Asked) -> AsyncIterator[bytes]:
        await asyncio.sleep(self.think)
        yield frame({"role": "assistant", "content": ""})
        calls = CALL in asked.said and not asked.answers_tool
        if calls:
            yield frame({"tool_calls": [tool_call(f"call_{uuid.uuid4().hex}", "exec", {"command": "true"})]})
        for piece in [] if calls else self.pieces:
            yield frame({"content": piece})
            asked.written.append(time.monotonic())
            await self._tell()
            if HOLD in asked.said and not self.released.is_set():
                await self.released.wait()
            if self.pause:
                await asyncio.sleep(self.pause)
        yield frame({}, "tool_calls" if calls else "stop")
        asked.ended_at = time.monotonic()
        yield usage(100, 4)
        yield DONE

    async def asked_for(self, name: str, after: int = 0, *, tool: bool = False) -> Asked:
        """Wait for a request that answers a message with `name` in it, behind the first `after` ones."""

        def found() -> Asked | None:
            these = (each for each in self.asked[after:] if name in each.said and each.answers_tool == tool)
            return next(these, None)

        await self.until(found)
        there = found()
        assert there is not None
        return there

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds that changes when a request comes, or a piece is written."""
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: bool(holds()))

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()


@asynccontextmanager
async def open_model() -> AsyncIterator[Model]:
    """Serve on a free port of this machine."""
    model = Model()
    async with serve(web.post("/chat/completions", model.answer)) as model.url:
        yield model
