"""The list of what is to be done, above the input."""

import asyncio
from pathlib import Path

import pytest

from goclaw.clients.tui.widgets.panels import TodoPanel
from goclaw.common.core.events import Outcome, Todo, TurnFinished
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, Stage

THREE = (Todo("read the notes", "completed"), Todo("write the report", "in_progress"), Todo("send it"))


def many(done: int) -> list[Todo]:
    """Twenty lines, the one after `done` in progress."""
    status = ["completed"] * done + ["in_progress"] + ["pending"] * (19 - done)
    return [Todo(f"step {number:02}", each) for number, each in enumerate(status)]  # type: ignore[arg-type]  # literals


def shown(panel: TodoPanel, width: int = 78, height: int = 24) -> list[str]:
    return [line.plain for line in panel.lines(width, height)]


def test_every_state_has_a_sign_of_its_own() -> None:
    panel = TodoPanel()
    panel.show(THREE)
    assert shown(panel) == ["▾ 1 of 3 done", "  ✓ read the notes", "  ▶ write the report", "  ○ send it"]


@pytest.mark.parametrize("done", [0, 7, 18, 19])
def test_a_long_list_shows_what_is_being_done_and_says_how_much_is_left_out(done: int) -> None:
    panel = TodoPanel()
    panel.show(many(done))
    lines = shown(panel)
    assert lines[0] == f"▾ {done} of 20 done" and lines[-1] == "  +16 more" and len(lines) == 6
    assert f"  ▶ step {done:02}" in lines
    assert shown(panel, 158, 50)[-1] == "  +10 more"
    assert len(shown(panel, 20, 4)) == 2, "at least the first line and one more"


def test_a_list_on_which_everything_is_done_goes_with_the_turn() -> None:
    panel = TodoPanel()
    panel.turn(running=True)
    panel.show([Todo("all of it", "completed")])
    assert shown(panel)[0] == "▾ 1 of 1 done"
    panel.turn(running=False)
    assert shown(panel) == []
    panel.show(THREE)
    assert shown(panel)[0] == "▾ 1 of 3 done"
    panel.show(())
    assert shown(panel) == []


def test_a_folded_list_says_what_is_being_done_in_one_line() -> None:
    panel = TodoPanel()
    panel.show(THREE)
    panel.fold()
    assert shown(panel) == ["▸ 1 of 3 done  ▶ write the report"]
    assert shown(panel, 34) == ["▸ 1 of 3 done  ▶ write the…"], "and no more than fits"


@pytest.mark.screen
async def test_the_panel_comes_folds_grows_and_goes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.gateway.todos = THREE
    async with asyncio.timeout(2 * PATIENCE):
        async with stage.daemon():
            terminal = stage.terminal()
            screen = await terminal.__aenter__()
            await screen.until("○ send it")  # it was there before we came
            text = await screen.press("ctrl+n")
            assert "▸ 1 of 3 done  ▶ write the report" in text and "send it" not in text
            await screen.pilot.click(TodoPanel)
            await screen.until("○ send it")
        await screen.until("reconnecting")
        stage.gateway.todos = THREE[1:]
        async with stage.daemon() as daemon:
            await screen.until("0 of 2 done")  # it is right after a break

            daemon.plan("t1", *many(7))
            await screen.until("+16 more")
            assert screen.terminal.query_one(TodoPanel).size.height == 6
            await screen.pilot.resize_terminal(160, 50)
            await screen.until("+10 more")

            daemon.begin("t1", "go")
            daemon.plan("t1", Todo("all of it", "completed"))
            await screen.until("1 of 1 done")
            daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.ANSWERED, "Done."))
            await screen.until("1 of 1 done", gone=True)
            await terminal.__aexit__(None, None, None)
