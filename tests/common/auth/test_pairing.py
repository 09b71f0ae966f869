"""Strangers who ask to be let in: a code for one account, used once, within an hour, by an admin; and no group."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.pairing import (
    CODE_SECONDS,
    DENIED_SECONDS,
    REMIND_SECONDS,
    TRIES,
    PairingRefused,
    format_request,
)
from goclaw.common.config.policies import PairingSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor, Address, Inbound
from tests.common.auth.pairing_support import ADMIN, BOSS, CARL, DORA, Desk, daemon, knocking, said_to


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.promise("P-strangers-ignored")
async def test_a_code_lets_in_the_account_that_got_it_in_private_only(desk: Desk) -> None:
    code = await desk.code()
    assert len(code) == 9 and code[4] == "-" and desk.sent[-1].address == Address("telegram", str(CARL))
    asking = await desk.pairing.approve(ADMIN, code)
    assert asking.key == f"telegram:{CARL}"
    assert desk.entries()[asking.key] == {
        "name": "Carl",
        "roles": ["guest"],
        "groups": False,
        "workspace": f"people/telegram.{CARL}",
        "quietHours": "22:00-07:00",
    }
    access = Access(desk.users, Config())
    carl = Actor(asking.key, "telegram")
    assert access.authorize(carl, "session.write", asking.key).allowed
    assert not access.authorize(carl, "session.write", "telegram:-100").allowed, "pairing opens no group"
    assert not access.is_admin(carl)
    assert [entry.action for entry in desk.audited] == ["pairing.ask", "pairing.approve"]


@pytest.mark.promise("P-strangers-ignored")
async def test_a_code_is_read_as_people_type_it(desk: Desk) -> None:
    code = await desk.code()
    await desk.pairing.approve(ADMIN, f" {code.lower().replace('-', '')} ")
    assert f"telegram:{CARL}" in desk.entries()


@pytest.mark.promise("P-strangers-ignored")
async def test_role_and_tools_are_those_of_the_configuration(tmp_path: Path) -> None:
    desk = Desk(tmp_path, role="guest", allowed_tools=["read"])
    await desk.pairing.approve(ADMIN, await desk.code())
    entry = desk.entries()[f"telegram:{CARL}"]
    assert (entry["roles"], entry["allowedTools"]) == (["guest"], ["read"])


@pytest.mark.promise("P-strangers-ignored")
@pytest.mark.parametrize("role", ["admin", "", " "])
def test_nobody_becomes_an_admin_by_it(role: str) -> None:
    with pytest.raises(ValueError, match="add admins by hand"):
        PairingSettings(role=role)


@pytest.mark.promise("P-strangers-ignored")
async def test_switched_off_strangers_hear_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, enabled=False)
    await desk.pairing.request_code(knocking())
    assert desk.sent == [] and desk.stored == {} and not PairingSettings().enabled


@pytest.mark.promise("P-strangers-ignored")
@pytest.mark.parametrize(
    "inbound",
    [
        knocking(session="telegram:-100", address=Address("telegram", "-100", None, "1")),
        knocking(address=Address("telegram", "-100")),
        knocking(address=Address("telegram", str(DORA))),
        knocking(address=Address("telegram", str(CARL), None, "9")),
        knocking(session="telegram:78"),
        knocking(actor=Actor("", "telegram")),
        knocking(actor=Actor(f"telegram:{CARL}", "http")),
        knocking(actor=Actor(f"telegram:{CARL}", "telegram", behalf=(ADMIN,))),
        knocking(edited=True),
        knocking(BOSS),
    ],
)
async def test_who_is_not_alone_with_the_bot_or_no_stranger_gets_no_code(desk: Desk, inbound: Inbound) -> None:
    await desk.pairing.request_code(inbound)
    assert desk.sent == [] and await desk.pairing.list() == []


@pytest.mark.promise("P-strangers-ignored")
async def test_a_sender_has_one_code_and_is_told_it_now_and_then(desk: Desk) -> None:
    code = await desk.code()
    for number in range(2, 50):
        await desk.pairing.request_code(knocking(number=number))
    assert len(desk.sent) == 1
    desk.clock.advance(REMIND_SECONDS)
    assert await desk.code() == code and len(desk.sent) == 2
    assert len(await desk.pairing.list()) == 1


@pytest.mark.promise("P-strangers-ignored")
async def test_only_so_many_codes_are_open(tmp_path: Path) -> None:
    desk = Desk(tmp_path, waiting=3)
    for user in range(100, 200):
        await desk.pairing.request_code(knocking(user))
    assert len(desk.sent) == len(await desk.pairing.list()) == 3


@pytest.mark.promise("P-strangers-ignored")
async def test_a_code_is_over_after_an_hour_and_its_owner_waits_a_day_for_another(desk: Desk) -> None:
    code = await desk.code()
    desk.clock.advance(CODE_SECONDS)
    with pytest.raises(PairingRefused, match="This code is not open"):
        await desk.pairing.approve(ADMIN, code)
    await desk.pairing.request_code(knocking(number=2))
    assert len(desk.sent) == 1
    desk.clock.advance(DENIED_SECONDS)
    assert await desk.code() != code


@pytest.mark.promise("P-strangers-ignored")
async def test_a_code_is_good_once(desk: Desk) -> None:
    code = await desk.code()
    await desk.pairing.approve(ADMIN, code)
    with pytest.raises(PairingRefused, match="This code is not open"):
        await desk.pairing.approve(ADMIN, code)


@pytest.mark.promise("P-strangers-ignored")
async def test_of_two_admins_at_once_one_lets_in(desk: Desk) -> None:
    code, other = await desk.code(), Actor("telegram:6", "telegram")
    got = await asyncio.gather(*(desk.pairing.approve(by, code) for by in (ADMIN, other)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in got) == ["PairingRefused", "PairingRequest"]
    assert list(desk.entries()) == [ADMIN.key, f"telegram:{CARL}"]
    assert sum("now have access" in sent.text for sent in desk.sent) == 1


@pytest.mark.promise("P-strangers-ignored")
async def test_codes_cannot_be_tried_out(desk: Desk) -> None:
    code = await desk.code()
    for number in range(TRIES):
        with pytest.raises(PairingRefused, match="This code is not open"):
            await desk.pairing.approve(ADMIN, f"AAAAAAA{number + 2}")
    for _ in range(3):
        with pytest.raises(PairingRefused, match="Too many"):
            await desk.pairing.approve(ADMIN, code)
    with pytest.raises(PairingRefused, match="Too many"):
        await desk.pairing.deny(ADMIN, code)
    assert f"telegram:{CARL}" not in desk.entries()
    assert sum(not entry.allowed for entry in desk.audited) == TRIES
    await desk.pairing.approve(Actor("telegram:6", "telegram"), code)


@pytest.mark.promise("P-strangers-ignored")
async def test_who_is_denied_is_told_nothing_and_gets_no_code_for_a_day(desk: Desk) -> None:
    code = await desk.code()
    assert (await desk.pairing.deny(ADMIN, code)).key == f"telegram:{CARL}"
    await desk.pairing.request_code(knocking(number=2))
    assert len(desk.sent) == 1 and f"telegram:{CARL}" not in desk.entries()
    with pytest.raises(PairingRefused):
        await desk.pairing.approve(ADMIN, code)


@pytest.mark.promise("P-strangers-ignored")
async def test_the_code_lets_in_who_got_it_whoever_repeats_it(desk: Desk) -> None:
    code = await desk.code(CARL)
    await desk.pairing.request_code(knocking(DORA, text=code))
    await desk.pairing.approve(ADMIN, code)
    assert f"telegram:{CARL}" in desk.entries() and f"telegram:{DORA}" not in desk.entries()


@pytest.mark.promise("P-strangers-ignored")
async def test_codes_outlive_a_restart(desk: Desk) -> None:
    code = await desk.code()
    desk.begin()
    assert [asking.key for asking in await desk.pairing.list()] == [f"telegram:{CARL}"]
    await desk.pairing.approve(ADMIN, code)
    desk.begin()
    with pytest.raises(PairingRefused):
        await desk.pairing.approve(ADMIN, code)


@pytest.mark.promise("P-strangers-ignored")
@pytest.mark.parametrize("fact", [7, "x", [7], [{}], [{"code": "x", "evil": 1}], {"a": 1}])
async def test_facts_that_make_no_sense_are_no_codes(desk: Desk, fact: Any) -> None:
    desk.stored["pairing"] = json.dumps(fact)
    assert await desk.pairing.list() == []


@pytest.mark.promise("P-strangers-ignored")
async def test_what_was_edited_meanwhile_stays(desk: Desk) -> None:
    code = await desk.code()
    content = {"users": {**desk.entries(), "telegram:9": {"name": "New", "allowedTools": []}}}
    desk.path.write_text(json.dumps(content))
    await desk.pairing.approve(ADMIN, code)
    assert list(desk.entries()) == [ADMIN.key, "telegram:9", f"telegram:{CARL}"]
    assert desk.entries()["telegram:9"] == {"name": "New", "allowedTools": []}


@pytest.mark.promise("P-strangers-ignored")
async def test_an_entry_that_was_made_meanwhile_is_not_replaced(desk: Desk) -> None:
    code = await desk.code()
    content = {"users": {**desk.entries(), f"telegram:{CARL}": {"allowedTools": []}}}
    desk.path.write_text(json.dumps(content))
    with pytest.raises(PairingRefused, match="already listed"):
        await desk.pairing.approve(ADMIN, code)
    assert desk.entries()[f"telegram:{CARL}"] == {"allowedTools": []}
    assert await desk.pairing.list() == []


@pytest.mark.promise("P-strangers-ignored")
async def test_a_broken_users_file_refuses_and_the_code_stays_good(desk: Desk) -> None:
    code, before = await desk.code(), desk.path.read_text()
    desk.path.write_text("{")
    with pytest.raises(PairingRefused, match=r"users\.json"):
        await desk.pairing.approve(ADMIN, code)
    desk.path.write_text(before)
    await desk.pairing.approve(ADMIN, code)
    assert f"telegram:{CARL}" in desk.entries()


@pytest.mark.promise("P-strangers-ignored")
@pytest.mark.parametrize(
    "name",
    ["Boss\n/pair approve", "\u202eadmin", "x" * 500, "telegram:5", "\x1b[2JCarl", "a\u200bb", '"}, "telegram:9": {"'],
)
async def test_a_display_name_is_shown_as_one_and_counts_for_nothing(desk: Desk, name: str) -> None:
    await desk.pairing.request_code(knocking(name=name))
    (asking,) = await desk.pairing.list()
    line = format_request(asking, desk.clock.now())
    assert line.isprintable() and len(line) < 140 and f"telegram:{CARL}, claims the name " in line
    await desk.pairing.approve(ADMIN, asking.code)
    assert list(desk.entries()) == [ADMIN.key, f"telegram:{CARL}"]
    assert desk.entries()[f"telegram:{CARL}"]["name"].isprintable()


@pytest.mark.promise("P-strangers-ignored")
async def test_over_telegram_a_stranger_is_let_in_by_an_admin_and_by_nobody_else(tmp_path: Path) -> None:
    async with daemon(tmp_path) as (telegram, users):
        world = telegram.world
        await world.say("hello?", user=CARL, name="Carl")
        told = await said_to(telegram, CARL, 1)
        code = told.rpartition(" ")[2]
        assert told.startswith("I do not know you.") and "GoClaw" not in told
        await world.say(f"/pair approve {code}", user=CARL)  # the stranger himself
        await world.say(f"/pair approve {code}", user=6)  # a user, no admin
        assert await said_to(telegram, 6, 1) == "Only admins can manage pairing requests."
        await world.say(f"/pair@claw_bot approve {code}", user=BOSS, chat=-100)  # where others read
        assert (await said_to(telegram, -100, 1)).startswith("Other people can read this chat")
        assert str(CARL) not in users.read_text()
        await world.say("/pair list", user=BOSS)
        assert f"{code}  telegram:{CARL}, claims the name 'Carl'" in await said_to(telegram, BOSS, 1)
        await world.say(f"/pair approve {code}", user=BOSS)
        assert (await said_to(telegram, BOSS, 2)).startswith(f"telegram:{CARL} may now talk to me")
        assert (await said_to(telegram, CARL, 2)).startswith("You now have access")
        await world.say("what now?", user=CARL)
        assert await said_to(telegram, CARL, 3) == "The agent speaks."
        # The entry opens no group.
        await world.say("@claw_bot and here?", user=CARL, chat=-100)
        await world.say("@claw_bot ping", user=6, chat=-100)
        assert await said_to(telegram, -100, 2) == "The agent speaks."
        assert len(telegram.sent(-100)) == 2


@pytest.mark.promise("P-strangers-ignored")
async def test_over_telegram_nobody_gets_a_code_in_a_group(tmp_path: Path) -> None:
    async with daemon(tmp_path) as (telegram, _):
        await telegram.world.say("@claw_bot let me in", user=CARL, chat=-100)
        await telegram.world.say("@claw_bot ping", user=6, chat=-100)
        await telegram.wait_sent(-100, 1)
        await telegram.world.say("/pair list", user=BOSS)
        assert await said_to(telegram, BOSS, 1) == "There are no pairing requests."
        assert len(telegram.sent(-100)) == 1 and telegram.sent(CARL) == []


@pytest.mark.promise("P-strangers-ignored")
async def test_over_telegram_nothing_is_said_to_strangers_while_pairing_is_off(tmp_path: Path) -> None:
    async with daemon(tmp_path, enabled=False) as (telegram, _):
        await telegram.world.say("hello?", user=CARL)
        await telegram.world.say("/pair list", user=BOSS)
        assert (await said_to(telegram, BOSS, 1)).startswith("Pairing is off")
        assert telegram.sent(CARL) == []
