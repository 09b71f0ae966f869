"""`goclaw users` and `goclaw config check`."""

import json
from pathlib import Path

import pytest

from goclaw.program.cli.program import run


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state folder that the commands use."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    for name in (
        "GOCLAW_CONFIG",
        "TELEGRAM_BOT_TOKEN",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OLLAMA_HOST",
        "LOG_LEVEL",
    ):
        monkeypatch.delenv(name, raising=False)
    return folder


def heads(out: str) -> list[str]:
    """The lines about people, without the rights below each."""
    return [line for line in out.splitlines() if line.startswith(("telegram:", "tui:"))]


def test_people_are_added_and_listed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "add", "telegram:5", "--name", "Ann", "--tool", "read", "--tool", "raed"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[:3] == ["state/users.json: added", "telegram:5  Ann  [user]", "  Tools: read"]
    assert "unknown tool `raed`; did you mean `read`?" in output.err
    assert run(["users", "add", "tui:bob", "--role", "admin"]) == 0
    capsys.readouterr()
    assert run(["users", "list"]) == 0
    out = capsys.readouterr().out
    assert heads(out) == ["telegram:5  Ann  [user]", "tui:bob  [admin]"]
    assert "  Tools: read\n  Asks first: none\n  Writes files: nowhere\n" in out
    assert run(["users", "check"]) == 0
    assert capsys.readouterr().out == "state/users.json: fine, 2 users\n"


def test_the_list_says_so_when_there_is_nobody(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("state/users.json lists nobody: only the owner of the state folder")
    assert "goclaw users add" in second


@pytest.mark.promise("P-workspaces-per-person")
def test_a_person_is_added_with_a_workspace_of_their_own(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "add", "tui:ann", "--workspace", "own"]) == 0
    assert heads(capsys.readouterr().out) == ["tui:ann  [user]  workspace state/people/tui.ann, with shared/"]
    (state / "config.yaml").write_text("workspaces: per-person\n")
    assert run(["users", "add", "tui:bob", "--workspace", "shared"]) == 0
    assert run(["users", "add", "tui:eve"]) == 0
    capsys.readouterr()
    assert run(["users", "list"]) == 0
    output = capsys.readouterr().out
    assert heads(output) == [
        "tui:ann  [user]  workspace state/people/tui.ann, with shared/",
        "tui:bob  [user]  workspace state/workspace",
        "tui:eve  [user]  workspace state/people/tui.eve, with shared/",
    ]
    assert "  Writes files: in state/people/tui.eve, with shared/\n" in output
    assert run(["config", "check"]) == 0
    output = capsys.readouterr().out
    everybody = "the owner of the state folder, tui:ann, tui:bob, tui:eve"
    assert f"workspace state/workspace, shared/ of the others, files and memory: {everybody}" in output
    assert "workspace state/people/tui.ann, files and memory: tui:ann\n" in output
    assert (
        f"who may write the agent's instructions in state/workspace (AGENTS.md, SOUL.md …): {everybody}\n"
    ) in output
    assert "share the workspace" not in output


@pytest.mark.parametrize("command", [["users", "check"], ["users", "list"], ["config", "check"]])
def test_a_broken_users_file_is_exit_code_78(
    state: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (state / "users.json").write_text('{"users": {"telegram:@ann": {}}}')
    assert run(command) == 78
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("goclaw: state/users.json:1:12: users.telegram:@ann: should be the numeric user id")


def test_a_username_is_refused(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "add", "telegram:@ann"]) == 78
    assert "usernames change hands" in capsys.readouterr().err
    assert not (state / "users.json").exists()


def test_the_check_says_what_is_weak_and_what_is_shared(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "config.yaml").write_text(
        "telegram: {token: abc, base_url: 'http://bots.example:1'}\nhttp: {host: 0.0.0.0, enabled: false}\n"
        "tools: {exec: {sandbox: off, network: host}}\npolicy: {allow_bypass: true}\n"
    )
    users = {
        "tui:ann": {"name": "Ann", "session": "us"},
        "tui:bob": {"session": "us", "allowedTools": [], "workspace": "bob"},
    }
    (state / "users.json").write_text(json.dumps({"users": users}))
    (state / "users.json").chmod(0o666)
    state.chmod(0o755)
    assert run(["config", "check"]) == 0
    out = capsys.readouterr().out
    for words in (
        "state/config.yaml: fine",
        "tools.exec.sandbox is off",
        "tools.exec.network is host",
        "policy.allow_bypass",
        "http.host is 0.0.0.0",
        "telegram.base_url is not encrypted",
        "does not look like a bot's token",
        "lists no Telegram user",
        "others can read the state folder (mode 755)",
        "others can change users and their rights (mode 666)",
        "users.json tui:ann has no allowedTools",
        "workspace state/workspace, files and memory: the owner of the state folder, tui:ann (Ann)",
        "who may write the agent's instructions in state/workspace (AGENTS.md, SOUL.md …): the owner of the state "
        "folder, tui:ann (Ann)",
        "workspace state/bob, files and memory: tui:bob",
        "session us, the whole conversation: tui:ann (Ann), tui:bob",
        "all sessions: the owner of the state folder",
    ):
        assert words in out


def test_the_defaults_are_not_weak(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goclaw.program.ops.doctor.security.is_root", lambda: False)
    assert run(["config", "check"]) == 0
    assert "Weak: nothing" in capsys.readouterr().out


@pytest.mark.promise("P-rights-as-they-are")
def test_the_check_does_not_say_that_a_guest_may_write(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "config.yaml").write_text("roles: {guest: {tools: [read]}}\n")
    users = {"tui:ann": {}, "tui:gus": {"roles": ["guest"]}, "tui:ned": {"roles": ["nothing"]}}
    (state / "users.json").write_text(json.dumps({"users": users}))
    assert run(["config", "check"]) == 0
    out = capsys.readouterr().out
    assert "who may write the agent's instructions in" in out and ": the owner of the state folder, tui:ann\n" in out
    assert "tui:ann has no allowedTools" in out
    assert "tui:gus has no allowedTools" not in out and "tui:ned has no allowedTools" not in out
    assert "  tui:gus  [guest]\n    Tools: read\n    Asks first: none\n    Writes files: nowhere\n" in out
    assert "  tui:ned  [nothing]\n    Tools: none\n    Writes files: nowhere\n" in out
