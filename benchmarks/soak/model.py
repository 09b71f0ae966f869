"""A model server that streams as real ones do, and fails as they do: what it says of a message is fixed by the seed.

It speaks OpenAI's chat completions. A message is `<name> <kind>`; the answer begins `answer <name>` and ends with
`(end)`, so that the books know what was answered.
"""

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random

import orjson
from aiohttp import web

from benchmarks.soak.script import PEOPLE
from tests.acceptance.model import END, QUESTION, SUMMARISE, SUMMARY, last_words, since_last_answer
from tests.acceptance.waiting import clock
from tests.http_server import DONE, Json, frame, serve, stream, tool_call, usage

IDENTITY = re.compile(r"\b(m\d+\w+) (\w+)")
WORDS = ("the report", "is ready", "on Friday", "and its colour", "is blue", "as we said", "when everybody was here")
REFUSALS: Sequence[tuple[int, dict[str, str], bytes]] = (
    (429, {"retry-after": "1"}, b'{"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}'),
    (500, {}, b'{"error": {"message": "The server had an error", "type": "server_error"}}'),
    (502, {}, b"<html><body>502 Bad Gateway</body></html>"),
    (503, {}, b'{"error": {"message": "The engine is overloaded", "type": "server_error"}}'),
    (529, {}, b""),
)
CUTS = ("before headers", "after headers", "in text", "before finish", "malformed", "garbage")
"""Ways in which a stream breaks."""


@dataclass
class SoakModel:
    """The server."""

    seed: str
    url: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    """How often it was asked about each message; summaries under `summary`."""
    failed: Counter[str] = field(default_factory=Counter)
    """Failures by their kind."""
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Its own time, by message."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        began = clock.monotonic()
        body = orjson.loads(await request.read())
        said = last_words(body)
        found = IDENTITY.search(said)
        name, kind = ("summary", "") if SUMMARISE in said or not found else (found[1], found[2])
        self.requests[name] += 1
        try:
            if kind == "wrong" or (kind == "shaky" and self.requests[name] == 1):
                return await self._fail(request, name)
            return await stream(request, self._events(name, kind, body))
        finally:
            self.seconds[name] += clock.monotonic() - began

    async def _events(self, name: str, kind: str, body: Json) -> AsyncIterator[bytes]:
        random = Random(f"{self.seed}:{name}:{self.requests[name]}")
        call = self._call(name, kind, body)
        if name == "summary":
            yield frame({"role": "assistant", "content": SUMMARY})
        elif call:
            await clock.sleep(random.uniform(0.02, 0.2))
            yield frame({"role": "assistant", "tool_calls": [call]})
        else:
            async for event in self._talk(random, name, kind):
                yield event
        yield frame({}, "tool_calls" if call else "stop")
        yield usage(len(orjson.dumps(body)) // 4, 40)
        yield DONE

    async def _talk(self, random: Random, name: str, kind: str) -> AsyncIterator[bytes]:
        """Yield an answer as it comes from a real server: after a while, in pieces."""
        slow = kind in ("slow", "stop")
        await clock.sleep(random.uniform(0.05, 0.6))
        yield frame({"role": "assistant", "content": f"answer {name}"})
        for _ in range(40 if slow else random.randint(4, 40)):
            await clock.sleep(random.uniform(0.08, 0.15) if slow else random.uniform(0.004, 0.02))
            yield frame({"content": f" {random.choice(WORDS)}"})
        yield frame({"content": f" {END}"})

    async def _fail(self, request: web.Request, name: str) -> web.StreamResponse:
        random = Random(f"{self.seed}:fault:{name}:{self.requests[name]}")
        if random.random() < len(REFUSALS) / (len(REFUSALS) + len(CUTS)):
            status, headers, body = random.choice(REFUSALS)
            self.failed[str(status)] += 1
            return web.Response(status=status, headers=headers, body=body)
        way = random.choice(CUTS)
        self.failed[way] += 1
        assert request.transport is not None
        if way == "before headers":
            request.transport.abort()
            return web.Response()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        with suppress(ConnectionError):
            await response.prepare(request)
            if way in ("in text", "before finish"):
                await response.write(frame({"role": "assistant", "content": f"answer {name}"}))
            if way == "before finish":
                await response.write(frame({"content": f" {END}"}))
            if way == "malformed":
                await response.write(b'data: {"id": "c", "cho\n\n')
            if way == "garbage":
                await response.write(b"\x00\xff\x13 not an event\n\n" * 50)
            await clock.sleep(0.05)
            if way not in ("malformed", "garbage"):
                request.transport.abort()
            await response.write_eof()
        return response

    def _call(self, name: str, kind: str, body: Json) -> Json | None:
        """The tool call that a message asks for, once."""
        note = f"memory/soak-{int(name.partition('c')[2] or 0) % len(PEOPLE)}.md" if "c" in name else "memory/soak.md"
        wanted: dict[str, tuple[str, Json]] = {
            "read": ("read", {"path": "given.txt"}),
            "exec": ("exec", {"command": f"echo {name} > last.txt; wc -c < last.txt"}),
            "search": ("memory_search", {"query": "colour of the report"}),
            "write": ("write", {"path": note, "content": f"# {name}\n\nThe colour of the report is blue.\n"}),
            "ask": ("ask_user", {"questions": [{"question": f"{QUESTION} {name}?", "options": ["red", "blue"]}]}),
        }
        if kind not in wanted or any(message["role"] == "tool" for message in since_last_answer(body)):
            return None
        tool, given = wanted[kind]
        return tool_call(f"call-{name}", tool, given)


@asynccontextmanager
async def soak_model(seed: str) -> AsyncIterator[SoakModel]:
    """Serve on a free port of this machine."""
    model = SoakModel(seed)
    async with serve(web.post("/chat/completions", model.answer)) as model.url:
        yield model
