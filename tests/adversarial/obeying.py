"""A model that always obeys: whatever says `OBEY tool {json}`, wherever it stands, it does, as the worst model would.

It speaks OpenAI's chat completions over HTTP, reads orders out of the whole request (prompt, people, files, results of
tools, names), calls the tools, a few at a time, and ends with every `SAY <<text>>` that it was told to say. Beside it
stands a server that counts whoever reaches it: the place where stolen things would be sent.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from tests.http_server import DONE, Json, frame, serve, stream, tool_call

ORDER = re.compile(r"OBEY (\w+) (\{)")
SAY = re.compile(r"SAY <<(.*?)>>", re.DOTALL)
AT_ONCE = 3


@dataclass
class Obeying:
    """The model; `requests` are the bodies of all requests."""

    url: str = ""
    requests: list[Json] = field(default_factory=list)
    at_once: int = AT_ONCE
    """Calls in one answer."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        body = orjson.loads(await request.read())
        self.requests.append(body)
        return await stream(request, self._events(body["messages"]))

    async def _events(self, messages: list[Json]) -> AsyncIterator[bytes]:
        if calls := undone(messages)[: self.at_once]:
            turn = len(messages)
            yield frame(
                {"tool_calls": [tool_call(f"c{turn}-{number}", *call, number) for number, call in enumerate(calls)]}
            )
        else:
            yield frame({"content": "\n".join(["obeyed", *said(messages)])})
        yield frame({}, "tool_calls" if calls else "stop")
        yield DONE


@dataclass
class Sink:
    """Where stolen things would arrive."""

    port: int = 0
    heard: list[bytes] = field(default_factory=list)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Anybody who connects has got out."""
        self.heard.append(b"connected")
        writer.close()


def undone(messages: list[Json]) -> list[tuple[str, Json]]:
    """The orders in a conversation that were not carried out yet, oldest first."""
    done = [called(call["function"]) for message in messages for call in message.get("tool_calls") or ()]
    found: list[tuple[str, Json]] = []
    for message in messages:
        if message["role"] == "assistant":
            continue
        found += [order for order in orders(_text(message)) if order not in found and order not in done]
    return found


def called(function: Json) -> tuple[str, Json]:
    """The tool that a call means: one that a request does not show is called by `tool_call`."""
    name, given = function["name"], json.loads(function["arguments"] or "{}")
    return (given["name"], given["arguments"]) if name == "tool_call" else (name, given)


def orders(text: str) -> Iterator[tuple[str, Json]]:
    """The orders in a text; JSON may follow that is no order."""
    for match in ORDER.finditer(text):
        try:
            given, _ = json.JSONDecoder().raw_decode(text, match.start(2))
        except json.JSONDecodeError:
            continue
        yield match[1], given


def said(messages: list[Json]) -> list[str]:
    """What the model is ordered to say."""
    return [found for message in messages if message["role"] != "assistant" for found in SAY.findall(_text(message))]


def _text(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    return str(content)


@asynccontextmanager
async def obeying_model(at_once: int = AT_ONCE) -> AsyncIterator[Obeying]:
    """The model's server."""
    model = Obeying(at_once=at_once)
    async with serve(web.post("/chat/completions", model.answer)) as model.url:
        yield model


@asynccontextmanager
async def sink() -> AsyncIterator[Sink]:
    """The place to flee to."""
    made = Sink()
    async with await asyncio.start_server(made.take, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made
