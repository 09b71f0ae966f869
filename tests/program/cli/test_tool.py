"""`goclaw tool list|describe`: the same that a chat shows, for people and for programs."""

import json
from pathlib import Path

import pytest

from goclaw.common.core import catalog
from goclaw.program.cli.program import run
from tests.plugin import install, packages

__all__ = ["packages"]

GUEST = '{"users": {"telegram:5": {"allowedTools": ["read"]}}}'


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "users.json").write_text(GUEST)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    return folder


def test_a_line_for_each_tool_that_the_user_may_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tool", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(catalog.TOOLS)
    assert run(["tool", "list", "--user", "telegram:5"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["read"]


def test_what_models_are_not_offered_is_known_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tool", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "(not offered to the agent: ssh_exec is not set up: " in lines["ssh_exec"]
    assert lines["exit_plan_mode"].endswith("(offered to the agent in the mode plan only)")
    assert "offered" not in lines["read"] + lines["memory_search"]
    assert run(["--set", "memory.enabled=false", "tool", "describe", "memory_search"]) == 0
    assert (
        "\nIt is not offered to the agent: memory search is disabled: set memory.enabled.\n" in capsys.readouterr().out
    )
    assert run(["tool", "describe", "web_search", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["availability"].startswith("not offered to the agent: web search is not")
    assert run(["tool", "run", "web_search", "--input", '{"query": "tea"}']) == 1
    assert json.loads(capsys.readouterr().out)["error"].startswith("web search is not set up: set tools.web_search")


def test_programs_get_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tool", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [tool["name"] for tool in listed] == list(catalog.TOOLS)
    assert run(["tool", "describe", "exec", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told in listed
    assert (told["risk"], told["risk_depends_on_call"], told["origin"]) == ("critical", True, "built in")
    assert set(told["schema"]["properties"]) >= {"command", "timeout"}


def test_people_get_it_in_words_and_the_schema_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tool", "describe", "exec"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# exec\n") and "| `command` | text, required |" in text
    assert json.loads(text.rpartition("arguments:\n\n")[2])["required"] == ["command"]
    assert run(["tool", "describe", "exec", "--user", "telegram:5"]) == 1
    assert capsys.readouterr().out == '{"error": "unknown tool: exec; see `goclaw tool list`"}\n'
    assert run(["tool", "describe", "exce"]) == 1
    assert capsys.readouterr().out == '{"error": "unknown tool: exce; did you mean exec?"}\n'


def test_a_plugin_is_listed_with_its_package_and_a_broken_one_said(
    packages: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    source = (
        "from goclaw.specs import SideEffect\nfrom goclaw.tools.toolkit.base import ToolContext, tool\n"
        "@tool(side_effect=SideEffect.NONE)\nasync def wave(ctx: ToolContext) -> str:\n    'Wave.'\n    return 'waved'"
    )
    install(packages, "wave-tools", {"waving": source}, {"tools.wave": "waving:wave", "tools.gone": "wave_gone:tool"})
    assert run(["tool", "run", "wave"]) == 0
    assert capsys.readouterr().out == "waved\n"
    assert run(["tool", "describe", "wave", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["origin"] == "plugin tools.wave (wave-tools 1.0)"
    assert any(
        line.startswith("plugin tools.gone (wave-tools 1.0): wave_gone:tool: cannot") for line in caplog.messages
    )
