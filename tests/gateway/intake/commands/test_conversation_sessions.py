"""`/sessions`: whose conversations are listed, and how."""

from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.clock import ago
from goclaw.common.core.events import Actor, Address, Inbound
from tests.harness import Answer, World

ANNA = Actor("telegram:5", "telegram", name="Anna")
BORIS = Actor("telegram:6", "telegram", name="Boris")
CHIEF = Actor("telegram:7", "telegram", name="Chief")
USERS = [User("telegram:5"), User("telegram:6"), User("telegram:7", roles=frozenset({"admin"}))]


def world(folder: Path, answers: int) -> World:
    return World(folder, [Answer("Yes.") for _ in range(answers)], users=USERS)


async def test_the_latest_comes_first_and_the_own_one_is_marked(tmp_path: Path) -> None:
    here = world(tmp_path, 2)
    async with here.running() as core:
        await core.say("What is\n\nin the *notes*? " + "x" * 80, actor=CHIEF, session="telegram:7")
        await core.settled()
        here.clock.advance(7_300)
        await core.say("Short", actor=ANNA, session="telegram:5")
        await core.settled()
        here.clock.advance(180)
        text = await core.command("/sessions", actor=CHIEF, session="telegram:7")
    assert text.splitlines() == [
        "Sessions, latest first:",
        "- telegram:5: 2 messages, 3 min ago · Short",
        "- telegram:7 (this one): 2 messages, 2 h ago · What is in the *notes*? " + "x" * 35 + "…",
    ]


@pytest.mark.promise("P-sessions-are-private")
async def test_nobody_sees_the_sessions_of_others(tmp_path: Path) -> None:
    here = world(tmp_path, 1)
    async with here.running() as core:
        await core.say("My secret", actor=ANNA, session="telegram:5")
        await core.settled()
        text = await core.command("/sessions", actor=BORIS, session="telegram:6")
    assert text == "There are no conversations yet."


@pytest.mark.promise("P-sessions-are-private")
async def test_an_admin_who_asks_in_a_group_does_not_show_the_list_to_everybody(tmp_path: Path) -> None:
    here = world(tmp_path, 1)
    async with here.running() as core:
        await core.say("My secret", actor=ANNA, session="telegram:5")
        await core.settled()
        group = Address("memory", "-100", reply_to="12")
        accepted = await core.gateway.accept(Inbound("1", CHIEF, "telegram:-100", "/sessions", group, 0.0))
    assert accepted.text.startswith("Other people can read this chat.")


async def test_a_long_list_says_how_many_more_there_are(tmp_path: Path) -> None:
    here = world(tmp_path, 23)
    async with here.running() as core:
        for number in range(23):
            await core.say("Hi", actor=CHIEF, session=f"tui:{number}")
            await core.settled()
            here.clock.advance(1)
        lines = (await core.command("/sessions", actor=CHIEF, session="telegram:7")).splitlines()
    assert len(lines) == 22
    assert lines[1].startswith("- tui:22: ") and lines[-1] == "and 3 more"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3_599, "59 min ago"),
        (7_300, "2 h ago"),
        (86_400, "1 day ago"),
        (9 * 86_400, "9 days ago"),
    ],
)
def test_times_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert ago(seconds) == words
