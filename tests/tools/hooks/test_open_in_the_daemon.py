"""Hooks of the configuration in a whole daemon and on the command line: real programs, contained, at every point."""

import json
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.events import LOCAL, Actor, Address, Inbound
from goclaw.common.core.messages import AssistantMessage, ToolResult, UserMessage
from goclaw.durable.store.transcripts import Transcripts
from goclaw.program.app import open_app
from goclaw.program.cli.program import run
from tests.tools.hooks.support import script

pytestmark = pytest.mark.sandbox

OWNER = Actor("tui:me", "cli", owner=True)
POINTS = [
    "pre_tool",
    "post_tool",
    "post_tool_failure",
    "session_start",
    "before_compaction",
    "message_in",
    "message_out",
]


def configuration(folder: Path, answers: list[dict[str, Any]], *hooks: dict[str, Any]) -> Config:
    """One whose model plays a script; without any question."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    (folder / "script.json").write_text(json.dumps(answers))
    given = {
        "state_dir": state,
        "workspace": folder / "workspace",
        "models": {"agent": [f"scripted:{folder}/script.json"], "summary": []},
        "telegram": {"enabled": False},
        "hooks": list(hooks),
    }
    return Config.model_validate(given)


async def test_a_turn_passes_all_its_points(tmp_path: Path) -> None:
    wanted = {"command": "echo one; echo two"}
    answers: list[dict[str, Any]] = [
        {"text": "", "calls": [{"id": "c1", "name": "exec", "input": wanted}]},
        {"text": "All done."},
    ]
    body = """
event=$(cat)
echo "$event" >> events.jsonl
case $event in
  *'"point": "pre_tool"'*) echo '{"input": {"command": "echo three"}}' ;;
  *'"point": "session_start"'*) echo '{"context": "It is Sunday."}' ;;
  *'"point": "message_in"'*) echo '{"text": "please go"}' ;;
  *'"point": "message_out"'*) echo '{"text": "Done, says the hook."}' ;;
esac
"""
    tools = {"on": ["pre_tool", "post_tool"], "match": "tag:shell", "command": script(tmp_path, body)}
    others = {"on": POINTS[3:], "command": script(tmp_path, body)}
    async with open_app(configuration(tmp_path, answers, tools, others)) as app:
        await app.engine.submit(Inbound("local:1", OWNER, "tui:me", "go", Address(LOCAL, "tui:me"), 0.0))
        await app.engine.idle()
        rows = await Transcripts(app.foundation.storage.database).history("tui:me", 0, 100)
        assert app.foundation.alerts.open() == {}
    user, asked, result, answer = (row.message for row in rows)
    assert isinstance(user, UserMessage) and user.text == "please go"
    assert isinstance(asked, AssistantMessage) and asked.calls[0].input == wanted, "what the model said stands"
    assert isinstance(result, ToolResult) and result.content == "three\nexit code: 0"
    assert answer == AssistantMessage("Done, says the hook.")
    events = [json.loads(line) for line in (tmp_path / "workspace/events.jsonl").read_text().splitlines()]
    assert [event["point"] for event in events] == [
        "message_in", "session_start", "pre_tool", "post_tool", "message_out",
    ]  # fmt: skip
    assert events[3]["text"] == "three\nexit code: 0" and events[4]["text"] == "All done."


@pytest.mark.promise("P-hook-closed")
async def test_a_guard_that_is_broken_guards_and_is_told_to_the_operator(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = [
        {"calls": [{"id": "c1", "name": "exec", "input": {"command": "touch x"}}]},
        {"text": "Could not."},
    ]
    guard = {"name": "guard", "on": "pre_tool", "command": script(tmp_path, "exit 1")}
    async with open_app(configuration(tmp_path, answers, guard)) as app:
        await app.engine.submit(Inbound("local:1", OWNER, "tui:me", "go", Address(LOCAL, "tui:me"), 0.0))
        await app.engine.idle()
        result = (await Transcripts(app.foundation.storage.database).history("tui:me", 0, 100))[2].message
        assert "the hook guard failed at pre_tool: exit code 1" in app.foundation.alerts.open()["hook:guard"]
    assert (
        isinstance(result, ToolResult) and result.is_error and "denied by hook: the hook guard failed" in result.content
    )
    assert not (tmp_path / "workspace/x").exists()


@pytest.mark.promise("P-hook-closed")
@pytest.mark.parametrize("contained", [True, False])
def test_the_command_line_does_not_get_past_a_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], contained: bool
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    guard = {"on": "pre_tool", "command": [script(tmp_path, "echo 'not here' >&2; exit 2")], "sandbox": contained}
    monkeypatch.setenv("GOCLAW_HOOKS", json.dumps([guard]))
    assert run(["tool", "run", "exec", "--input", '{"command": "touch x"}']) == 1
    said = capsys.readouterr()
    assert "denied by hook: not here" in said.out + said.err
    assert not (tmp_path / "state/workspace/x").exists()
