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
USERS = [User("telegram:5"), User("telegram:6"), User("telegram:7", "Chief", frozenset({"admin"}))]


def world(folder: Path, answers: int) -> World:
    return World(folder, [Answer("Yes.") for _ in range(answers)], users=USERS)


async def test_the_latest_comes_first_with_title_and_name_and_the_own_one_is_marked(tmp_path: Path) -> None:
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
        "- Short: telegram:5, 3 min ago, 2 messages",
        "- What is in the *notes*? " + "x" * 35 + "… (this one): Chief, 2 h ago, 2 messages",
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
    assert lines[1].startswith("- Hi: tui:22, ") and lines[-1] == "and 3 more"


async def test_topics_and_shared_conversations_have_the_names_of_their_people(tmp_path: Path) -> None:
    people = [User("telegram:5", "Anna", session="family"), User("telegram:6", "Boris", session="family"), USERS[2]]
    here = World(tmp_path, [Answer("Yes.")] * 2, users=people)
    async with here.running() as core:
        for actor, session in ((CHIEF, "telegram:7:12"), (ANNA, "telegram:5")):
            await core.say("Hi", actor=actor, session=session)
            await core.settled()
            here.clock.advance(60)
        lines = (await core.command("/sessions", actor=CHIEF, session="telegram:7")).splitlines()
    assert lines[1:] == ["- Hi: Anna, Boris, 1 min ago, 2 messages", "- Hi: Chief, 2 min ago, 2 messages"]


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
