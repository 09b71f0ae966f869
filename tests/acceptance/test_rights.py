"""Who may do what, seen from a chat: only people who are listed, only tools that are theirs, as of now."""

from typing import Any

import pytest

from tests.acceptance.model import tools_of
from tests.acceptance.shared import Person, SharedDaemon
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.world import Json

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

STRANGER, NEWCOMER = 77, 78
"""Not in users.json."""
IN_FORCE_SECONDS = 2.3
"""Two seconds, and a little for the way there and back on a busy machine."""
READER: Json = {"name": "Ann", "allowedTools": ["read"]}
ANONYMOUS: Json = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}


async def says(person: Person, command: str, text: str) -> None:
    """Ask until the answer contains `text`; fail when one lacks it that was asked later than a change may take."""
    began = asked = clock.monotonic()
    while text not in (answer := f"{await person.ask(command)}\n"):
        assert asked - began < IN_FORCE_SECONDS, answer
        asked = clock.monotonic()


@pytest.mark.promise("P-tools-per-user")
async def test_a_tool_that_is_not_allowed_is_neither_shown_nor_run(ann: Person, shared: SharedDaemon) -> None:
    shared.allow({ann.number: READER})
    await says(ann, "/whoami", "\nI can: read files\n")
    answer = await ann.ask(f"{ann.name('a')} run touch made-{ann.number}")
    assert '{"error": "unknown tool: exec"}' in answer
    assert not (shared.home.workspace / f"made-{ann.number}").exists()
    assert [tools_of(request) for request in ann.requests] == [["read"], ["read"]]


@pytest.mark.promise("P-users-live")
async def test_a_right_that_is_taken_away_is_gone_within_two_seconds_even_for_a_turn_that_runs(
    ann: Person, shared: SharedDaemon
) -> None:
    gate = ann.gate("a", streamed=0)
    await ann.say(f"{ann.name('a')} run touch made-{ann.number}")
    await gate.reached.wait()
    shared.allow({ann.number: READER})
    await says(ann, "/whoami", "\nI can: read files\n")
    gate.opened.set()
    await eventually(lambda: [text for text in ann.texts() if "unknown tool: exec" in text])
    assert not (shared.home.workspace / f"made-{ann.number}").exists()
    offered = [tools_of(request) for request in ann.requests]
    assert "exec" in offered[0] and offered[1] == ["read"]


async def test_a_new_user_is_heard_within_two_seconds(shared: SharedDaemon) -> None:
    newcomer = Person(NEWCOMER, shared)
    shared.allow({NEWCOMER: {}})
    began = asked = clock.monotonic()
    while not newcomer.sent():
        assert asked - began < IN_FORCE_SECONDS
        asked = clock.monotonic()
        await newcomer.say("/whoami")
        await eventually(lambda: not shared.telegram.world.updates)


@pytest.mark.promise("P-strangers-ignored")
async def test_a_stranger_is_ignored_and_logged_by_number_once_a_minute(ann: Person, shared: SharedDaemon) -> None:
    stranger = Person(STRANGER, shared)
    for letter in "abcd":
        await stranger.say(f"{stranger.name(letter)} exec", name="Ann")
        await stranger.say(f"@claw_bot {stranger.name(letter)} exec", chat=ann.group)
    await stranger.say("/status")
    assert await ann.ask(f"{ann.name('a')} plain") == ann.answer("a")
    assert stranger.sent() == [] and ann.sent(ann.group) == []
    assert stranger.requests == [] and len(ann.requests) == 1
    await eventually(lambda: "telegram:77" in shared.home.output)
    assert shared.home.output.count("telegram:77 via") == 1, shared.home.output


@pytest.mark.promise("P-telegram-nobody")
async def test_whoever_writes_in_the_name_of_a_group_is_nobody(ann: Person, shared: SharedDaemon) -> None:
    shared.allow({ANONYMOUS["id"]: {}, ann.number: READER})
    await says(ann, "/whoami", "\nI can: read files\n")
    group = {"id": ann.group, "type": "supergroup", "title": "Group"}
    raw: dict[str, Any] = {"from": ANONYMOUS, "sender_chat": group}
    await ann.say_in_group(f"{ann.name('a')} plain", **raw)
    await ann.say_in_group(f"{ann.name('b')} plain", sender_chat=group)
    await ann.say_in_group(f"{ann.name('c')} plain")
    await eventually(lambda: ann.answer("c") in ann.texts(ann.group))
    assert ann.texts(ann.group) == [ann.answer("c")]
    assert len(ann.requests) == 1


@pytest.mark.promise("P-users-live")
async def test_a_broken_users_file_changes_nothing_and_says_so(ann: Person, shared: SharedDaemon) -> None:
    bob, admin = shared.person(), {**READER, "roles": ["admin"]}
    shared.allow({ann.number: admin, bob.number: READER})
    await says(ann, "/whoami", "Role: admin")
    shared.home.write_users(f'{{"users": {{"telegram:{bob.number}": {{}}')
    await says(ann, "/status", "(the last valid version stays in force)")
    assert "users.json" not in await bob.ask("/status"), "what is in it is nobody else's business"
    assert (await ann.ask("/status")).startswith("Session Status\n")
    await ann.say(f"{ann.name('a')} plain")
    await eventually(lambda: ann.answer("a") in ann.texts())  # the alert to the admin may come before it
    shared.allow({ann.number: {**admin, "allowedTools": ["read", "write"]}})
    await says(ann, "/whoami", "\nTools: read, write\n")
    assert "broken" not in await ann.ask("/status")
