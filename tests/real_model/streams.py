"""The streams of `tests/llm/streams/llamacpp_*`: what a real server sends to a fixed set of requests, byte by byte.

`python -m tests.real_model --only streams` records them anew; with T=0 the same server and weights send the same words.
"""

from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tests.acceptance.waiting import clock
from tests.llm.fake_provider import STREAMS
from tests.real_model.recorder import CHAT
from tests.real_model.server import CODER, TEMPLATE, RealServer, folder, real_server

Json = dict[str, Any]
WINDOW = 4_096
SYSTEM = "You are a helpful assistant. Use the tools to do what the user asks, then answer briefly."
WORDS = 64
"""Tokens of an answer, so that a recording stays small."""


def tool(name: str, description: str, **parameters: str) -> Json:
    """Return a tool whose parameters are all texts and required."""
    properties = {key: {"type": "string", "description": told} for key, told in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    tool("read", "Read a file.", path="file"),
    tool("write", "Write a file, replacing it.", path="file", content="whole text"),
    tool("exec", "Run a shell command, returns its output.", command="command"),
    tool("remember", "Keep a note for later.", note="text"),
]


def asking(said: str, model: str = CODER, **more: Any) -> Json:
    """Return the request of one message."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": said}]
    body = {"model": model, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    return {"max_tokens": WORDS, **body, **more}


REQUESTS: dict[str, Json] = {
    "text": asking("What is the capital of France? One sentence."),
    "text_call": asking("Create a file hello.txt with the text: Hello World", tools=TOOLS),
    "text_call_command": asking(
        "Run the command `sha256sum key.txt | cut -c1-8` and tell me what it prints.", tools=TOOLS
    ),
    "text_call_fenced": asking(
        "Show me, in a fenced block of JSON, a call of the tool read for notes.txt.", tools=TOOLS
    ),
    "run_away": asking("Say hello.", ignore_eos=True, max_tokens=4 * WORDS),
    "length": asking("Count from 1 to 200, one number a line."),
}
"""By the name of the file. `run_away`: the model may not end its answer."""
STRUCTURED: dict[str, Json] = {
    "structured_call": asking("Create a file hello.txt with the text: Hello World", tools=TOOLS),
    "structured_command": asking("Delete the file old.log", tools=TOOLS),
}
"""To a server whose template knows the calls that this model writes."""


async def record(log: Path) -> None:
    """Write every file. Raises OSError where the server does not start."""
    async with real_server(CODER, WINDOW, log) as server, _session() as session:
        for name, body in REQUESTS.items():
            await _keep(session, server, body, f"{name}.sse")
        for path in ("v1/models", "props"):
            async with session.get(f"{server.url}/{path}") as answer:
                _write(f"{path.rpartition('/')[2]}.json", await answer.read())
        await _keep(session, server, asking("word " * WINDOW), "overflow.json")
        await _keep(session, server, asking("Hi", reasoning_format=7), "server_error.json")
        await _cut(session, server)
        await server.spawn()
        await _keep(session, server, asking("Hi"), "loading.json", patient=True)
    async with real_server(CODER, WINDOW, log, *TEMPLATE) as server, _session() as session:
        for name, body in STRUCTURED.items():
            await _keep(session, server, body, f"{name}.sse")


def _session() -> aiohttp.ClientSession:
    """Return a client that opens a connection for each request: llama-server may close one that it has kept open."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))


async def _keep(
    session: aiohttp.ClientSession, server: RealServer, body: Json, name: str, *, patient: bool = False
) -> None:
    """Ask and write what comes. `patient`: the server's process has just begun and does not listen yet."""
    while True:
        try:
            async with session.post(f"{server.url}{CHAT}", data=orjson.dumps(body)) as answer:
                _write(name, await answer.read())
                return
        except aiohttp.ClientConnectorError:
            if not patient:
                raise
            await clock.sleep(0.01)


async def _cut(session: aiohttp.ClientSession, server: RealServer) -> None:
    """Kill the server in the middle of an answer and write what had come."""
    came = b""
    try:
        async with session.post(f"{server.url}{CHAT}", data=orjson.dumps(REQUESTS["length"])) as answer:
            async for piece in answer.content.iter_any():
                came += piece
                if came.count(b"\n\n") > 8:  # a few words
                    await server.kill()
    except aiohttp.ClientError:
        _write("killed.sse", came)


def _write(name: str, content: bytes) -> None:
    # The server tells the path of its weights.
    (STREAMS / f"llamacpp_{name}").write_bytes(content.replace(str(folder()).encode(), b"/llama"))


def sizes() -> dict[str, int]:
    """Return how large each recording is."""
    return {path.name: path.stat().st_size for path in sorted(STREAMS.glob("llamacpp_*"))}
