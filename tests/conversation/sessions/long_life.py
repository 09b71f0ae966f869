"""People and models for conversations that go on for months: facts are planted, tools answer at length, things fail."""

import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field

from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.specs import SideEffect
from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import Finished, ModelEvent, Request, Stop, TextDelta, Usage
from goclaw.llm.scripted import text_of
from goclaw.tools.toolkit.base import Tool, ToolContext, tool

FACT = re.compile(r"fact-\d{3}=\w+")
WORDS = (
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "lazy",
    "dogs",
    "while",
    "wizards",
    "brew",
    "potions",
    "again",
)
BYTES_PER_TOKEN = 3.7
"""Of the tokenizer that this world pretends to have; not the one that our estimate assumes."""


def real_tokens(request: Request) -> int:
    """What the provider counts."""
    size = len(request.system) + sum(len(text_of(message).encode()) + 16 for message in request.messages)
    calls = [call for message in request.messages if isinstance(message, AssistantMessage) for call in message.calls]
    schemas = sum(len(str(spec.schema)) for spec in request.tools)
    return int((size + schemas + sum(len(str(call.input)) for call in calls)) / BYTES_PER_TOKEN)


def facts_in(texts: Sequence[str]) -> list[str]:
    """The facts in texts, each once, in order."""
    return list(dict.fromkeys(fact for text in texts for fact in FACT.findall(text)))


def babble(chance: random.Random, words: int) -> str:
    """Words without meaning."""
    return " ".join(chance.choices(WORDS, k=words))


def flaws(messages: Sequence[Message]) -> list[str]:
    """What any provider would refuse a request for."""
    found = [] if messages and isinstance(messages[0], UserMessage) else ["does not begin with a person"]
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            if not waiting or waiting.pop(0) != message.call_id:
                found.append(f"the result {message.call_id} has no call before it")
            continue
        if waiting:
            found.append(f"the calls {waiting} have no result")
        waiting = [call.id for call in message.calls] if isinstance(message, AssistantMessage) else []
        if isinstance(message, AssistantMessage) and not message.text and not message.calls:
            found.append("an empty answer")
    return [*found, f"the calls {waiting} have no result"] if waiting else found


def recalled(request: Request) -> AssistantMessage:
    """The summary of a summariser that returns exactly the facts that it is shown."""
    facts = facts_in([text_of(message) for message in request.messages])
    kept = " ".join(facts) or "nothing in particular so far"
    return AssistantMessage(f"What was said and is to be kept, one by one: {kept}")


@dataclass
class Agent:
    """The main model: sometimes works with a tool, checks whatever it is sent."""

    context_window: int
    chance: random.Random
    spec: str = "scripted:agent"
    sees_images: bool = False
    requests: int = 0
    largest: int = 0
    problems: list[str] = field(default_factory=list)
    last: Request | None = None
    trouble: float = 0.0
    """How often an answer breaks off."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._events(request))

    async def count(self, request: Request) -> int:
        return real_tokens(request)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        self.requests += 1
        tokens = real_tokens(request)
        self.largest = max(self.largest, tokens)
        self.last = request
        self.problems += flaws(request.messages)
        if tokens > self.context_window:
            self.problems.append(f"request {self.requests} has {tokens} tokens")
        yield TextDelta("Well")
        if self.chance.random() < self.trouble:
            raise ModelError(ModelErrorKind.SERVER, "the server fell over", spec=self.spec, partial=True)
        answer = self._answer(request) if request.tools else recalled(request)
        usage = Usage(input=tokens, output=len(answer.text) // 4)
        yield Finished(answer, usage, Stop.TOOLS if answer.calls else Stop.END, self.spec)

    def _answer(self, request: Request) -> AssistantMessage:
        working = isinstance(request.messages[-1], ToolResult)
        if self.chance.random() < (0.3 if working else 0.25):
            number = self.chance.choice((1, 1, 2))
            calls = tuple(
                ToolCall(f"c{self.requests}-{n}", "look", {"where": f"{self.requests}/{n}"}) for n in range(number)
            )
            return AssistantMessage("Let me look.", calls)
        return AssistantMessage(babble(self.chance, self.chance.randint(5, 80)))


@dataclass
class Clerk:
    """The summary model: returns exactly the facts that it is shown; out of order now and then."""

    context_window: int
    chance: random.Random
    spec: str = "ollama:clerk"
    sees_images: bool = False
    trouble: float = 0.0
    asked: int = 0

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._events(request))

    async def count(self, request: Request) -> int:
        return real_tokens(request)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        self.asked += 1
        if self.chance.random() < self.trouble:
            raise ModelError(ModelErrorKind.NETWORK, "nobody answers", spec=self.spec)
        answer = recalled(request)
        usage = Usage(real_tokens(request), len(answer.text) // 4)
        yield Finished(answer, usage, Stop.END, self.spec)


def look(chance: random.Random) -> Tool:
    """A tool whose answers are long at times."""

    @tool(side_effect=SideEffect.READ_ONLY, name="look")
    async def run(ctx: ToolContext, where: str) -> str:
        """Look somewhere."""
        return babble(chance, chance.choice((10, 100, 400, 4_000)))

    return run
