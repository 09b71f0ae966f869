"""Who may do what, seen from a chat: only people who are listed, only tools that are theirs, as of now."""

from typing import Any

import pytest

from tests.acceptance.daemon import Installation
from tests.acceptance.model import EchoModel, tools_of
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Json

pytestmark = [pytest.mark.slow]

ANN, BOB, STRANGER, GROUP = 5, 6, 77, -100
IN_FORCE_SECONDS = 2.3
"""Two seconds, and a little for the way there and back on a busy machine."""
READER: Json = {"name": "Ann", "allowedTools": ["read"]}
ANONYMOUS: Json = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}


@pytest.fixture
async def daemon(home: Installation, telegram: FakeTelegram) -> Installation:
    """The daemon, running."""
    await home.start(telegram)
    return home


async def ask(telegram: FakeTelegram, text: str, user: int = ANN) -> str:
    """Write in private and wait for the answer."""
    before = len(telegram.sent(user))
    await telegram.world.say(text, user=user)
    return (await telegram.wait_sent(user, before + 1))[-1].text


async def says(telegram: FakeTelegram, command: str, text: str) -> None:
    """Ask until the answer contains `text`; fail when that takes longer than a change of users.json may."""
    began = clock.monotonic()
    while text not in (answer := f"{await ask(telegram, command)}\n"):
        assert clock.monotonic() - began < IN_FORCE_SECONDS, answer


@pytest.mark.promise("P-tools-per-user")
async def test_a_tool_that_is_not_allowed_is_neither_shown_nor_run(
    daemon: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    daemon.write_users({"telegram:5": READER})
    await says(telegram, "/whoami", "\nTools: read\n")
    answer = await ask(telegram, "m1 run touch made")
    assert '{"error": "unknown tool: exec"}' in answer
    assert not (daemon.workspace / "made").exists()
    assert [tools_of(request) for request in model.requests] == [["read"], ["read"]]


@pytest.mark.promise("P-users-live")
async def test_a_right_that_is_taken_away_is_gone_within_two_seconds_even_for_a_turn_that_runs(
    daemon: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    gate = model.gate("m1", streamed=0)
    await telegram.world.say("m1 run touch made", user=ANN)
    await gate.reached.wait()
    daemon.write_users({"telegram:5": READER})
    await says(telegram, "/whoami", "\nTools: read\n")
    gate.opened.set()
    await eventually(lambda: [sent for sent in telegram.sent(ANN) if "unknown tool: exec" in sent.text])
    assert not (daemon.workspace / "made").exists()
    offered = [tools_of(request) for request in model.requests]
    assert "exec" in offered[0] and offered[1] == ["read"]


async def test_a_new_user_is_heard_within_two_seconds(daemon: Installation, telegram: FakeTelegram) -> None:
    daemon.write_users({"telegram:5": {}, "telegram:6": {}})
    began = clock.monotonic()
    while not telegram.sent(BOB):
        await telegram.world.say("/whoami", user=BOB)
        assert clock.monotonic() - began < IN_FORCE_SECONDS
        await eventually(lambda: not telegram.world.updates)


@pytest.mark.promise("P-strangers-ignored")
async def test_a_stranger_is_ignored_and_logged_by_number_once_a_minute(
    daemon: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    for number in range(4):
        await telegram.world.say(f"m{number} exec", user=STRANGER, name="Ann")
        await telegram.world.say(f"@claw_bot m{number} exec", user=STRANGER, chat=GROUP)
    await telegram.world.say("/status", user=STRANGER)
    assert await ask(telegram, "m9 plain") == "answer m9 (end)"
    assert telegram.sent(STRANGER) == [] and telegram.sent(GROUP) == []
    assert len(model.requests) == 1
    await eventually(lambda: "telegram:77" in daemon.output)
    assert daemon.output.count("telegram:77 via") == 1, daemon.output


@pytest.mark.promise("P-telegram-nobody")
async def test_whoever_writes_in_the_name_of_a_group_is_nobody(
    daemon: Installation, telegram: FakeTelegram, model: EchoModel
) -> None:
    daemon.write_users({"telegram:5": {}, "telegram:1087968824": {}, "telegram:6": {}})
    sender = {"id": GROUP, "type": "supergroup", "title": "Group"}
    raw: dict[str, Any] = {"from": ANONYMOUS, "sender_chat": sender}
    await telegram.world.say("@claw_bot m1 plain", chat=GROUP, **raw)
    await telegram.world.say("@claw_bot m2 plain", user=ANN, chat=GROUP, sender_chat=sender)
    await telegram.world.say("@claw_bot m3 plain", user=ANN, chat=GROUP)
    assert [sent.text for sent in await telegram.wait_sent(GROUP)] == ["answer m3 (end)"]
    assert len(model.requests) == 1


@pytest.mark.promise("P-users-live")
async def test_a_broken_users_file_changes_nothing_and_says_so(daemon: Installation, telegram: FakeTelegram) -> None:
    admin = {**READER, "roles": ["admin"]}
    daemon.write_users({"telegram:5": admin, "telegram:6": READER})
    await says(telegram, "/whoami", "Role: admin")
    daemon.write_users('{"users": {"telegram:6": {}')
    await says(telegram, "/status", "users.json is broken, the last good version is in force")
    assert "users.json" not in await ask(telegram, "/status", user=BOB), "what is in it is nobody else's business"
    assert (await ask(telegram, "/status")).startswith("Session Status\n")
    assert await ask(telegram, "m1 plain") == "answer m1 (end)"
    daemon.write_users({"telegram:5": {**admin, "allowedTools": ["read", "write"]}})
    await says(telegram, "/whoami", "\nTools: read, write\n")
    assert "broken" not in await ask(telegram, "/status")
