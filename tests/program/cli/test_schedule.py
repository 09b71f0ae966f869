"""`goclaw schedule`, with a daemon and without one."""

import json
import re
from pathlib import Path

import pytest

from goclaw.program.cli.program import run
from tests.program.cli.test_users import state as state  # a fixture

BEA = {"telegram:5": {"name": "Bea", "timezone": "Europe/Berlin"}}


@pytest.fixture
def alone(state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder without a daemon, in which Bea is listed."""
    (state / "users.json").write_text(json.dumps({"users": BEA}))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    return state


def test_a_schedule_is_added_listed_paused_resumed_and_removed(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Drink 'tea'; --now\nand rest"
    assert run(["schedule", "add", "tea", "--cron", "30 8 * * 1-5", "--message", text, "--user", "telegram:5"]) == 0
    said = r"tea is set: cron `30 8 \* \* 1-5` \(Europe/Berlin\), next \w+day [^,]+, 08:30 \(Europe/Berlin\)\.\n"
    assert re.fullmatch(said, capsys.readouterr().out)
    assert run(["schedule", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["user"], listed["to"], listed["text"]) == ("telegram:5", "telegram:5", text)
    assert [run(["schedule", order, "tea"]) for order in ("pause", "resume", "runs", "remove")] == [0, 0, 0, 0]
    paused, _, *others = capsys.readouterr().out.splitlines()
    assert paused == "tea is paused until you resume it.", "`/schedule` is an order for chats"
    assert others == ["tea has not run yet.", "tea is removed."]
    assert run(["schedule", "list"]) == 0
    assert capsys.readouterr().out.startswith("There are no schedules.")


def test_the_owner_sets_a_time_zone_without_an_entry_in_the_users_file(
    alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert run(["schedule", "timezone", "America/New_York"]) == 0
    assert capsys.readouterr().out.startswith("Your time zone is America/New_York: it is ")
    assert run(["schedule", "add", "tea", "--at", "tomorrow 8:00", "--message", "Drink tea"]) == 0
    assert "08:00 (America/New_York)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["add", "tea", "--at", "soon", "--message", "x"],
            "`soon` is not a time: write 20m, tomorrow 8:00, friday 17:00",
        ),
        (["pause", "tea"], "there is no schedule named tea."),
        (["list", "--user", "telegram:7"], "telegram:7 is not in users.json"),
    ],
)
def test_what_cannot_be_done_fails_and_says_why(
    alone: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["schedule", *words]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"goclaw: {said}")
