"""Servers at an address: made with the library, listening on the loopback, in this process."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

from goclaw.common.core.supervise import background
from goclaw.testing import Bench
from tests.tools.builtin.mcp_support import SECONDS, bench_with, source_of, tools_of, until

TOKEN = "Bearer a-token-for-this-test-0001"


class Remote:
    """One server, to be reached and to be lost."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.slow = asyncio.Event()
        self.headers: dict[str, str] = {}
        self.made = MCPServer("remote", version="7")
        self.made.tool(annotations={"readOnlyHint": True})(self.echo)  # type: ignore[arg-type]  # it takes plain data
        self.made.tool(name="slow")(self.wait)
        self.made.tool(name="grow")(self.grow)
        self.made.tool(name="huge")(self.huge)
        self.made.tool(name="ask", structured_output=False)(self.ask)
        self.made.tool(name="sample", structured_output=False)(self.sample)
        self.socket = socket.create_server(("127.0.0.1", 0))

    async def echo(self, text: str) -> str:
        """Say it again."""
        return text

    async def wait(self) -> str:
        self.slow.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return ""

    async def grow(self, ctx: Context[Any, Any]) -> str:
        self.made.add_tool(self.echo, name="grown")
        await ctx.notify_tools_changed()
        return "grown"

    async def ask(self, ctx: Context[Any, Any]) -> str | InputRequiredResult:
        """As the protocol of 2026 asks: the call ends with a question, and is made again with its answer."""
        if not ctx.input_responses:
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            asked = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=schema))
            return InputRequiredResult(input_requests={"who": asked}, request_state="1")
        return str(ctx.input_responses["who"])

    async def sample(self, ctx: Context[Any, Any], times: int = 1) -> str | InputRequiredResult:
        """The same for the model: a round for each time."""
        done = int(ctx.request_state or 0) + bool(ctx.input_responses)
        if done < times:
            said = SamplingMessage(role="user", content=TextContent(text=f"Round {done + 1}?"))
            wanted = CreateMessageRequestParams(messages=[said], max_tokens=50)
            asked = CreateMessageRequest(params=wanted)
            return InputRequiredResult(input_requests={"model": asked}, request_state=str(done))
        return str((ctx.input_responses or {})["model"])

    async def huge(self) -> str:
        return "x" * (5 << 20)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"

    @asynccontextmanager
    async def listening(self, **options: Any) -> AsyncIterator[None]:
        inner = self.made.streamable_http_app(**options)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            self.headers |= {name.decode(): value.decode() for name, value in scope.get("headers", ())}
            await inner(scope, receive, send)

        async with listening(app, self.socket):
            yield


