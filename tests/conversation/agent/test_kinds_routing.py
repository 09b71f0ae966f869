"""Which route fits: all of its conditions, the first that does; commands apart from places."""

import pytest

from goclaw.common.config.agents import RouteSettings
from goclaw.common.core.events import Actor, Address, Inbound
from goclaw.conversation.agent.kinds import by_command, by_place, command_in, commands_of

ROUTES = [
    RouteSettings(agent="cook", command="cook", chat=("telegram:-1",)),
    RouteSettings(agent="clerk", user=("telegram:7", "tui:*"), chat=("telegram:*",)),
    RouteSettings(agent="guide", chat=("memory:*",)),
]


@pytest.mark.parametrize(
    ("text", "forwarded", "command"),
    [
        ("/cook a soup", False, "cook"),
        ("  /Cook@bot", False, "cook"),
        ("/etc/hosts", False, ""),
        ("cook", False, ""),
        ("/cook", True, ""),
    ],
)
def test_a_command_is_the_senders_own_first_word(text: str, forwarded: bool, command: str) -> None:
    inbound = Inbound("1", Actor("a", "x"), "s", text, Address("x", "y"), 0.0, forwarded=forwarded)
    assert command_in(inbound) == command


@pytest.mark.parametrize(
    ("user", "places", "agent"),
    [
        ("telegram:7", ["telegram:7"], "clerk"),
        ("tui:me", ["tui:me", "telegram:-5"], "clerk"),
        ("tui:me", ["tui:me"], None),
        ("telegram:8", ["memory:here"], "guide"),
    ],
)
def test_every_condition_of_a_route_has_to_fit(user: str, places: list[str], agent: str | None) -> None:
    found = by_place(ROUTES, user, places)
    assert (found.agent if found else None) == agent


def test_a_route_with_a_command_is_for_that_command_only() -> None:
    found = by_command(ROUTES, "cook", "anybody", ["telegram:-1"])
    assert found and found.agent == "cook"
    assert by_command(ROUTES, "cook", "anybody", ["telegram:-2"]) is None
    assert by_command(ROUTES, "", "anybody", ["telegram:-1"]) is None
    assert by_place(ROUTES, "anybody", ["telegram:-1"]) is None
    assert list(commands_of(ROUTES, "anybody")) == [("cook", "cook")]
