"""`goclaw mcp list|approve`: what servers offer, what changed, and that somebody has looked at it."""

import json
import sys
from pathlib import Path

import pytest

from goclaw.common.auth.audit import read_audit
from goclaw.common.auth.users import login_name
from goclaw.program.cli.program import run

MISBEHAVING = Path(__file__).parents[2] / "tools" / "mcp" / "misbehaving.py"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with one server that offers two tools, and one that is none."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    odd = {"command": sys.executable, "args": ["-S", str(MISBEHAVING)], "allow": ["echo", "destroy"]}
    config = {"mcp": {"servers": {"odd": odd, "none": {"command": "true"}}}}
    (folder / "config.yaml").write_text(json.dumps(config))
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    return folder


def test_a_change_is_shown_until_somebody_agrees_to_it(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "approve", "odd", "--yes"]) == 0
    output = capsys.readouterr()
    assert "odd  connected: misbehaving 1, protocol " in output.out and "no tool of odd has changed" in output.err
    file = state / "mcp-tools.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    kept["odd"] = {"echo": {"name": "echo", "description": "Says nothing.", "input_schema": {}}}
    file.write_text(json.dumps(kept))
    assert run(["mcp", "approve", "odd", "--yes"]) == 0
    output = capsys.readouterr()
    assert "mcp__odd__echo  (low risk)  CHANGED" in output.out and "mcp__odd__destroy  (critical risk)\n" in output.out
    assert "description: was “Says nothing.”, is “Say it again.”" in output.out
    assert run(["mcp", "list"]) == 0
    listed = capsys.readouterr().out
    assert "CHANGED" not in listed and "\nnone  " in listed
    owner = f"tui:{login_name()}"
    assert json.loads(file.read_text())["odd"]["echo"]["agreed"]["by"] == owner
    entries = [entry for entry in read_audit(state / "logs" / "audit.jsonl") if entry["action"] == "mcp_tool.approve"]
    assert [(entry["object"], entry["actor"]) for entry in entries] == [("mcp__odd__echo", owner)]
    assert run(["mcp", "approve", "nowhere"]) == 78


def test_the_list_says_which_tools_are_left_out_and_that_it_was_cut(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = [{"name": "odd", "inputSchema": None}, {"name": "good", "inputSchema": {"type": "object"}}]
    (state / "tools.json").write_text(json.dumps(tools))
    start = ["-S", str(MISBEHAVING)]
    servers = {"odd": [*start, str(state / "tools.json")], "long": [*start, "", "endless"]}
    known = {name: {"command": sys.executable, "args": words} for name, words in servers.items()}
    (state / "config.yaml").write_text(json.dumps({"mcp": {"servers": known}}))
    assert run(["mcp", "list"]) == 0
    listed = capsys.readouterr().out
    assert "mcp__odd__good" in listed and "left out: odd: inputSchema: Input should be a valid dict" in listed
    assert "its lists are longer than 200 entries; what is behind them is left out" in listed


def test_what_could_not_be_looked_at_is_not_called_unchanged(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "approve", "none", "--yes"]) != 0
    assert "none did not list its tools" in capsys.readouterr().err
    (state / "mcp-tools.json").write_text("[1]")
    assert run(["mcp", "approve", "odd", "--yes"]) == 78
    assert "mcp-tools.json in the state folder cannot be read" in capsys.readouterr().err
    assert (state / "mcp-tools.json").read_text() == "[1]"


def test_servers_of_registries_are_among_them(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"registry": "corp", "toolset": "data-tools"}
    config = {"registries": {"corp": {"url": "http://127.0.0.1:9"}}, "tools": {"from_registry": {"data": line}}}
    (state / "config.yaml").write_text(json.dumps(config))
    assert run(["mcp", "list"]) == 0
    assert capsys.readouterr().out.startswith("data  the catalogue of the registry corp has not been fetched yet")
    assert run(["mcp", "approve", "data", "--yes"]) == 1
    assert run(["mcp", "approve", "date", "--yes"]) == 78
    assert "no MCP server is called date; see `mcp.servers` and `tools.from_registry`" in capsys.readouterr().err
