"""The log beside the conversation."""

import asyncio
from pathlib import Path

import pytest

from goclaw.clients.tui.widgets.panels import LogView
from tests.clients.tui.fake_daemon import PATIENCE, Stage

LINES = [
    f'{{"event": "line {number:03d}", "level": "info", "timestamp": "2026-01-01T12:00:00+00:00"}}\n'
    for number in range(62)
]


@pytest.mark.screen
async def test_the_newest_line_stays_in_view_until_somebody_scrolls_up(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.place.log.write_text("".join(LINES[:60]))

    def append(number: int) -> None:
        with stage.place.log.open("a") as log:
            log.write(LINES[number])

    async with stage.daemon(), stage.terminal() as screen:
        await screen.until("line 059")
        await screen.type("/")
        await screen.until("/status")
        await screen.until("line 059")  # though something opened below
        append(60)
        await screen.until("line 060")

        await screen.press("escape", "ctrl+l", "ctrl+l", "pageup", "pageup", "pageup")
        await screen.until("line 000")
        append(61)
        view = screen.terminal.query_one(LogView)
        async with asyncio.timeout(PATIENCE):
            while len(view.lines) < 62:
                await screen.pilot.pause()
        assert "line 061" not in screen.text() and "line 000" in screen.text()
