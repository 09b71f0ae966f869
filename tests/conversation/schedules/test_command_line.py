"""The words behind `/schedule` are one order, or an error that names the word and the remedy."""

import pytest

from goclaw.conversation.schedules.command_line import parse
from goclaw.errors import StateError
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder, ScheduleRequest


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("", ScheduleOrder("list")),
        ("list --json", ScheduleOrder("list", as_json=True)),
        ("Pause tea", ScheduleOrder("pause", "tea")),
        ("runs tea --user telegram:5", ScheduleOrder("runs", "tea", user="telegram:5")),
        ("timezone Europe/Berlin", ScheduleOrder("timezone", "Europe/Berlin")),
        (
            "add tea --at tomorrow 8:00 --message Drink tea, now",
            ScheduleOrder("add", "tea", ScheduleRequest(at="tomorrow 8:00", message="Drink tea, now")),
        ),
        (
            "add tea —at 20m —message “Drink tea”",
            ScheduleOrder("add", "tea", ScheduleRequest(at="20m", message="“Drink tea”")),
        ),
        (
            "add news --cron '0 8 * * 1-5' --task \"Say what's new\" --session same --agent scout --model a:b "
            "--tools read,grep --ask --budget $0.50 --time-limit 10m --catch-up none --to telegram:5",
            ScheduleOrder(
                "add",
                "news",
                ScheduleRequest(
                    cron="0 8 * * 1-5",
                    task="Say what's new",
                    to="telegram:5",
                    session="same",
                    agent="scout",
                    model="a:b",
                    tools="read,grep",
                    catch_up="none",
                    ask=True,
                    budget=0.5,
                    time_limit="10m",
                ),
            ),
        ),
        (
            "add x --every=1h '--message=--at is an option'",
            ScheduleOrder("add", "x", ScheduleRequest(every="1h", message="--at is an option")),
        ),
    ],
)
def test_the_words_are_one_order(text: str, order: ScheduleOrder) -> None:
    assert parse(text) == order


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ad tea", "/schedule ad: unknown action; did you mean `add`?"),
        ("pause", "/schedule pause: which schedule? Send /schedule pause NAME"),
        ("add tea --mesage hello", "--mesage: unknown option; did you mean `message`?"),
        ("add tea --at --message hello", "--at: the value is missing"),
        ("add tea --message don't", "a quotation mark is not closed"),
        ("add tea --budget much", "--budget much: should be a number of US dollars"),
        ("pause tea --at 20m", "--at is for /schedule add"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(StateError) as caught:
        parse(text)
    assert str(caught.value).startswith(said)
