"""Every command sees the configuration that the daemon has: the operator's, and what packages declare below it."""

from pathlib import Path

import pytest

from goclaw.program.cli.program import run
from tests.plugin import install, packages

__all__ = ["packages"]

SOURCE = """
from goclaw.declare import *
CORP = registry("corp", url("http://127.0.0.1:9"), retry(0, "1s"))
DATA = toolset("data", from_registry(CORP, "data-tools"))
CHAT = agent(
    "chat",
    "Talks.",
    use("words", tool("look_up", "Look a word up.", bind_to(lambda: "found", side_effect=SideEffect.NONE)), share=True),
    use("notes", tool("spell", "Spell.", bind_to(lambda: "s", side_effect=SideEffect.NONE))),
    use(DATA),
    run_policy(default_caps(max_tool_calls(8), max_tokens(9000))),
)
"""
CONFIG = """
agents: {kinds: {chat: {policy: {max_tool_calls: 3}}}}
registries: {corp: {description: Ours.}}
roles: {guest: {tools: [spell], always_ask: [chat.notes.spell]}}
tools: {from_registry: {data: {private: true}}}
models: {agent: [demo]}
"""
BROKEN = "from goclaw.declare import *\nBAD = agent('bad', 'B.', max_tool_calls(1))\n"
WIPERS = """
from goclaw.declare import *

async def wipe() -> str:
    return "wiped"

WIPERS = toolset(
    "wipers",
    tool("wipe_all", "Wipe.", bind_to(wipe, side_effect=SideEffect.MUTATING)),
    confirmation(prompt_template="Wipe everything?"),
)
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "config.yaml").chmod(0o600)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    install(packages, "chat-agents", {"chat_agents": SOURCE}, {"agents.chat": "chat_agents:CHAT"})
    return folder


def out(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says, on both streams."""
    assert run(list(words)) == 0
    said = capsys.readouterr()
    return said.out + said.err


def test_agents_registries_servers_and_tools_of_packages_are_there_for_every_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    described = out(capsys, "agents", "describe", "chat")
    assert "3 tool calls" in described and "9,000 tokens" in described and "Talks." in described
    assert "corp has not been fetched yet" in out(capsys, "registry", "list")
    assert "data  " in out(capsys, "mcp", "list")
    assert "look_up" in out(capsys, "tool", "list")
    assert out(capsys, "tool", "run", "look_up") == "found\n"
    checked = out(capsys, "config", "check")
    assert "unknown" not in checked and "config.yaml: fine" in checked
    assert run(["tool", "run", "spell"]) == 1 and "unknown tool: spell" in capsys.readouterr().out
    assert "spell" not in out(capsys, "tool", "list")
    shown = out(capsys, "config", "show")
    assert "registry corp of plugin agents.chat (chat-agents 1.0)" in shown and "config.yaml:3:" in shown


def test_a_declaration_with_a_leftover_is_left_out_and_named(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(packages, "bad-agents", {"bad_agents": BROKEN}, {"agents.bad": "bad_agents:BAD"})
    said = out(capsys, "agents", "list")
    assert "bad: max_tool_calls stands in run_policy(…), not in agent(…)" in said
    assert "chat" in said and "\nbad" not in said


def test_a_tool_whose_question_stands_in_the_wrong_place_is_never_run_unasked(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(packages, "wiper-tools", {"wiper_tools": WIPERS}, {"toolsets.wipers": "wiper_tools:WIPERS"})
    assert run(["tool", "run", "wipe_all"]) == 1
    said = capsys.readouterr()
    assert "unknown tool: wipe_all" in said.out
    assert "wipers: confirmation stands in tool(…), not in toolset(…)" in said.err


def test_the_daemon_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one that runs, `send` opens it in its own process."""
    assert "- chat: Talks." in out(capsys, "send", "/agents")
    assert "found" in out(capsys, "send", "/tool look_up {}")
    assert "unknown tool: spell" in out(capsys, "send", "/tool spell {}")
    assert "Spell." in out(capsys, "send", "/tools chat.notes.spell")
    assert "found" in out(capsys, "send", "/tool", "look_up", "{}"), "words need no quotes"
