"""The doctor says whether MCP clients can come in, what of the declared cannot be had, which models cannot answer."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.tokens import add_token
from goclaw.common.config.load import load_config
from goclaw.common.core import catalog
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.program.ops.doctor import servers
from goclaw.program.ops.doctor.base import Finding
from goclaw.program.ops.doctor.servers import check_mcp
from tests.gateway.servers.mcp.house import house
from tests.plugin import install, packages
from tests.ports import free_port

__all__ = ["packages"]


async def found(folder: Path, *, tokens: bool = True, **settings: Any) -> list[Finding]:
    """What it finds with these settings of `mcp.server`; `tokens`: somebody has one."""
    config = {"state_dir": str(folder / "state"), "mcp": {"server": {"enabled": True, **settings}}}
    loaded = load_config(overrides=config, environ={})
    if tokens and not loaded.config.tokens_path.exists():
        loaded.config.state_dir.mkdir(mode=0o700, exist_ok=True)
        add_token(loaded.config.tokens_path, "laptop", "tui:ann", RealClock().now())
    return await check_mcp(loaded)


@asynccontextmanager
async def another_program() -> AsyncIterator[int]:
    """It answers whatever it is asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield int(server.sockets[0].getsockname()[1])


async def test_nothing_is_said_where_nothing_is_configured(tmp_path: Path) -> None:
    loaded = load_config(overrides={"state_dir": str(tmp_path)}, environ={})
    assert await check_mcp(loaded) == []


async def test_a_free_port_is_fine_and_a_taken_one_is_named_with_its_key(tmp_path: Path) -> None:
    (free,) = await found(tmp_path, port=free_port())
    assert free.verdict == "ok" and "is free for the listener" in free.text
    (any_port,) = await found(tmp_path, port=0)
    assert any_port.verdict == "ok"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (finding,) = await found(tmp_path, port=taken.getsockname()[1])
    assert finding.verdict == "problem" and "the listener cannot use 127.0.0.1 port" in finding.text
    assert finding.remedy.startswith("choose another `mcp.server.port`")


async def test_a_running_daemon_is_told_from_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "running_pid", lambda config: 1)
    async with house(tmp_path) as home, home.listener() as listener:
        (ours,) = await found(tmp_path, port=listener.port)
        assert (ours.verdict, ours.text) == ("ok", f"127.0.0.1 port {listener.port}: ready for clients")
        assert home.audited == []  # asking leaves no trace of a stranger
    async with another_program() as port:
        (other,) = await found(tmp_path, port=port)
        assert other.verdict == "problem" and other.text == f"another program answers at 127.0.0.1 port {port}"
    (gone,) = await found(tmp_path, port=free_port())
    assert gone.verdict == "problem" and "does not answer" in gone.text and daemon_command("restart") in gone.remedy


async def test_without_a_valid_token_nobody_comes_in_and_an_open_port_is_for_nothing(tmp_path: Path) -> None:
    _, none = await found(tmp_path, tokens=False, port=0)
    assert none.verdict == "warning" and none.text == "there is no valid access token, so no client can connect"
    assert none.remedy == "`goclaw token add NAME --user KEY`"
    path = load_config(overrides={"state_dir": str(tmp_path / "state")}, environ={}).config.tokens_path
    path.parent.mkdir(mode=0o700)
    add_token(path, "old", "tui:ann", 0.0, until=1.0)
    _, over, names = await found(tmp_path, port=0, host="0.0.0.0")  # noqa: S104 - nothing listens
    assert over.text.endswith("although the port is open to other machines")
    assert "`mcp.server.hosts`" in names.remedy
    add_token(path, "new", "tui:ann", 0.0)
    (ok,) = await found(tmp_path, port=0, host="0.0.0.0", hosts=["mcp.example.org"])  # noqa: S104 - nothing listens
    assert ok.verdict == "ok"


async def test_what_packages_declare_and_cannot_be_loaded_is_named(tmp_path: Path, packages: Path) -> None:
    good = "from goclaw.tools.mcp.declared import Declared\nDECLARED = Declared()"
    install(
        packages, "odd-prompts", {"odd": "1 / 0", "good": good}, {"mcp.odd": "odd:odd", "mcp.good": "good:DECLARED"}
    )
    _, odd = await found(tmp_path, port=0)
    assert odd.verdict == "warning"
    assert odd.text == "plugin mcp.odd (odd-prompts 1.0): ZeroDivisionError: division by zero"


async def test_a_library_that_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.SERVERS, "mcp", "no_such_library:SERVER")
    (finding,) = await found(tmp_path, port=0)
    assert finding.verdict == "problem" and "no_such_library" in finding.text


async def test_models_that_cannot_answer_servers_are_named(tmp_path: Path) -> None:
    configured = {
        "one": {"command": "x", "sampling": {"models": ["scripted:nowhere.json"]}},
        "two": {"command": "x", "sampling": {"models": ["demo"]}},
        "off": {"command": "x", "sampling": {"enabled": False, "models": ["scripted:nowhere.json"]}},
    }
    loaded = load_config(overrides={"state_dir": str(tmp_path), "mcp": {"servers": configured}}, environ={})
    (finding,) = await check_mcp(loaded)
    assert finding.verdict == "problem" and finding.text.startswith("mcp.servers.one.sampling.models: scripted:nowhere")
