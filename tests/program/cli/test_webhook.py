"""`goclaw webhook`: what is configured, and what a template makes of a body, without a daemon."""

import json
from pathlib import Path

import pytest
import yaml

from goclaw.program.cli.base import BAD_CONFIGURATION, FAILED
from goclaw.program.cli.program import run

SECRET = "s3cret-" * 5
HOOKS = {
    "github": {"hmac": "github", "secret": SECRET, "user": "telegram:5", "task": "Review {{ body.title }}"},
    "ci": {
        "secret": SECRET,
        "user": "tui:ann",
        "to": "telegram:-100",
        "message": "{% if headers.x_event_key == 'push' %}Build {{ body.n }}{% endif %}",
    },
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, and a body in it."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"state_dir": str(tmp_path / "state"), "webhooks": HOOKS}))
    (tmp_path / "config.yaml").chmod(0o600)
    (tmp_path / "body.json").write_text(json.dumps({"title": "A \x1b[31mfix", "n": 7}))
    monkeypatch.setenv("GOCLAW_CONFIG", str(tmp_path / "config.yaml"))
    return tmp_path


def test_the_list_says_what_is_made_for_whom_and_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["webhook", "list"]) == 0
    out = capsys.readouterr().out
    assert "github  /hooks/github  hmac github  task  as telegram:5  to telegram:5" in out
    assert "ci  /hooks/ci  secret  message  as tui:ann  to telegram:-100" in out and SECRET not in out
    assert run(["webhook", "list", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["ci", "github"]


def test_without_a_daemon_a_test_shows_the_text_and_sends_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["webhook", "test", "github", str(place / "body.json")]) == 0
    out = capsys.readouterr().out
    assert "task for telegram:5, as telegram:5:\n\nReview A fix\n" in out
    assert "no daemon is running, so nothing was sent" in out


def test_headers_are_those_of_the_call(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = str(place / "body.json")
    assert run(["webhook", "test", "ci", body, "--header", "X-Event-Key: push"]) == 0
    assert "\nBuild 7\n" in capsys.readouterr().out
    assert run(["webhook", "test", "ci", body, "--header", "X-Event-Key: pull"]) == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [("{}", "there is no `title` in this body"), ("{", "the body is not JSON"), (None, "body.json: cannot be read")],
)
def test_what_does_not_fit_is_named(
    place: Path, content: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body = place / "body.json"
    body.unlink() if content is None else body.write_text(content)
    assert run(["webhook", "test", "github", str(body)]) in (FAILED, BAD_CONFIGURATION)
    assert said in capsys.readouterr().err


def test_an_unknown_name_is_met_with_the_likely_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["webhook", "test", "githup", str(place / "body.json")]) == BAD_CONFIGURATION
    assert "did you mean `github`?" in capsys.readouterr().err
