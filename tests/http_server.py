"""Servers of fakes on a free port of this machine; of a fake model, OpenAI's chat completions in events."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import orjson
from aiohttp import web

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGEST = 64 << 20
"""Bytes of a request."""


@asynccontextmanager
async def serve(*routes: web.AbstractRouteDef) -> AsyncIterator[str]:
    """Serve while the block runs, and yield the address; a handler is cancelled when its client goes away."""
    app = web.Application(client_max_size=_LARGEST)
    app.add_routes(routes)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def stream(request: web.Request, events: AsyncIterator[bytes]) -> web.StreamResponse:
    """Answer with these events until the client goes away."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    with suppress(ConnectionError):
        await response.prepare(request)
        async with aclosing(events):  # type: ignore[type-var]  # a generator, which has `aclose`
            async for event in events:
                await response.write(event)
        await response.write_eof()
    return response


def frame(delta: Json, finish: str | None = None) -> bytes:
    """A piece of a chat completion as an event."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + orjson.dumps({"id": "c", "model": "echo", "choices": [choice]}) + b"\n\n"


def usage(prompt: int, completion: int) -> bytes:
    """The tokens of a chat completion as an event."""
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion}
    return b"data: " + orjson.dumps({"id": "c", "choices": [], "usage": tokens}) + b"\n\n"


def tool_call(identity: str, name: str, arguments: Json, index: int = 0) -> Json:
    """A call of a tool as it stands in a delta."""
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    return {"index": index, "id": identity, "type": "function", "function": function}
