"""The doctor names schedules with their next time, last result and cost, and those that need a person."""

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.load import load_config
from goclaw.common.config.schema import Config
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.program.ops.doctor.state import MAX_SCHEDULES, check_schedules

AT = datetime.fromisoformat("2031-03-04T08:00").timestamp()
_JOB = (
    "INSERT INTO schedules (id, name, person, body, state, next, failures, note, made_at) "
    "VALUES (?, ?, 'tui:ann', '', ?, ?, ?, ?, 1)"
)
_RUN = (
    "INSERT INTO schedule_runs (job, due, state, turn, began_at, cost) "
    "VALUES (?, unixepoch('2031-01-01') + ?, ?, ?, unixepoch('2031-01-01 12:00'), ?)"
)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "state" / "goclaw.db"
    path.parent.mkdir()
    migrate(path)
    return load_config(overrides={"state_dir": str(path.parent)}, environ={}).config


def store(config: Config, statement: str, *rows: tuple[Any, ...]) -> None:
    with closing(sqlite3.connect(config.database_path)) as connection, connection:
        connection.executemany(statement, rows)


def test_each_is_named_with_its_next_time_its_last_result_and_its_cost(config: Config) -> None:
    assert check_schedules(config) == []
    store(
        config,
        _JOB,
        (1, "tea", "active", AT, 1, ""),
        (2, "old", "done", None, 0, ""),
        (3, "new", "paused", None, 0, ""),
    )
    store(config, _RUN, (1, 1, "failed", "a", None), (1, 2, "done", "b", 0.25))
    tea, new = (finding.line() for finding in check_schedules(config))
    assert tea.startswith("✓ schedules: tea of tui:ann: next Tue 4 Mar 2031 08:00; last Wed 1 Jan 2031")
    assert tea.endswith("done, $0.2500")
    assert new == "✓ schedules: new of tui:ann: paused"


def test_stopped_ones_and_those_that_fail_in_a_row_are_named_with_a_remedy(config: Config) -> None:
    jobs = [
        (1, "well", "active", AT, 1, ""),
        (2, "tired", "active", AT, 3, ""),
        (3, "halted", "stopped", None, 0, "no right"),
        (4, "mine", "paused", None, 5, ""),
    ]
    store(config, _JOB, *jobs)
    halted, tired, *others = check_schedules(config)
    assert (halted.verdict, tired.verdict, {each.verdict for each in others}) == ("warning", "warning", {"ok"})
    assert "halted of tui:ann has stopped: no right" in halted.text and "schedule resume halted" in halted.remedy
    assert "tired of tui:ann failed 3 times in a row" in tired.text and "goclaw schedule runs tired" in tired.remedy


def test_of_many_the_next_ones_are_named(config: Config) -> None:
    store(config, _JOB, *((n, f"j{n}", "active", AT + n, 0, "") for n in range(1, MAX_SCHEDULES + 4)))
    *named, more = (finding.text for finding in check_schedules(config))
    assert len(named) == MAX_SCHEDULES and named[0].startswith("j1 of") and more.startswith("3 more:")
