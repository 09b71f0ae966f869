"""Each broken configuration and users.json is refused at once, by place, key and remedy; none is half taken."""

import os
from pathlib import Path

import pytest

from goclaw.program.cli.program import run
from tests.adversarial.broken import CONFIGS, USERS
from tests.tables import table

REFUSED = 78
pytestmark = pytest.mark.promise("P-config-errors")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of the commands; nothing else of this machine is known to them."""
    for name in [name for name in os.environ if name.startswith(("GOCLAW_", "TELEGRAM_")) or name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def refusal(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """What the command says when it is refused."""
    assert run(list(command)) == REFUSED
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out and "unexpected" not in said.err
    return said.err


@table("text, position, key, words", CONFIGS, ids=[f"{k}-{n}" for n, (_, _, k, _) in enumerate(CONFIGS)])
def test_a_broken_configuration_is_refused(
    state: Path, capsys: pytest.CaptureFixture[str], text: str, position: str, key: str, words: list[str]
) -> None:
    (state / "config.yaml").write_text(text)
    lines = [line for line in refusal(capsys, "config", "check").splitlines() if f"config.yaml:{position}: " in line]
    assert any(key in line and all(word in line for word in words) for line in lines), lines
    assert refusal(capsys, "tool", "run", "read", "--input", '{"path": "a"}'), "and nothing runs"


@table("text, position, key, words", USERS, ids=[f"{k}-{n}" for n, (_, _, k, _) in enumerate(USERS)])
def test_a_broken_users_file_is_refused(
    state: Path, capsys: pytest.CaptureFixture[str], text: str, position: str, key: str, words: list[str]
) -> None:
    (state / "users.json").write_text(text)
    lines = [line for line in refusal(capsys, "config", "check").splitlines() if f"users.json:{position}: " in line]
    assert any(key in line and all(word in line for word in words) for line in lines), lines
    assert refusal(capsys, "tool", "run", "read", "--input", '{"path": "a"}'), "and nothing runs"


def test_there_are_as_many_as_were_wanted() -> None:
    assert len({text for text, *_ in CONFIGS}) >= 70
    assert len({text for text, *_ in USERS}) >= 16
