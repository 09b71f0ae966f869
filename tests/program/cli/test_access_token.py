"""`goclaw token`, and the options with which a terminal goes elsewhere."""

import json
from pathlib import Path

import pytest

from goclaw.program.cli.program import run


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder in which Ann is listed."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "users.json").write_text(json.dumps({"users": {"tui:ann": {}}}))
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    for name in ("GOCLAW_CONFIG", "GOCLAW_TOKEN", "TELEGRAM_BOT_TOKEN", "OLLAMA_HOST", "LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_a_token_is_shown_once_listed_without_itself_and_revoked(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["token", "add", "laptop", "--user", "tui:ann", "--days", "1"]) == 0
    output = capsys.readouterr()
    secret = output.out.strip()
    assert secret.startswith("goclaw_") and secret not in output.err and "http.clients: true" in output.err
    assert run(["token", "list"]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith("laptop  tui:ann  made ") and secret not in listed
    assert secret not in (state / "access-tokens.json").read_text()
    assert run(["token", "revoke", "laptop"]) == 0
    assert run(["token", "list"]) == 0
    assert capsys.readouterr().out == "revoked laptop\n"
    assert run(["token", "revoke", "laptop"]) == 78


def test_a_token_is_for_somebody_who_is_listed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "add", "laptop", "--user", "tui:eve"]) == 78
    assert "`goclaw users add tui:eve` first" in capsys.readouterr().err
    assert not (state / "access-tokens.json").exists()
    assert run(["token", "add", "laptop", "--user", "tui:ann"]) == 0
    (state / "users.json").write_text('{"users": {}}')
    assert run(["token", "list"]) == 0
    assert "not in users.json, so not valid" in capsys.readouterr().out


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("command", [["tui", "--plain"], ["send", "hi"]])
def test_a_terminal_sends_its_token_nowhere_without_care(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([*command, "--url", "http://127.0.0.1:9"]) == 78
    assert "GOCLAW_TOKEN holds no token" in capsys.readouterr().err
    monkeypatch.setenv("GOCLAW_TOKEN", "goclaw_" + "x" * 43)
    assert run([*command, "--url", "http://claw.example.org:8137"]) == 78
    assert "use https" in capsys.readouterr().err
    assert run([*command, "--url", "http://127.0.0.1:9"]) == 1
    error = capsys.readouterr().err
    assert "no GoClaw daemon answers at http://127.0.0.1:9" in error and "xxx" not in error


@pytest.mark.usefixtures("state")
def test_a_listener_for_others_needs_a_credential(capsys: pytest.CaptureFixture[str]) -> None:
    reached = ["--set", "http.enabled=true", "--set", "http.host=0.0.0.0", "config", "check"]
    assert run(reached) == 78
    assert "no setting requires a credential" in capsys.readouterr().err
    assert run(["--set", "http.clients=true", *reached]) == 0
