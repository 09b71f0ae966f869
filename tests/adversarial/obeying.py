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
from typing import Any

import orjson
from aiohttp import web

from tests.acceptance.model import frame

Json = dict[str, Any]
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
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        calls = undone(body["messages"])[: self.at_once]
        if calls:
            delta: Json = {"tool_calls": [_call(len(body["messages"]), *numbered) for numbered in enumerate(calls)]}
        else:
            delta = {"content": "\n".join(["obeyed", *said(body["messages"])])}
        await response.write(frame(delta))
        await response.write(frame({}, "tool_calls" if calls else "stop"))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


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


def _call(turn: int, number: int, order: tuple[str, Json]) -> Json:
    name, given = order
    return {
        "index": number,
        "id": f"c{turn}-{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(given)},
    }


@asynccontextmanager
async def obeying_model(at_once: int = AT_ONCE) -> AsyncIterator[Obeying]:
    """The model's server."""
    model = Obeying(at_once=at_once)
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/chat/completions", model.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        model.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield model
    finally:
        await runner.cleanup()


@asynccontextmanager
async def sink() -> AsyncIterator[Sink]:
    """The place to flee to."""
    made = Sink()
    async with await asyncio.start_server(made.take, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made
