"""How tests of this room ask a model, and what they need around it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.messages import Message, UserMessage
from goclaw.common.net import open_client
from goclaw.common.specs import ToolSpec
from goclaw.errors import ModelError
from goclaw.llm.base import ChatModel, Finished, ModelEvent, ModelPorts, Request, TextDelta, ThinkingDelta

PICTURE = bytes.fromhex("89504e470d0a1a0a")
"""What every blob of these tests holds; nobody decodes it."""

WEATHER = ToolSpec(
    "get_weather",
    "The weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
TIME = ToolSpec("get_time", "The time in a zone.", {"type": "object", "properties": {"tz": {"type": "string"}}})
TOOLS = (WEATHER, TIME)


@dataclass
class Heard:
    """Everything that came of one request."""

    events: list[ModelEvent] = field(default_factory=list)
    error: ModelError | None = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def thinking(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ThinkingDelta))

    @property
    def finished(self) -> Finished:
        if self.error is not None:
            raise self.error
        last = self.events[-1]
        assert isinstance(last, Finished), last
        assert sum(isinstance(event, Finished) for event in self.events) == 1
        return last

    @property
    def failed(self) -> ModelError:
        assert self.error is not None, self.events
        return self.error


def saying(
    *messages: Message | str, system: str = "Be brief.", tools: Sequence[ToolSpec] = (), max_output: int | None = None
) -> Request:
    """A request; plain strings are what a person says."""
    said = [UserMessage(message) if isinstance(message, str) else message for message in messages]
    return Request(system, said, tools, max_output)


async def ask(model: ChatModel, request: Request, seconds: float = 20) -> Heard:
    """Ask, and keep what came, the error too."""
    heard = Heard()
    try:
        async with asyncio.timeout(seconds), model.stream(request) as events:
            async for event in events:
                heard.events.append(event)
    except ModelError as error:
        heard.error = error
    return heard


@asynccontextmanager
async def model_ports(clock: Clock | None = None) -> AsyncIterator[ModelPorts]:
    """Ports with a real client; every picture has the same bytes."""

    async def load_image(key: str) -> bytes:
        return PICTURE

    async with open_client() as http:
        yield ModelPorts(http, load_image, clock or RealClock())
