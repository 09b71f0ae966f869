"""Scripts and looks for tests of agents that work on a part of a turn."""

import asyncio
from collections.abc import Callable, Sequence

from goclaw.common.core.events import AGENT_MARK
from goclaw.common.core.messages import Message, ToolCall, ToolResult
from goclaw.llm.base import Request
from goclaw.llm.scripted import text_of
from tests.harness import PATIENCE, Answer, Core, World, before_the_next_look

HERE = "memory:here"


def handing(task: str, call_id: str = "c1", **more: object) -> ToolCall:
    """A call that hands a task to an agent."""
    return ToolCall(call_id, "agent", {"task": task, **more})


def asks_for(when: str, *calls: ToolCall, text: str = "") -> Answer:
    """Return an answer to a request that ends with `when`: these calls, with `text` before them."""
    return Answer(text, calls=calls, when=when)


def says(when: str, text: str) -> Answer:
    """Return an answer to a request that ends with `when`: this text."""
    return Answer(text, when=when)


async def agents_of(core: Core, session: str = HERE) -> list[str]:
    """The sessions of agents that worked in a session, in order."""
    found = [info.key for info in await core.transcripts.sessions()]
    return sorted(key for key in found if key.startswith(f"{session}{AGENT_MARK}"))


def results(messages: Sequence[Message]) -> list[str]:
    """What tools said, without the marks around what comes from outside."""
    return [message.content for message in messages if isinstance(message, ToolResult)]


def request_that_ends_with(world: World, text: str) -> Request:
    """The last request whose last message contains a text."""
    return next(request for request in reversed(world.script.requests) if text in text_of(request.messages[-1]))


async def until(condition: Callable[[], object]) -> None:
    """Wait for what no event tells."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # not everything has an event
            await before_the_next_look()
