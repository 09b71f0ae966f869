"""What people and the operator read of the connection: once each, and only what polls say."""

import logging

import pytest
from telegram.error import Conflict

from goclaw.channels.telegram.connection import CONFLICT, CONFLICT_ALERT, LASTING_SECONDS, WEBHOOK, PollHealth
from goclaw.channels.telegram.request import Flood, Unanswered, Unsent
from goclaw.common.core.clock import SteppedClock
from tests.channels.telegram.test_polling import Desk
from tests.fake_telegram.methods import POLLER_CONFLICT, WEBHOOK_CONFLICT


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Conflict(POLLER_CONFLICT), CONFLICT),
        (Conflict(WEBHOOK_CONFLICT), WEBHOOK),
        (Flood(3), "Telegram asks us to wait 3 s"),
        (Unsent("ClientConnectorError: Connection refused"), "no connection: ClientConnectorError"),
    ],
)
def test_each_trouble_has_its_own_words(error: Conflict | Flood | Unsent, line: str) -> None:
    health = PollHealth(SteppedClock())
    health.trouble(error, 8)
    assert health.line().startswith(line)
    assert health.line().endswith("next try in 8 s")


def test_troubles_that_take_turns_are_logged_once_each_until_polls_are_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = PollHealth(SteppedClock())
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            for _ in range(5):
                health.trouble(Unanswered("ServerDisconnectedError"), 1)
                health.trouble(Unsent("ClientConnectorError"), 1)
                health.silent()
            health.record_poll()
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 9
    assert sum("answers again" in record.message for record in caplog.records) == 3


def test_only_a_conflict_that_lasts_is_told_to_the_operator() -> None:
    desk = Desk()
    health = PollHealth(SteppedClock(), desk)
    health.trouble(Conflict(POLLER_CONFLICT), LASTING_SECONDS - 1)
    assert desk.told == {}, "the last poll of an old run ends by itself"
    health.trouble(Conflict(POLLER_CONFLICT), LASTING_SECONDS)
    assert CONFLICT in desk.told[CONFLICT_ALERT]
    health.record_poll()
    assert desk.told == {}