@asynccontextmanager
async def listening(app: Any, at: socket.socket, **options: Any) -> AsyncIterator[None]:
    """An application on a socket, which is closed in the end."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, **options))
    with at:
        async with background(server.serve(sockets=[at]), "a remote server") as serving:
            try:
                await until(lambda: server.started)
                yield
            finally:
                server.should_exit = True
                await asyncio.wait({serving}, timeout=20)


async def said(bench: Bench, tool: str, **arguments: object) -> str:
    async with asyncio.timeout(SECONDS):
        return (await bench.call(f"mcp__remote__{tool}", arguments)).content


@asynccontextmanager
async def connected(folder: Path, remote: Remote, **settings: object) -> AsyncIterator[Bench]:
    settings = {"url": remote.url, "headers": {"Authorization": TOKEN}, **settings}
    async with bench_with(folder, {"remote": settings}) as bench:
        yield bench


@pytest.mark.parametrize("options", [{}, {"json_response": True}], ids=["events", "json"])
async def test_calls_go_over_http_with_the_headers_of_the_configuration(tmp_path: Path, options: Any) -> None:
    remote = Remote()
    async with remote.listening(**options), connected(tmp_path, remote) as bench:
        assert "remote 7, protocol 2026-07-28" in source_of(bench).servers.servers["remote"].state
        assert await said(bench, "echo", text="hi") == "hi"
        assert remote.headers["authorization"] == TOKEN


async def test_an_end_reaches_the_server_and_changes_reach_us(tmp_path: Path) -> None:
    remote = Remote()
    async with remote.listening(), connected(tmp_path, remote, timeout=15) as bench:
        call = asyncio.create_task(bench.call("mcp__remote__slow"))
        async with asyncio.timeout(SECONDS):
            await remote.slow.wait()
            call.cancel()
            await remote.cancelled.wait()
        await asyncio.wait({call})
        assert await said(bench, "echo", text="still there") == "still there"
        await said(bench, "grow")
        await until(lambda: "mcp__remote__grown" in tools_of(bench))


@pytest.mark.parametrize("options", [{}, {"json_response": True}], ids=["events", "json"])
async def test_an_answer_without_an_end_fails_its_call(tmp_path: Path, options: Any) -> None:
    remote = Remote()
    async with remote.listening(**options), connected(tmp_path, remote, timeout=15) as bench:
        result = await bench.call("mcp__remote__huge")
        assert result.is_error and len(result.content) < 1_000
        await until(lambda: source_of(bench).servers.servers["remote"].link is not None)
        assert await said(bench, "echo", text="hi") == "hi"


async def test_each_call_asks_its_own_person_also_when_several_run(tmp_path: Path) -> None:
    remote = Remote()
    async with remote.listening(), connected(tmp_path, remote, timeout=15) as bench:
        bench.answers = ["Ann", "Bob"]
        answers = await asyncio.gather(said(bench, "ask"), said(bench, "ask"))
        assert sorted("Ann" in answer for answer in answers) == [False, True]
        assert sorted("Bob" in answer for answer in answers) == [False, True]
        assert all("asks, in its own words: “Who?”" in question.text for question in bench.asked)


async def test_the_model_is_asked_in_rounds_of_the_call_as_often_as_the_operator_wants(tmp_path: Path) -> None:
    remote = Remote()
    async with (
        remote.listening(),
        connected(tmp_path, remote, timeout=15, sampling={"ask": False, "per_call": 2}) as bench,
    ):
        bench.samples = ["one", "two", "three", "four"]
        answer = await said(bench, "sample", times=2)
        assert "two" in answer and "bench:model" in answer and "endTurn" in answer
        assert [wanted.messages[-1].text for wanted in bench.sampled] == ["Round 1?", "Round 2?"]
        refused = await said(bench, "sample", times=3)
        assert "the MCP server remote was refused what it asked for" in refused
        assert "at most 2 times during a call (mcp.servers.remote.sampling.per_call)" in refused


async def test_a_server_that_is_not_there_yet_is_found_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goclaw.tools.mcp.servers.FIRST_PAUSE", 0.05)
    remote = Remote()
    remote.socket.close()
    remote.socket = socket.socket()
    remote.socket.bind(("127.0.0.1", 0))  # nobody else gets the port before it listens
    async with bench_with(tmp_path, {"remote": {"url": remote.url}}) as bench:
        server = source_of(bench).servers.servers["remote"]
        assert "cannot be reached" in server.state, server.state
        async with remote.listening():
            await until(lambda: server.link is not None)
            assert await said(bench, "echo", text="hi") == "hi"


async def test_an_address_that_is_no_server_is_said_to_be_none(tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
            await send({"type": "http.response.body", "body": b"<h1>Hello</h1>"})

    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    async with listening(app, listener, lifespan="off"), bench_with(tmp_path, {"remote": {"url": url}}) as bench:
        assert "Unexpected content type: text/html" in bench.faults["mcp.servers.remote"]


async def test_nothing_beyond_this_machine_is_reached_where_that_is_forbidden(tmp_path: Path) -> None:
    async with bench_with(tmp_path, {"remote": {"url": "https://mcp.example.org/mcp"}}) as bench:
        assert "mcp.example.org may not be reached" in bench.faults["mcp.servers.remote"]
