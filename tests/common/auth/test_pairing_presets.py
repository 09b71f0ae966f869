"""Presets by which strangers are let in: by an admin's word, by a button, and by an invitation for one person."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.invitations import SECONDS, carry_out
from goclaw.common.auth.pairing import (
    REMIND_SECONDS,
    TRIES,
    PairingRefused,
)
from goclaw.common.core.events import Actor, Address
from goclaw.errors import ConfigError
from tests.acceptance.waiting import eventually
from tests.common.auth.pairing_support import ADMIN, BOSS, CARL, DORA, Desk, daemon, knocking, said_to


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.promise("P-strangers-ignored")
async def test_an_admin_says_by_which_preset_and_may_change_it_later(desk: Desk) -> None:
    key = f"telegram:{CARL}"
    code = await desk.code()
    for wrong in ("owner", "king"):
        with pytest.raises(PairingRefused):
            await desk.pairing.approve(ADMIN, code, wrong)
    await desk.pairing.approve(ADMIN, code, "child")
    assert (desk.entries()[key]["roles"], desk.entries()[key]["groups"]) == (["child"], False)
    said = await desk.pairing.change_preset(ADMIN, key, "guest")
    assert said.startswith("Carl is now guest: conversation only")
    assert (desk.entries()[key]["roles"], desk.entries()[key]["groups"]) == (["guest"], False)
    access = Access(desk.users, desk.config)
    carl = Actor(key, "telegram")
    assert access.daily_budget(key).cost == 0.2, "though the configuration does not define the role"
    assert not access.authorize(carl, "tool.use", "read").allowed
    for unlisted in ("telegram:404", ADMIN.key):
        with pytest.raises(PairingRefused):
            await desk.pairing.change_preset(ADMIN, unlisted, "child")


@pytest.mark.promise("P-strangers-ignored")
async def test_admins_hear_once_a_day_that_somebody_knocks_and_never_the_code(tmp_path: Path) -> None:
    desk = Desk(tmp_path, tell_admins=True)
    for number in range(1, 20):
        await desk.pairing.request_code(knocking(number=number, name="Carl\n/pair approve"))
        desk.clock.advance(REMIND_SECONDS)
    (asking, *_) = [desk.stored[name] for name in desk.stored if name.startswith("pairing:")]
    told = [sent.text for sent in desk.sent if sent.address == Address("telegram", str(BOSS))]
    assert len(told) == 1 and f"telegram:{CARL}" in told[0] and "'Carl/pair approve'" in told[0]
    code = json.loads(asking)["code"]
    assert code not in told[0].replace("-", "")


INVITED = f"telegram:{CARL}"


async def invited(desk: Desk, preset: str = "child", name: str = "Cem") -> str:
    """The code of a new invitation."""
    return (await carry_out(desk, "invite", f"{preset} {name}", desk.clock.now())).rpartition(" ")[2]


@pytest.mark.promise("P-strangers-ignored")
@pytest.mark.parametrize("form", ["{}", " {} ", "/start {}", "/start@claw_bot {}"])
async def test_who_sends_an_invitation_is_let_in_by_it_once(tmp_path: Path, form: str) -> None:
    desk = Desk(tmp_path, enabled=False)
    code = await invited(desk)
    text = form.format(code.lower() if form == "{}" else code.replace("-", ""))
    await desk.pairing.request_code(knocking(text=text))
    entry = desk.entries()[INVITED]
    assert (entry["name"], entry["roles"], entry["groups"]) == ("Cem", ["child"], False)
    assert [(sent.address.chat, sent.text[:16]) for sent in desk.sent] == [
        (str(CARL), "You now have acc"), (str(BOSS), "Cem (telegram:77"),
    ]  # fmt: skip
    await desk.pairing.request_code(knocking(DORA, text=text))
    assert f"telegram:{DORA}" not in desk.entries() and len(desk.sent) == 2


@pytest.mark.promise("P-strangers-ignored")
async def test_of_several_who_send_an_invitation_at_once_one_is_let_in(tmp_path: Path) -> None:
    desk = Desk(tmp_path, enabled=False)
    code, here = await invited(desk), desk.pairing
    desk.begin()  # another process on the same store
    await asyncio.gather(here.request_code(knocking(text=code)), desk.pairing.request_code(knocking(DORA, text=code)))
    assert len(desk.entries()) == 2, "the admin and one other"


@pytest.mark.promise("P-strangers-ignored")
async def test_an_invitation_is_over_after_a_week_and_can_be_revoked(tmp_path: Path) -> None:
    desk = Desk(tmp_path, enabled=False)
    late, revoked = await invited(desk), await invited(desk, "guest", "Gus")
    listed = await carry_out(desk, "waiting", "", desk.clock.now())
    assert f"{late}  Cem, invited as child, 7 days left" in listed and "Gus, invited as guest" in listed
    await carry_out(desk, "revoke", revoked, desk.clock.now())
    with pytest.raises(ConfigError, match="no such invitation"):
        await carry_out(desk, "revoke", revoked, desk.clock.now())
    desk.clock.advance(SECONDS)
    for code in (late, revoked):
        await desk.pairing.request_code(knocking(text=code))
    assert INVITED not in desk.entries() and desk.sent == []


@pytest.mark.promise("P-strangers-ignored")
@pytest.mark.parametrize("words", ["owner Eve", "king Eve", "child", "child  "])
async def test_an_invitation_makes_no_admin_and_names_a_person(desk: Desk, words: str) -> None:
    with pytest.raises(ConfigError):
        await carry_out(desk, "invite", words, desk.clock.now())


@pytest.mark.promise("P-strangers-ignored")
async def test_invitations_cannot_be_tried_out_not_even_over_restarts(tmp_path: Path) -> None:
    desk = Desk(tmp_path, enabled=False)
    code = await invited(desk)
    for number in range(TRIES):
        desk.begin()
        await desk.pairing.request_code(knocking(text=f"AAAA-AAA{number + 2}"))
    desk.begin()
    await desk.pairing.request_code(knocking(text=code))
    assert INVITED not in desk.entries() and desk.sent == []
    await desk.pairing.request_code(knocking(DORA, text=code))
    assert f"telegram:{DORA}" in desk.entries(), "each stranger's tries are their own"


@pytest.mark.promise("P-strangers-ignored")
async def test_an_invitation_in_a_group_or_a_forward_is_not_used(tmp_path: Path) -> None:
    desk = Desk(tmp_path, enabled=False)
    code = await invited(desk)
    group: dict[str, Any] = {"session": "telegram:-100", "address": Address("telegram", "-100")}
    await desk.pairing.request_code(knocking(text=code, **group))
    await desk.pairing.request_code(knocking(text=code, forwarded=True))
    assert INVITED not in desk.entries()


@pytest.mark.promise("P-strangers-ignored")
async def test_an_invitation_stays_good_while_the_users_file_is_broken(tmp_path: Path) -> None:
    desk = Desk(tmp_path, enabled=False)
    code, before = await invited(desk), desk.path.read_text()
    desk.path.write_text("{")
    await desk.pairing.request_code(knocking(text=code))
    desk.path.write_text(before)
    await desk.pairing.request_code(knocking(text=code))
    assert INVITED in desk.entries()


@pytest.mark.promise("P-strangers-ignored")
async def test_over_telegram_a_button_changes_the_preset_for_an_admin_alone(tmp_path: Path) -> None:
    async with daemon(tmp_path, tell_admins=True) as (telegram, users):
        world = telegram.world
        world.meet(BOSS)
        await world.say("hello?", user=CARL, name="Carl")
        code = (await said_to(telegram, CARL, 1)).rpartition(" ")[2]
        assert (await said_to(telegram, BOSS, 1)).startswith("Somebody I do not know wrote to me")
        await world.say(f"/pair approve {code}", user=BOSS)
        assert "as guest: conversation only" in await said_to(telegram, BOSS, 2)
        message = telegram.sent(BOSS)[-1]
        buttons = [each for row in message.keyboard for each in row]
        assert [each["text"] for each in buttons] == ["adult", "child", "guest"]

        def role() -> list[str]:
            found: list[str] = json.loads(users.read_text())["users"][f"telegram:{CARL}"]["roles"]
            return found

        for user, count in ((6, 1), (CARL, 3)):
            await world.say("/whoami", user=user)
            await said_to(telegram, user, count)
            await world.press(user, telegram.sent(user)[-1].message_id, buttons[1]["callback_data"], user=user)
        await eventually(lambda: len(telegram.called("answerCallbackQuery")) == 2)
        assert role() == ["guest"]
        await world.press(BOSS, message.message_id, buttons[1]["callback_data"], user=BOSS)
        await eventually(lambda: role() == ["child"])
