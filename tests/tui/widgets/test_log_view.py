"""The log beside the conversation."""

import asyncio
from pathlib import Path

from goclaw.tui.widgets.log_view import LogView
from tests.tui.fake_daemon import PATIENCE, Stage

LINES = "".join(
    f'{{"event": "line {number:03d}", "level": "info", "timestamp": "2026-01-01T12:00:00+00:00"}}\n'
    for number in range(60)
)


async def test_the_newest_line_stays_in_view_when_something_opens_below(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.place.log.write_text(LINES)
    async with stage.daemon(), stage.terminal() as screen:
        await screen.until("line 059")
        await screen.type("/")
        await screen.until("/status")
        await screen.until("line 059")
        with stage.place.log.open("a") as log:
            log.write(LINES.splitlines()[0].replace("line 000", "line 060") + "\n")
        await screen.until("line 060")


async def test_whoever_scrolled_up_is_left_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.place.log.write_text(LINES)
    async with stage.daemon(), stage.terminal() as screen:
        await screen.until("line 059")
        await screen.press("ctrl+l", "ctrl+l", "pageup", "pageup", "pageup")
        seen = await screen.until("line 000")
        with stage.place.log.open("a") as log:
            log.write(LINES.splitlines()[0].replace("line 000", "line 060") + "\n")
        view = screen.terminal.query_one(LogView)
        async with asyncio.timeout(PATIENCE):
            while len(view.lines) < 61:
                await screen.pilot.pause()
        assert "line 060" not in screen.text() and "line 000" in seen
