"""What somebody else wrote about the same protocols: the official SDKs and pydantic-ai (development only)."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from goclaw.llm.base import ChatModel, ModelPorts, Request
from tests.llm.asking import TOOLS, ask, model_ports
from tests.llm.fake_provider import FakeProvider, fake_provider, refusal
from tests.llm.wires import Wire

CALL_A = ToolCall("toolu_a", "get_weather", {"city": "Oslo"})
CALL_B = ToolCall("toolu_b", "get_time", {"tz": "UTC"})


CONVERSATION: list[Message] = [
    UserMessage("Hello"),
    AssistantMessage("Hi!"),
    UserMessage("What is this?", (Image("aa", "image/png"),)),
    AssistantMessage("I look.", (CALL_A, CALL_B)),
    ToolResult("toolu_a", "get_weather", "rain"),
    ToolResult("toolu_b", "get_time", "no such zone", is_error=True),
    UserMessage("And?"),
]
"""A picture, parallel calls, an error, words after the results: what a day brings."""
QUESTION = Request("Be brief.", CONVERSATION, TOOLS, 1_000)


def validated(kind: Any, body: Mapping[str, Any]) -> Any:
    """The body as the type reads it. Fields that the type does not have are missing in it."""
    return consumed(adapter(kind).validate_python(body))


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """What reads a type: making it takes a tenth of a second, and it must outlive the lazy iterators that it makes."""
    return TypeAdapter(kind)


def consumed(value: Any) -> Any:
    """With the lazy iterators of pydantic read, so that what they hold is checked, too."""
    if isinstance(value, Mapping):
        return {key: consumed(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return [consumed(inner) for inner in value]


class Bodies:
    """Asks a wire questions and returns what it sent, over a real socket."""

    def __init__(self, runner: asyncio.Runner, fake: FakeProvider, ports: ModelPorts, wire: Wire) -> None:
        self._runner = runner
        self._fake = fake
        self._ports = ports
        self._wire = wire

    def open(self, **options: Any) -> ChatModel:
        return self._wire.open(self._fake.url, self._ports, **options)

    def of(self, request: Request, model: ChatModel | None = None) -> dict[str, Any]:
        asked = model or self.open()
        self._runner.run(ask(asked, request))
        return self._fake.asked[-1].body


@contextmanager
def sending(wire: Wire) -> Iterator[Bodies]:
    """A server that says hello, and a wire that talks to it; for property tests, which are not asynchronous."""

    async def enter(stack: AsyncExitStack) -> tuple[FakeProvider, ModelPorts]:
        fake = await stack.enter_async_context(fake_provider())
        fake.routes["/api/show"] = refusal(404, {"error": "unknown"})
        fake.will(wire.answer())
        return fake, await stack.enter_async_context(model_ports())

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            fake, ports = runner.run(enter(stack))
            yield Bodies(runner, fake, ports, wire)
        finally:
            runner.run(stack.aclose())


def differences(ours: Any, theirs: Any, path: str = "") -> set[str]:
    """Where two JSON values differ: `path: only ours`, `path: only theirs` or `path`."""
    if "content" in path.rpartition(".")[2] and isinstance(ours, list) and isinstance(theirs, list):
        # The order of a picture and the words about it is a matter of taste.
        ours, theirs = sorted(ours, key=kind_of), sorted(theirs, key=kind_of)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found: set[str] = set()
        for key in ours.keys() | theirs.keys():
            name = f"{path}.{key}" if path else key
            if key not in theirs:
                found.add(f"{name}: only ours")
            elif key not in ours:
                found.add(f"{name}: only theirs")
            else:
                found |= differences(ours[key], theirs[key], name)
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return set().union(
            *(differences(a, b, f"{path}[{n}]") for n, (a, b) in enumerate(zip(ours, theirs, strict=True)))
        )
    return set() if ours == theirs else {path}


def kind_of(block: Any) -> str:
    return str(block.get("type")) if isinstance(block, dict) else ""
