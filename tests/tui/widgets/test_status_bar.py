"""The line at the bottom says as much as fits, and the time always."""

from pathlib import Path

import pytest

from goclaw.clock import SteppedClock
from goclaw.events import LOCAL, Address, TurnStarted
from tests.tui.fake_daemon import SESSION, Stage

MODEL = "anthropic:claude-sonnet-4-5-20250929"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (120, f"● connected │ {SESSION} │ {MODEL} │ 12.3k of 200k tokens │ context 6 % │ $0.42+ │ 0.0 s"),
        (110, f"● connected │ {MODEL} │ 12.3k of 200k tokens │ context 6 % │ $0.42+ │ 0.0 s"),
        (96, f"● connected │ {MODEL} │ 12.3k of 200k (6 %) │ $0.42+ │ 0.0 s"),
        (80, "● connected │ claude-sonnet-4-5-20250… │ 12.3k of 200k (6 %) │ $0.42+ │ 0.0 s"),
    ],
)
async def test_a_narrow_terminal_gets_fewer_words(tmp_path: Path, width: int, line: str) -> None:
    stage = Stage(tmp_path, SteppedClock())
    stage.gateway.numbers |= {"model": MODEL, "cost": 0.4249, "spent": {"requests": 3, "unpriced": 1}}
    async with stage.daemon() as daemon, stage.terminal((width, 24), ready="12.3k of 200k") as screen:
        daemon.bus.publish(TurnStarted("t1", SESSION, Address(LOCAL, SESSION)))
        await screen.until(line)


async def test_a_cost_that_is_not_known_is_not_shown(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.gateway.numbers |= {"cost": None, "spent": {"requests": 3, "unpriced": 3}}
    async with stage.daemon(), stage.terminal() as screen:
        assert "$" not in screen.text()


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("default", "● connected │ claude-sonnet-4-5-20250… │ 12.3k of 200k (6 %) │ $0.42 │ 0.0 s"),
        ("plan", "● connected │ plan │ claude-sonnet-4-… │ 12.3k of 200k (6 %) │ $0.42 │ 0.0 s"),
    ],
)
async def test_a_permission_mode_that_is_not_the_usual_one_is_shown(tmp_path: Path, mode: str, line: str) -> None:
    stage = Stage(tmp_path, SteppedClock())
    stage.gateway.numbers |= {"model": MODEL, "cost": 0.42, "spent": {}, "mode": mode}
    async with stage.daemon() as daemon, stage.terminal((80, 24), ready="12.3k of 200k") as screen:
        daemon.bus.publish(TurnStarted("t1", SESSION, Address(LOCAL, SESSION)))
        await screen.until(line)
