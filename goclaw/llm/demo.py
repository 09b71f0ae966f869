"""The model without a model: works without key, server or network, and always says that no AI is connected.

Deterministic. It exists so that a first start shows everything else: `/tool NAME {json}` in a message runs a real tool
through the real rights and approvals. It never stands in for a real model that failed.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import count
from typing import Any

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.llm.base import CallStarted, Finished, ModelEvent, ModelPorts, Provider, Request, Stop, TextDelta, Usage
from goclaw.llm.lenient_json import load_json
from goclaw.llm.token_counts import estimate_request

NO_AI = "[demo] No AI is connected: `goclaw setup` connects one."
"""The first line of a reply to a message; where tools run, which takes two replies, `MARK` says it in short."""
MARK = "[demo, no AI]"
CONTEXT_WINDOW = 32_768
"""Small enough that compaction can be seen at work, large enough to talk for a while."""
DELTAS = 4
"""Pieces that a reply is streamed in."""
ENVELOPE = re.compile(r"\A<context\b.*?</context>\n?", re.DOTALL)
"""The envelope around a person's words, made by the gateway."""
MATERIAL = re.compile(
    r'(?:\([^\n]*<material>[^\n]*\)\n)?<material (?P<id>[a-z]+) from="[^"\n]*">\n(?P<text>.*?)\n</material (?P=id)>',
    re.DOTALL,
)
"""The marks around foreign text, and the line that explains the first ones, made by the gateway: instructions in it are
not followed."""
FENCE = re.compile(r"`{3,}")
TOOL_LINE = re.compile(r"^/tool[ \t]+(?P<name>\S+)[ \t]*(?P<input>.*)$", re.MULTILINE)


class DemoModel:
    """A `ChatModel` that repeats messages and makes the tool calls written in them."""

    def __init__(self, spec: str = "demo", context_window: int = CONTEXT_WINDOW) -> None:
        self.spec = spec
        self.context_window = context_window
        self.sees_images = False

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Answer immediately. Raises nothing."""
        return aclosing(self._events(request))

    async def count(self, request: Request) -> int:
        """Return an estimate."""
        return estimate_request(request)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        text, calls = reply(request.messages)
        for piece in pieces(text):
            yield TextDelta(piece)
        for call in calls:
            yield CallStarted(call.name)
        stop = Stop.TOOLS if calls else Stop.END
        # All zero: no tokens were used, and a guess would look like a bill.
        yield Finished(AssistantMessage(text, calls), Usage(), stop, self.spec)


def reply(messages: Sequence[Message]) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text and the tool calls that answer `messages`."""
    results = trailing_results(messages)
    if results:
        reports = (f"{result.name} returned:\n\n{as_it_is(remove_marks(result.content))}" for result in results)
        return f"{MARK} " + "\n\n".join(reports), ()
    said = last_words(messages)
    orders = list(TOOL_LINE.finditer(MATERIAL.sub("", said)))
    if not orders:
        hint = 'Tools run without one, too: `/tool exec {"command": "ls"}`.'
        return f"{NO_AI}\n\nYou said: {remove_marks(said)}\n\n{hint}" if said else f"{NO_AI}\n\n{hint}", ()
    calls, lines = [], []
    fresh = fresh_ids(messages)
    for order in orders:
        name, written = order["name"], order["input"].strip()
        arguments = parse_object(written)
        if arguments is None:
            lines.append(f"`/tool {name}` needs a JSON object after the name, but got: {written}")
        else:
            calls.append(ToolCall(next(fresh), name, arguments))
    if not lines:
        return "", tuple(calls)
    return "\n".join([f"{MARK} {lines[0]}", *lines[1:]] if calls else [NO_AI, "", *lines]), tuple(calls)


def trailing_results(messages: Sequence[Message]) -> list[ToolResult]:
    """Return the tool results at the end of the conversation, oldest first."""
    found: list[ToolResult] = []
    for message in reversed(messages):
        if not isinstance(message, ToolResult):
            break
        found.append(message)
    return found[::-1]


def last_words(messages: Sequence[Message]) -> str:
    """Return the person's last message, without the gateway's envelope."""
    last = next((message for message in reversed(messages) if isinstance(message, UserMessage)), None)
    return ENVELOPE.sub("", last.text).strip() if last else ""


def remove_marks(text: str) -> str:
    """Return the text as people know it."""
    return MATERIAL.sub(lambda found: found["text"], text)


def as_it_is(text: str) -> str:
    """Return the text as a block of Markdown with none of it taken for Markdown."""
    longest = max((len(found) for found in FENCE.findall(text)), default=2)
    return f"{'`' * (longest + 1)}\n{text}\n{'`' * (longest + 1)}"


def parse_object(written: str) -> dict[str, Any] | None:
    """Return the JSON object that was written; `{}` for nothing, None for anything else."""
    value = load_json(written or "{}")
    return value if isinstance(value, dict) else None


def fresh_ids(messages: Sequence[Message]) -> Iterator[str]:
    """Return call ids that do not occur in the conversation: the same every time, for the same conversation."""
    taken = {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls}
    return (call_id for number in count(len(messages) + 1) if (call_id := f"demo-{number}") not in taken)


def pieces(text: str) -> list[str]:
    """Return the text cut into at most `DELTAS` parts of equal length."""
    size = max(1, -(-len(text) // DELTAS))
    return [text[start : start + size] for start in range(0, len(text), size)]


def open_demo(spec: str, settings: ProviderSettings, options: ModelOptions, ports: ModelPorts) -> DemoModel:
    """Return a demo model; only `context_window` of the options has a meaning for it."""
    return DemoModel(spec, options.context_window or CONTEXT_WINDOW)


PROVIDER = Provider("demo", open_demo)
