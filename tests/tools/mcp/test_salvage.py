"""Answers of servers that break the protocol, over every transport and by themselves."""

import json
import socket
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from goclaw.tools.mcp.salvage import MAX_SALVAGED, Salvage, whole_characters
from tests.tools.builtin.mcp_support import bench_with, tools_of
from tests.tools.mcp.test_transports_http import listening

READS = {"readOnlyHint": True}
OBJECT = {"type": "object", "properties": {}}
RESULTS: dict[str, Any] = {
    "half": {"content": [{"type": "text", "text": "cut \ud83d here"}]},
    "plain": "done",
    "mixed": {"content": [{"type": "hologram"}, {"type": "text", "text": "the ticket is 42"}]},
}


class OddServer:
    """A server at an address without any library: its replies are JSON, or an event."""

    def __init__(self, *, events: bool) -> None:
        self.events = events
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", scope["method"] == "POST"
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        message = json.loads(body) if body else {}
        reply = self.reply(message)
        status = 200 if reply else 202 if body else 405
        kind = b"text/event-stream" if self.events else b"application/json"
        text = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **reply}) if reply else ""
        content = (f"data: {text}\n\n" if self.events and text else text).encode()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": content})

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        params = message.get("params", {})
        match message.get("method"):
            case "initialize":
                about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
                return {"result": {"protocolVersion": params["protocolVersion"], **about}}
            case "tools/list":
                tools = [{"name": name, "inputSchema": OBJECT, "annotations": READS} for name in RESULTS]
                return {"result": {"tools": [*tools, {"name": "odd", "inputSchema": None}]}}
            case "tools/call":
                return {"result": RESULTS[params["name"]]}
        unknown = {"code": types.METHOD_NOT_FOUND, "message": "Method not found"}
        return {"error": unknown} if "id" in message else {}


@pytest.mark.parametrize("events", [True, False], ids=["events", "json"])
async def test_over_http_an_odd_part_costs_no_more_than_that_part(tmp_path: Path, events: bool) -> None:
    server = OddServer(events=events)
    async with (
        listening(server, server.socket),
        bench_with(tmp_path, {"remote": {"url": server.url, "timeout": 15}}) as bench,
    ):
        assert {name for name in tools_of(bench) if "remote" in name} == {f"mcp__remote__{name}" for name in RESULTS}
        assert "inputSchema" in bench.faults["mcp.servers.remote: odd"]
        assert (await bench.call("mcp__remote__half")).content == "cut \ufffd here"
        assert (await bench.call("mcp__remote__mixed")).content.endswith("the ticket is 42")
        plain = await bench.call("mcp__remote__plain")
        assert plain.is_error and "timed out" not in plain.content


@pytest.mark.parametrize("last", [True, False])
def test_a_reply_that_nothing_reads_is_an_error_of_its_call(last: bool) -> None:
    """Ten thousand levels, in either order: else whoever asked would wait for an answer until the time is over."""
    deep = b'{"a":' * 10_000 + b'{"id":3}' + b"}" * 10_000
    number = b'"id":7'
    line = (
        b'{"jsonrpc":"2.0",' + (b'"result":' + deep + b"," + number if last else number + b',"result":' + deep) + b"}"
    )
    with pytest.raises(ValidationError) as fault:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    message = Salvage(lambda: "2025-11-25").read(fault.value)
    assert isinstance(message, SessionMessage) and isinstance(message.message, types.JSONRPCError)
    assert message.message.id == 7 and "nested deeper" in message.message.error.message


@given(st.text(st.sampled_from('\\ud83Dde00 x"')))
def test_a_text_loses_nothing_but_halves_of_characters(text: str) -> None:
    line = json.dumps({"text": text + "\U0001f600"}).encode()
    assert json.loads(whole_characters(line)) == json.loads(line)


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        ("\\\ud83d", "\\\ufffd"),
        ("\\ud83d", "\\ud83d"),
    ],
)
def test_half_a_character_becomes_one_that_says_so(given_text: str, kept: str) -> None:
    assert json.loads(whole_characters(json.dumps(given_text).encode())) == kept


@pytest.mark.long
def test_an_answer_of_thousands_of_odd_parts_is_bounded() -> None:
    salvage = Salvage(lambda: "2025-11-25")
    salvage.note(SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call")))
    content = [{"type": "hologram"}] * 20_000
    read = salvage.read(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"content": content})))
    assert isinstance(read, SessionMessage) and isinstance(read.message, types.JSONRPCResponse)
    assert len(read.message.result["content"]) == MAX_SALVAGED + 1
