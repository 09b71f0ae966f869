"""A model server for both wires: Anthropic Messages and OpenAI chat completions, streamed. Part of `fake_world`."""

import asyncio
import json
import re
import time
from dataclasses import dataclass, field

from aiohttp import web

from benchmarks.figures import Json

WORD = "lobster "
"""What one delta says: about as long as a token's text."""
MARK = re.compile(rb"#\d+-\d+")
"""A person and the number of the message."""


@dataclass
class FakeModels:
    """Answers every request with the same number of deltas, and keeps what its own part of the time was."""

    deltas: int = 4
    pieces: list[str] = field(default_factory=list)
    """What the deltas say instead, one each."""
    think: float = 0.0
    """Seconds before the first delta."""
    pause: float = 0.0
    """Seconds after each delta; at 0 they follow as fast as the connection takes them."""
    marked: bool = False
    """Whether people mark their messages, and an answer ends with the mark of what it answers (OpenAI chat)."""
    command: str = ""
    """OpenAI chat: what `exec` is called with, once before each answer; empty: never."""
    together: int = 0
    """Requests that must come before the first is answered, counted down: until then all of them take longer than
    `think`, each as much as the others, so that their answers are as far apart as they were."""
    seconds: list[float] = field(default_factory=list)
    """From the whole request having arrived to the last byte of the answer being written, for each request."""

    at_once: int = 0
    """Answers under way; one whose connection breaks stays counted."""
    most_at_once: int = 0
    _all_came: asyncio.Event = field(default_factory=asyncio.Event)
    _first_came_at: float | None = None
    _came_within: float = 0.0

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.said).strip()

    @property
    def said(self) -> list[str]:
        """What each delta says."""
        return self.pieces or [WORD] * self.deltas

    def said_to(self, body: bytes) -> list[str]:
        """What each delta says to this request: the mark of the newest message last, if people mark theirs."""
        marks = MARK.findall(body) if self.marked else []
        return self.said + [mark.decode() for mark in marks[-1:]]

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """`/v1/chat/completions` and `/v1/messages`."""
        router.add_post("/v1/chat/completions", self._chat)
        router.add_post("/v1/messages", self._messages)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.command and json.loads(body)["messages"][-1]["role"] != "tool":
            pieces, reason = [chat_chunk({"tool_calls": [exec_call(self.command)]})], "tool_calls"
        else:
            pieces, reason = [chat_chunk({"content": piece}) for piece in self.said_to(body)], "stop"
        end = [
            chat_chunk({}, finish=reason),
            chat_chunk(None, usage={"prompt_tokens": 100, "completion_tokens": len(pieces)}),
            b"data: [DONE]\n\n",
        ]
        return await self._stream(request, [chat_chunk({"role": "assistant", "content": ""})], pieces, end)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        message = {"id": "m", "type": "message", "role": "assistant", "model": "bench", "content": []}
        usage = {"input_tokens": 100, "output_tokens": 1}
        begin = [
            frame("message_start", {"message": {**message, "stop_reason": None, "usage": usage}}),
            frame("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ]
        pieces = [
            frame("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})
            for piece in self.said
        ]
        end = [
            frame("content_block_stop", {"index": 0}),
            frame("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": len(pieces)}}),
            frame("message_stop", {}),
        ]
        return await self._stream(request, begin, pieces, end)

    async def _think(self, began: float) -> None:
        if self.together <= 0:
            if self.think:
                await asyncio.sleep(self.think)
            return
        if self._first_came_at is None:
            self._first_came_at = began
            self._all_came.clear()
        self.together -= 1
        if self.together == 0:
            self._came_within, self._first_came_at = began - self._first_came_at, None
            self._all_came.set()
        await self._all_came.wait()
        await asyncio.sleep(began + max(self.think, self._came_within) - time.monotonic())

    async def _stream(
        self, request: web.Request, begin: list[bytes], pieces: list[bytes], end: list[bytes]
    ) -> web.StreamResponse:
        await request.read()
        began = time.monotonic()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._think(began)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"".join(begin))
        for piece in pieces:
            await response.write(piece)
            if self.pause:
                await asyncio.sleep(self.pause)
        await response.write(b"".join(end))
        self.seconds.append(time.monotonic() - began)
        self.at_once -= 1
        await response.write_eof()
        return response


def chat_chunk(delta: Json | None, finish: str | None = None, usage: Json | None = None) -> bytes:
    """One server-sent event of a chat completion."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "bench", "choices": choices}
    return b"data: " + json.dumps(chunk | ({"usage": usage} if usage else {})).encode() + b"\n\n"


def exec_call(command: str) -> Json:
    """A call of the tool `exec`, whole in one delta."""
    function = {"name": "exec", "arguments": json.dumps({"command": command})}
    return {"index": 0, "id": f"call_{time.monotonic_ns()}", "type": "function", "function": function}


def frame(name: str, data: Json) -> bytes:
    """One server-sent event of the Messages protocol."""
    return f"event: {name}\ndata: {json.dumps({'type': name} | data)}\n\n".encode()
