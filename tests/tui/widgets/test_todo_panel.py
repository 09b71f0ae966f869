"""The list of what is to be done, above the input."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.events import Outcome, Todo, TurnFinished
from goclaw.tui.widgets.todo_panel import TodoPanel
from tests.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
async def daemon(stage: Stage) -> AsyncIterator[FakeGateway]:
    async with stage.daemon() as gateway:
        yield gateway


THREE = (Todo("read the notes", "completed"), Todo("write the report", "in_progress"), Todo("send it"))


def many(done: int) -> list[Todo]:
    """Twenty lines, the one after `done` in progress."""
    status = ["completed"] * done + ["in_progress"] + ["pending"] * (19 - done)
    return [Todo(f"step {number:02}", each) for number, each in enumerate(status)]  # type: ignore[arg-type]  # literals


async def test_every_state_has_a_sign_of_its_own(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        daemon.plan("t1", *THREE)
        text = await screen.until("▾ 1 of 3 done")
    assert "✓ read the notes" in text and "▶ write the report" in text and "○ send it" in text


@pytest.mark.parametrize("done", [0, 7, 18, 19])
async def test_a_long_list_shows_what_is_being_done_and_says_how_much_is_left_out(
    daemon: FakeGateway, stage: Stage, done: int
) -> None:
    async with stage.terminal() as screen:
        daemon.plan("t1", *many(done))
        text = await screen.until(f"{done} of 20 done")
        assert f"▶ step {done:02}" in text and "+16 more" in text
        assert screen.terminal.query_one(TodoPanel).size.height == 6
    async with stage.terminal((160, 50)) as screen:
        await screen.until("+10 more")


async def test_a_list_on_which_everything_is_done_goes_with_the_turn(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "go")
        daemon.plan("t1", Todo("all of it", "completed"))
        await screen.until("1 of 1 done")
        daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.ANSWERED, "Done."))
        await screen.until("1 of 1 done", gone=True)
        daemon.plan("t2", *THREE)
        await screen.until("1 of 3 done")
        daemon.plan("t2")
        await screen.until("1 of 3 done", gone=True)


async def test_the_list_folds_to_a_line_by_key_and_by_click(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        daemon.plan("t1", *THREE)
        await screen.until("○ send it")
        text = await screen.press("ctrl+n")
        assert "▸ 1 of 3 done  ▶ write the report" in text and "send it" not in text
        await screen.pilot.click(TodoPanel)
        await screen.until("○ send it")


async def test_the_list_is_there_after_an_attach_and_right_after_a_break(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        stage.gateway.todos = THREE
        async with stage.daemon():
            terminal = stage.terminal()
            screen = await terminal.__aenter__()
            await screen.until("1 of 3 done")
        await screen.until("reconnecting")
        stage.gateway.todos = THREE[1:]
        async with stage.daemon():
            await screen.until("0 of 2 done")
            await terminal.__aexit__(None, None, None)
