"""`goclaw doctor` as a command: findings for people and machines, and what is said before something may cost."""

import json
from pathlib import Path

import pytest

from goclaw.program.cli.program import run


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hosted model is configured; no test reaches it."""
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GOCLAW_MODELS__AGENT", "openai-chat:gpt")
    monkeypatch.setenv("GOCLAW_MEMORY__EMBEDDER", "none")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


@pytest.mark.usefixtures("hosted")
def test_what_may_cost_is_said_on_standard_error_and_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 1
    output = capsys.readouterr()
    assert "goclaw: asking openai-chat:gpt for one tool call, which may cost a little" in output.err
    (model,) = [finding for finding in json.loads(output.out) if finding["check"] == "model"]
    assert model["verdict"] == "problem" and "goclaw model" in model["remedy"]
    run(["doctor", "--offline"])
    output = capsys.readouterr()
    assert "which may cost" not in output.err
    assert "✓ model: openai-chat:gpt, as configured in `models.agent`. Not contacted (--offline)" in output.out
