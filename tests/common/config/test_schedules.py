"""`schedules` of the configuration: what is wrong is named with file, line, column and remedy."""

from pathlib import Path

import pytest

from goclaw.common.config.load import load_config
from goclaw.errors import ConfigError

GOOD = """\
schedules:
  standup:
    cron: "0  9 * * 1-5"
    message: Stand up
    to: telegram:-100
  party:
    at: 2026-12-24T18:00:00
    task: Wish a merry Christmas
    session: ""
"""


def test_an_unquoted_time_and_an_expression_with_spaces_are_read(tmp_path: Path) -> None:
    found = load_config(_file(tmp_path, GOOD), environ={}).config.schedules
    assert (found["standup"].cron, found["party"].at) == ("0 9 * * 1-5", "2026-12-24T18:00:00")


def test_an_empty_session_is_a_fresh_one(tmp_path: Path) -> None:
    assert load_config(_file(tmp_path, GOOD), environ={}).config.schedules["party"].session == "fresh"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("every: 10s\n    message: x", ":3:5: schedules.tea.every: should be at least a minute"),
        ("cron: '61 * * * *'\n    message: x", ":3:5: schedules.tea.cron: should be a cron expression: bad minute"),
        ("cron: '* * * * * *'\n    message: x", ":3:5: schedules.tea.cron: should be a cron expression of five fields"),
        ("at: tomorrow\n    message: x", ":3:5: schedules.tea.at: should be a date and time such as 2026-12-24T18:00"),
        ("every: 1h\n    message: x\n    timezone: Mars", ":5:5: schedules.tea.timezone: there is no time zone `Mars`"),
        ("message: x", ":2:3: schedules.tea: should have one of `at`, `every` and `cron`"),
        ("every: 1h", ":2:3: schedules.tea: should have one of `message` and `task`"),
        ("every: 1h\n    message: x\n    model: demo", ":5:5: schedules.tea.model: is only for a `task`"),
        ("every: 1h\n    message: x\n    to: notify:ops", ":5:5: schedules.tea.to: unknown target `ops` (notify)"),
        ("every: 1h\n    message: x\n    to: ops", ":5:5: schedules.tea.to: should be `telegram:<chat id>`"),
        ("every: 1h\n    mesage: x", ":4:5: schedules.tea.mesage: unknown key; did you mean `message`?"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_remedy(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(_file(tmp_path, f"schedules:\n  tea:\n    {lines}\n"), environ={})
    assert said in str(caught.value)


def _file(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(f"{text}state_dir: {folder / 'state'}\n")
    return file
