"""The daemon's listener for MCP clients: on when wanted, told in the status, and no reason for the daemon to end."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from goclaw.common.auth.tokens import add_token
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.gateway.servers.mcp import http as mcp_http
from goclaw.program.app import App, open_app
from goclaw.program.app.mcp_server import AGAIN_SECONDS
from goclaw.program.app.status import details

SECONDS = 30.0
PLANNING = {"create_plan": {"description": "Make a plan."}}


def settings(folder: Path, port: int, **more: Any) -> Config:
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "users.json").write_text('{"users": {"tui:ann": {"allowedTools": ["read", "create_plan"]}}}')
    return Config.model_validate(
        {
            "state_dir": folder / "state",
            "models": {"agent": ["demo"]},
            "agents": {"kinds": {"planner": {"exports": {"planning": {"tools": PLANNING, "publish_to": ["shared"]}}}}},
            "mcp": {"server": {"enabled": True, "port": port, **more}},
        }
    )


async def until(look: Callable[[], bool], clock: SteppedClock, step: float = 0.0) -> None:
    """Let everything go on, and time pass by steps, until `look` finds something."""
    while not look():
        if step:
            clock.advance(step)
        await asyncio.sleep(0)


@pytest.mark.promise("P-tools-per-user")
async def test_a_client_with_a_token_uses_the_daemons_tools_and_its_end_is_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What holds up the end holds it up for so long, which a slow machine does not.
    monkeypatch.setattr(mcp_http, "GRACE_SECONDS", SECONDS / 2)
    clock, loop = SteppedClock(), asyncio.get_running_loop()
    config = settings(tmp_path, 0)
    secret = add_token(config.tokens_path, "laptop", "tui:ann", clock.now())
    async with asyncio.timeout(SECONDS):
        async with open_app(config, clock) as app:
            await until(lambda: "port" in app.mcp_server.line, clock)
            port = app.mcp_server.line.rpartition(" ")[2]
            assert (await details(app, "tui:ann")).lines["MCP"] == f"127.0.0.1 port {port}"
            headers = {"Authorization": f"Bearer {secret}"}
            async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
                url = f"http://127.0.0.1:{port}/mcp"
                async with Client(streamable_http_client(url, http_client=http)) as client:
                    assert [each.name for each in (await client.list_tools()).tools] == ["create_plan", "read"]
                    assert not (await client.call_tool("create_plan", {})).is_error, "an agent of the daemon does it"
                    read = await client.call_tool("read", {"path": "SOUL.md"})
                    assert read.structured_content and not read.is_error
                    found = await client.read_resource("status://goclaw")
                    assert '"running": true' in str(found.contents[0])
                # A stream that nobody closes must not hold up the end.
                monitor = await http.send(http.build_request("GET", f"{url}/monitor"), stream=True)
                ending = loop.time()
                app_ends = monitor.status_code
                assert app_ends == 200
        assert loop.time() - ending < mcp_http.GRACE_SECONDS


async def test_a_port_that_is_taken_is_told_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with asyncio.timeout(SECONDS), open_app(settings(tmp_path, port), clock) as app:
            await until(lambda: "does not listen" in app.mcp_server.line, clock)
            assert f"port {port}" in (await _line(app)) and "mcp.server.port" in (await _line(app))
            errors = [each.message for each in caplog.records if each.levelno >= logging.ERROR]
            assert len(errors) == 1 and "the MCP listener cannot listen on" in errors[0]
            taken.close()
            await until(lambda: app.mcp_server.line == f"127.0.0.1 port {port}", clock, AGAIN_SECONDS / 4)


async def _line(app: App) -> str:
    return (await details(app, "tui:ann")).lines["MCP"]


async def test_the_library_is_not_loaded_where_nobody_wants_it() -> None:
    script = (
        "import sys\nimport goclaw.program.app, goclaw.program.app.mcp_server\n"
        "print([name for name in ('mcp', 'mcp_types', 'uvicorn', 'starlette') if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(SECONDS):
        out, _ = await process.communicate()
    assert out == b"[]\n"
