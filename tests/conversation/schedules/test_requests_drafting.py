"""What was asked for becomes a job, or an error that names the option and its forms."""

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from goclaw.common.core.events import LOCAL, Address, Inbound
from goclaw.conversation.schedules.jobs import Cron, Interval, Job, Once, TaskOptions
from goclaw.conversation.schedules.requests import draft
from goclaw.errors import StateError
from goclaw.tools.toolkit.schedule_orders import ScheduleRequest
from tests.harness import HERE

NOW = 1_795_000_000.0  # Wednesday 18 November 2026, 12:06:40 in Berlin
BERLIN = ZoneInfo("Europe/Berlin")
CHAT = Address("memory", "here", reply_to="7")


def drafted(**wanted: Any) -> Job:
    inbound = Inbound("m1", HERE, "memory:here", "/schedule …", CHAT, NOW)
    return draft("tea", replace(ScheduleRequest(), **wanted), inbound, NOW, BERLIN)


def test_a_message_at_a_time_goes_to_the_chat_it_was_asked_for_in_and_answers_no_message_there() -> None:
    assert drafted(at="20m", message=" Tea ") == Job(
        "tea",
        "message",
        "Tea",
        Once(NOW + 1200, "Europe/Berlin", by_duration=True),
        HERE,
        "memory:here",
        Address("memory", "here"),
        personal=True,
        origin="m1",
    )


def test_a_task_has_options_of_its_own() -> None:
    made = drafted(
        cron="30 8 * * *",
        task="News",
        agent="scout",
        tools="read, -exec",
        budget=0.5,
        time_limit="10m",
        ask=True,
        catch_up="all",
    )
    assert made.when == Cron("30 8 * * *", "Europe/Berlin")
    assert made.task == TaskOptions("fresh", "scout", tools=("read", "-exec"), budget=0.5, seconds=600.0, ask=True)
    assert (made.kind, made.catch_up, made.personal) == ("task", "all", False)


def test_a_message_may_be_said_in_a_session_or_sent_to_a_chat() -> None:
    said = drafted(every="2h", message="Tea", session="tui:ann")
    assert (said.session, said.address, said.when) == (
        "tui:ann",
        Address(LOCAL, "tui:ann"),
        Interval(7200, NOW, "Europe/Berlin"),
    )
    assert drafted(every="2h", message="Tea", to="telegram:-100:7").address == Address("telegram", "-100", "7")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"message": "x"}, "say when"),
        ({"message": "x", "at": "20m", "cron": "* * * * *"}, "say when"),
        ({"at": "20m"}, "say what"),
        ({"at": "20m", "message": "x", "task": "y"}, "say what"),
        ({"at": "20m", "message": "x", "time_limit": "5m"}, "time-limit is for a task"),
        ({"at": "20m", "message": "x", "to": "telegram:5", "session": "s"}, "a message goes to a chat"),
        ({"at": "soon", "message": "x"}, "`soon` is not a time: write 20m"),
        ({"every": "10s", "message": "x"}, "every 10s is too often"),
        ({"cron": "8", "message": "x"}, "`8` is not a cron expression: it needs five fields"),
        ({"at": "20m", "message": "x", "to": "ann"}, "`ann` is not a chat: write telegram:<chat id>"),
        ({"at": "20m", "message": "x", "to": "pigeon:5"}, "there is no channel pigeon: memory, notify, telegram"),
        ({"at": "20m", "message": "x", "catch_up": "some"}, "`some` is not a catch-up mode: write last, all or none"),
        ({"at": "20m", "task": "x", "time_limit": "long"}, "`long` is not a time limit"),
        ({"at": "20m", "task": "x", "tools": "tag:"}, "the tools: "),
        ({"at": "20m", "message": "x", "tools": "read"}, "tools is for a task"),
        ({"at": "20m", "task": "x", "budget": 0.0}, "the budget should be"),
    ],
)
def test_what_cannot_be_is_refused_with_the_forms(wanted: dict[str, object], said: str) -> None:
    with pytest.raises(StateError) as caught:
        drafted(**wanted)
    assert str(caught.value).startswith(said)
