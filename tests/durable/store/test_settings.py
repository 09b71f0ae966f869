"""Small values outlive a restart."""

from pathlib import Path

import pytest

from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.spending import Spending, Spent


async def test_a_setting_is_kept_replaced_and_forgotten_for_its_session_only(tmp_path: Path) -> None:
    async with open_database(tmp_path / "a.db") as database:
        settings = Settings(database)
        await settings.set("a", "model", "demo")
        await settings.set("a", "todos", [{"content": "x"}])
        await settings.set("b", "model", "other")
        await settings.set("a", "model", "better")
    async with open_database(tmp_path / "a.db") as database:
        settings = Settings(database)
        assert await settings.of_session("a") == {"model": "better", "todos": [{"content": "x"}]}
        await settings.set("a", "model", None)
        assert await settings.of_session("a") == {"todos": [{"content": "x"}]}
        assert await settings.of_session("b") == {"model": "other"}


async def test_a_fact_of_the_daemon_is_kept_replaced_and_forgotten(tmp_path: Path) -> None:
    async with open_database(tmp_path / "a.db") as database:
        assert await Settings(database).fact("summary_health") is None
        await Settings(database).learn("summary_health", {"failures": 1})
        await Settings(database).learn("summary_health", {"failures": 2})
        assert await Settings(database).fact("summary_health") == {"failures": 2}
        await Settings(database).learn("summary_health", None)
        assert await Settings(database).facts("summary_health") == {}


async def test_a_fact_that_does_not_say_which_processes_need_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'moon' is not in store\.settings\.FACTS"):
        Settings.learning("moon", "full")
    assert Settings.learning("schedules.zone_hint:telegram:5", value=True).values["value"] == "true"


async def test_what_was_spent_is_summed_up_by_session_and_by_model(tmp_path: Path) -> None:
    async with open_database(tmp_path / "a.db") as database:
        spending = Spending(database)
        assert await spending.of_session("a") == Spent()
        await spending.store(
            Spending.row("a", "t1", "answer", "m", tokens=(100, 10, 80, 5), cost=0.5, at=10.0),
            Spending.row("a", "t2", "summary", "free", tokens=(50, 5, 0, 0), cost=None, at=20.0),
            Spending.row("b", "t3", "answer", "m", tokens=(1, 1, 0, 0), cost=0.25, at=30.0),
        )
        assert await spending.of_session("a") == Spent(2, 150, 15, 80, 0.5, 1)
        assert await spending.by_model() == [
            Spent(2, 101, 11, 80, 0.75, 0, "m"),
            Spent(1, 50, 5, 0, 0.0, 1, "free"),
        ]
        assert await spending.by_model(since=15.0, session="a") == [Spent(1, 50, 5, 0, 0.0, 1, "free")]
