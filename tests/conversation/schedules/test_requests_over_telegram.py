"""A reminder from end to end: a person on Telegram sets it, and it comes; the whole daemon in one process."""

import json
import re
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.program.app import open_app
from tests.channels.telegram.support import UNHURRIED
from tests.fake_telegram.server import FakeTelegram


class HastyClock(RealClock):
    """A clock on which time can pass at once, as for a machine that slept."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def awake_or_not(self) -> float:
        return super().awake_or_not() + self.ahead


@pytest.mark.sqlite("the wall clock of Postgres counts there, which no test moves")
async def test_remind_20m_tea_arrives(tmp_path: Path) -> None:
    state, clock = tmp_path / "state", HastyClock()
    state.mkdir(mode=0o700)
    (state / "users.json").write_text(json.dumps({"users": {"telegram:5": {"timezone": "Europe/Berlin"}}}))
    (tmp_path / "script.json").write_text(json.dumps({"answers": []}))
    async with FakeTelegram() as telegram:
        config = Config.model_validate(
            {
                "state_dir": state,
                "models": {"agent": [f"scripted:{tmp_path / 'script.json'}"], "summary": []},
                "telegram": UNHURRIED | {"token": telegram.token, "base_url": telegram.base_url, "poll_seconds": 5},
            }
        )
        async with open_app(config, clock):
            await telegram.world.say("/remind 20m tea", user=5)
            (said,) = await telegram.wait_sent(5, 1)
            moment = r"\w+day \d+ \w+ \d+, \d\d:\d\d(:\d\d)? \(Europe/Berlin\)"
            assert re.fullmatch(rf"reminder-1 is set: {moment}\.", said.text)
            clock.ahead = 20 * 60
            # A schedule that is made has the others looked at, as the end of their time would.
            await telegram.world.say("/remind 5h supper", user=5)
            (card,) = [sent for sent in await telegram.wait_sent(5, 3) if sent.text == "⏰ Reminder: tea"]
            (later,) = [button for row in card.keyboard for button in row if button["text"] == "In 10 minutes"]
            await telegram.world.press(5, card.message_id, later["callback_data"], user=5)
            (answer,) = await telegram.wait_called("answerCallbackQuery", 1)
            assert re.fullmatch(rf"↻ Again: {moment}", answer["text"])
            await telegram.wait_called("editMessageText", 1)
