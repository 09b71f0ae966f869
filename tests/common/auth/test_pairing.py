"""Strangers who ask to be let in: a code for one account, used once, within an hour, by an admin; and no group."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.invitations import SECONDS, carry_out
from goclaw.common.auth.pairing import (
    CODE_SECONDS,
    DENIED_SECONDS,
    REMIND_SECONDS,
    TRIES,
    Pairing,
    PairingRefused,
    format_request,
)
from goclaw.common.auth.users import Users
from goclaw.common.config.schema import Config, PairingSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.files import lock_folder
from goclaw.errors import ConfigError
from goclaw.program.app import open_app
from tests.acceptance.waiting import eventually
from tests.channels.telegram.support import UNHURRIED
from tests.fake_telegram.server import FakeTelegram

BOSS, CARL, DORA = 5, 77, 78
ADMIN = Actor(f"telegram:{BOSS}", "telegram")


def knocking(user: int = CARL, text: str = "hi", *, number: int = 1, name: str = "Carl", **more: Any) -> Inbound:
    """What a stranger writes in private."""
    key = f"telegram:{user}"
    fields: dict[str, Any] = {
        "id": f"telegram:{user}:{number}",
        "actor": Actor(key, "telegram", name=name),
        "session": key,
        "text": text,
        "address": Address("telegram", str(user)),
        "received_at": 0.0,
    }
    return Inbound(**(fields | more))


class Desk:
    """Pairing on a real users.json, with what survives a restart."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "users.json"
        self.path.write_text(json.dumps({"users": {ADMIN.key: {"roles": ["admin"]}}}))
        self.path.chmod(0o600)
        pairing = {"enabled": True, "tell_admins": False, **settings}
        self.config = Config.model_validate({"state_dir": folder, "pairing": pairing})
        self.clock = SteppedClock()
        self.stored: dict[str, Any] = {}
        self.sent: list[Delivery] = []
        self.audited: list[AuditEntry] = []
        self.begin()

    def begin(self) -> None:
        """The daemon starts."""
        self.users = Users.read(self.path)
        self.pairing = Pairing(
            self.config,
            users=self.users,
            writer=lock_folder,
            clock=self.clock,
            audit=self.audited.append,
            promise=self._promise,
            facts=self,
        )

    async def _promise(self, delivery: Delivery) -> bool:
        self.sent.append(delivery)
        return True

    async def fact(self, name: str) -> Any:
        return json.loads(self.stored[name]) if name in self.stored else None

    async def learn(self, name: str, value: Any) -> None:
        await asyncio.sleep(0)
        self.stored[name] = json.dumps(value)

    async def facts(self, name: str) -> dict[str, Any]:
        found = sorted(each for each in self.stored if each == name or each.startswith(f"{name}:"))
        return {each[len(name) + 1 :]: json.loads(self.stored[each]) for each in found}

    async def learn_new(self, name: str, value: Any) -> bool:
        is_new = name not in self.stored
        await self.learn(name, json.loads(self.stored[name]) if not is_new else value)
        return is_new

    async def unlearn(self, name: str) -> bool:
        await asyncio.sleep(0)
        return self.stored.pop(name, None) is not None

    async def code(self, user: int = CARL) -> str:
        """The code that somebody is told."""
        await self.pairing.request_code(knocking(user))
        return self.sent[-1].text.rpartition(" ")[2]

    def entries(self) -> dict[str, Any]:
        return dict(json.loads(self.path.read_text())["users"])


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


@asynccontextmanager
async def daemon(folder: Path, **pairing: Any) -> AsyncIterator[tuple[FakeTelegram, Path]]:
    """The whole daemon on a fake Telegram, where Ann is an admin and Eve a user."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    users = state / "users.json"
    users.write_text(json.dumps({"users": {ADMIN.key: {"roles": ["admin"]}, "telegram:6": {}}}))
    script = folder / "script.json"
    script.write_text(json.dumps({"answers": [], "rest": {"text": "The agent speaks."}}))
    async with FakeTelegram() as telegram, asyncio.timeout(30):
        config = {
            "state_dir": state,
            "models": {"agent": [f"scripted:{script}"], "summary": []},
            "telegram": UNHURRIED
            | {"token": telegram.token, "base_url": telegram.base_url, "poll_seconds": 5, "groups": [-100]},
            "pairing": {"enabled": True, "tell_admins": False} | pairing,
        }
        async with open_app(Config.model_validate(config)):
            yield telegram, users


async def said_to(telegram: FakeTelegram, chat: int, count: int) -> str:
    return (await telegram.wait_sent(chat, count))[count - 1].text


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

        for user in (6, CARL):
            await world.press(BOSS, message.message_id, buttons[1]["callback_data"], user=user)
        await world.say("/whoami", user=CARL)
        await said_to(telegram, CARL, 3)
        assert role() == ["guest"]
        await world.press(BOSS, message.message_id, buttons[1]["callback_data"], user=BOSS)
        await eventually(lambda: role() == ["child"])


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
