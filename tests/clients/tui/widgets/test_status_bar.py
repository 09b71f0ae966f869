"""The line at the bottom says as much as fits, and the time always."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.clients.tui.widgets.status_bar import StatusBar
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import LOCAL, Address, TurnStarted
from tests.clients.tui.fake_daemon import SESSION, Stage

MODEL = "anthropic:claude-sonnet-4-5-20250929"
NUMBERS = {"model": MODEL, "tokens": 12_345, "context_window": 200_000, "reserve": 30_000}


def bar(**numbers: Any) -> StatusBar:
    """A bar that knows these numbers, of a turn that has just begun."""
    made = StatusBar(SESSION)
    made.connection("connected")
    made.numbers({**NUMBERS, **numbers})
    made.elapsed(0.0)
    return made


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (118, f"● connected │ {SESSION} │ {MODEL} │ 12.3k of 200k tokens █░░░░░░░░░░▒ 6 % │ $0.42+ │ 0.0 s"),
        (108, f"● connected │ {MODEL} │ 12.3k of 200k tokens █░░░░░░░░░░▒ 6 % │ $0.42+ │ 0.0 s"),
        (94, f"● connected │ {MODEL} │ 12.3k of 200k █░░░░░ 6 % │ $0.42+ │ 0.0 s"),
        (78, "● connected │ claude-sonnet-4-5-20250… │ 12.3k of 200k (6 %) │ $0.42+ │ 0.0 s"),
        (20, "● connected │ claude-sonnet-4-5-20250… │ 12.3k of 200k (6 %) │ $0.42+ │ 0.0 s"),
    ],
)
def test_a_narrow_terminal_gets_fewer_words(columns: int, line: str) -> None:
    assert bar(cost=0.4249, spent={"requests": 3, "unpriced": 1}).line(columns).plain == line


def test_a_cost_that_is_not_known_is_not_shown() -> None:
    assert "$" not in bar(cost=None, spent={"requests": 3, "unpriced": 3}).line(118).plain


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("default", "● connected │ claude-sonnet-4-5-20250… │ 12.3k of 200k (6 %) │ $0.42 │ 0.0 s"),
        ("plan", "● connected │ plan │ claude-sonnet-4-… │ 12.3k of 200k (6 %) │ $0.42 │ 0.0 s"),
    ],
)
def test_a_permission_mode_that_is_not_the_usual_one_is_shown(mode: str, line: str) -> None:
    assert bar(cost=0.42, spent={}, mode=mode).line(78).plain == line


@pytest.mark.parametrize(
    ("tokens", "reserve", "shown"),
    [
        (0, 50_000, "0 of 200k tokens ░░░░░░░░░▒▒▒ 0 %"),
        (100_000, 50_000, "100k of 200k tokens ██████░░░▒▒▒ 50 %"),
        (160_000, 50_000, "160k of 200k tokens ██████████▒▒ 80 %"),
        (210_000, 50_000, "210k of 200k tokens ████████████ 105 %"),
        (100_000, 0, "100k of 200k tokens ██████░░░░░░ 50 %"),
    ],
)
def test_the_bar_shows_what_is_taken_and_what_is_kept_free(tokens: int, reserve: int, shown: str) -> None:
    assert f" │ {shown} │ " in bar(tokens=tokens, reserve=reserve).line(150).plain


def test_a_window_that_is_not_known_has_no_bar() -> None:
    assert " │ 12.3k tokens │ " in bar(context_window=0).line(150).plain


def test_another_session_has_no_numbers_yet() -> None:
    made = bar()
    made.enter("tui:work")
    made.connection("connecting")
    made.elapsed(None)
    assert made.line(118).plain == "○ connecting │ tui:work"


@pytest.mark.screen
async def test_the_line_grows_and_shrinks_with_the_terminal(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SteppedClock())
    stage.gateway.numbers |= {"model": MODEL, "cost": 0.4249, "spent": {"requests": 3, "unpriced": 1}}
    async with stage.daemon() as daemon, stage.terminal((120, 24)) as screen:
        daemon.bus.publish(TurnStarted("t1", SESSION, Address(LOCAL, SESSION)))
        await screen.until(bar(cost=0.4249, spent={"unpriced": 1}).line(118).plain)
        await screen.pilot.resize_terminal(80, 24)
        await screen.until(bar(cost=0.4249, spent={"unpriced": 1}).line(78).plain)
        await screen.pilot.resize_terminal(110, 24)
        await screen.until(bar(cost=0.4249, spent={"unpriced": 1}).line(108).plain)
