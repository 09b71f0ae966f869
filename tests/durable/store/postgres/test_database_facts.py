"""Facts of the daemon with two processes on one schema: none overwrites what the other one has learnt."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.pairing import TRIES, Pairing, PairingRefused
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import AlertSettings, Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock, SteppedClock
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.files import lock_folder
from goclaw.common.core.supervise import background
from goclaw.conversation.sessions.forgetting import Codes
from goclaw.durable.engine.outbox import open_outbox
from goclaw.durable.store.database import ConstraintViolated
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.settings import Settings
from goclaw.gateway.intake.alerts import AGAIN_SECONDS, FACT, REMIND_SECONDS, SETTLE_SECONDS, AlertDesk
from tests.acceptance.waiting import clock, eventually

ANN = User("telegram:5", "Ann", frozenset({"admin"}))
ADMIN = Actor("telegram:5", "telegram")
FAULT = "the disk is full"


@pytest.fixture
async def databases(place: PostgresPlace) -> AsyncIterator[list[PostgresDatabase]]:
    """The two processes' clients of one schema."""
    async with open_schema(place, clock) as one, open_schema(place, clock) as two:
        yield [one, two]


async def test_what_one_exchanges_the_other_cannot(databases: list[PostgresDatabase]) -> None:
    one, two = map(Settings, databases)
    await one.learn("alerts:a", [1.0, None])
    for known, is_taken in ((None, False), ([2.0, None], False), ([1.0, None], True)):
        tries = [
            each.commit(*each.exchanging("alerts:a", known, [3.0, number])) for number, each in ((1, one), (2, two))
        ]
        done = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(each is None for each in done) == is_taken
        assert all(each is None or isinstance(each, ConstraintViolated) for each in done)
    assert (await one.facts("alerts")).keys() == {"a"}


async def test_facts_of_a_name_are_found_and_none_of_a_longer_one(databases: list[PostgresDatabase]) -> None:
    one, two = map(Settings, databases)
    await one.learn_all(
        {"pairing:telegram:5": 1, "pairing:telegram:50": 2, "pairing tries:telegram:5:x": 3, "pairing": 4}
    )
    assert await two.facts("pairing") == {"": 4, "telegram:5": 1, "telegram:50": 2}
    assert await two.facts("pairing tries:telegram:5") == {"x": 3}
    assert not await two.learn_new("pairing:telegram:5", 9) and await two.learn_new("pairing:telegram:6", 9)
    assert await one.unlearn("pairing:telegram:6") and not await two.unlearn("pairing:telegram:6")


def pairing(database: PostgresDatabase, folder: Path, sent: list[Delivery], at: Clock) -> Pairing:
    folder.mkdir()
    path = folder / "users.json"
    path.write_text(json.dumps({"users": {ADMIN.key: {"roles": ["admin"]}}}))
    audited: list[AuditEntry] = []

    async def promise(delivery: Delivery) -> bool:
        sent.append(delivery)
        return True

    config = Config.model_validate({"state_dir": folder, "pairing": {"enabled": True, "tell_admins": False}})
    return Pairing(config, Users.read(path), lock_folder, at, audited.append, promise, Settings(database))


def knocking(user: int, number: int = 1) -> Inbound:
    key = f"telegram:{user}"
    actor, address = Actor(key, "telegram", name="Carl"), Address("telegram", str(user))
    return Inbound(f"{key}:{number}", actor, key, "hi", address, received_at=0.0)


@pytest.mark.promise("P-strangers-ignored")
async def test_codes_that_two_processes_gave_are_open_in_both_and_used_once(
    databases: list[PostgresDatabase], tmp_path: Path
) -> None:
    sent, at = list[Delivery](), SteppedClock()
    one, two = (pairing(each, tmp_path / str(number), sent, at) for number, each in enumerate(databases))
    await asyncio.gather(one.request_code(knocking(77)), two.request_code(knocking(78)))
    await asyncio.gather(one.request_code(knocking(77, 2)), two.request_code(knocking(77, 3)))
    assert len(sent) == 2, "who has been sent a code is not sent it again by the other process"
    codes = {asking.key: asking.code for asking in await one.list()}
    assert codes.keys() == {"telegram:77", "telegram:78"} and await two.list() == await one.list()
    await two.approve(ADMIN, codes["telegram:77"])
    with pytest.raises(PairingRefused, match="This code is not open"):
        await one.approve(ADMIN, codes["telegram:77"])
    await one.deny(ADMIN, codes["telegram:78"])
    await two.request_code(knocking(78, 4))
    assert await two.list() == [], "who was denied gets no other code from the other process"


@pytest.mark.promise("P-strangers-ignored")
async def test_wrong_codes_count_in_both_processes_together(databases: list[PostgresDatabase], tmp_path: Path) -> None:
    at = SteppedClock()
    both = [pairing(each, tmp_path / str(number), [], at) for number, each in enumerate(databases)]
    tries = [both[number % 2].approve(ADMIN, f"AAAAAA{number + 20}") for number in range(4 * TRIES)]
    refused = await asyncio.gather(*tries, return_exceptions=True)
    assert sum("This code is not open" in str(each) for each in refused) <= TRIES
    assert all(isinstance(each, PairingRefused) for each in refused)


async def test_a_code_that_confirms_is_taken_by_the_other_process(databases: list[PostgresDatabase]) -> None:
    one, two = (Codes(Settings(each), clock) for each in databases)
    code = await one.issue(ADMIN.key, "s")
    taken = await asyncio.gather(*(each.redeem(ADMIN.key, "s", code) for each in (one, two)))
    assert sorted(taken) == [False, True]


@asynccontextmanager
async def desks(databases: list[PostgresDatabase], room: Room, at: SteppedClock) -> AsyncIterator[list[AlertDesk]]:
    async with AsyncExitStack() as stack:
        made = []
        for database in databases:
            channels = {"telegram": MemoryChannel(room, at)}
            outbox = await stack.enter_async_context(open_outbox(database, channels, at))
            await outbox.resume()
            desk = AlertDesk(AlertSettings(), Users([ANN]), Bus(at), Settings(database), at)
            await stack.enter_async_context(background(desk.run(outbox, channels), "alerts"))
            made.append(desk)
        yield made


async def passes(at: SteppedClock, seconds: float, databases: list[PostgresDatabase]) -> None:
    """Let time go by, such that all see it."""
    while seconds > 0:
        for _ in range(15):
            for database in databases:
                await Settings(database).fact("version")
        step = min(seconds, 60.0)
        at.advance(step)
        seconds -= step


def texts(room: Room) -> list[str]:
    return [heard.delivery.text for heard in room.all]


@pytest.mark.promise("P-alert-once")
async def test_a_fault_that_both_processes_see_is_told_once(databases: list[PostgresDatabase]) -> None:
    room, at = Room(), SteppedClock()
    async with desks(databases, room, at) as both, asyncio.timeout(40):
        for number in range(5):
            for desk in both:
                desk.tell("disk", FAULT)
                desk.tell(f"fault {number}", f"number {number}")
            await passes(at, 180, databases)
        told = "\n".join(texts(room))
        assert told.count(FAULT) == 1 and all(told.count(f"number {number}") == 1 for number in range(5))
        assert len(await Settings(databases[0]).facts(FACT)) == 6


@pytest.mark.promise("P-alert-once")
async def test_a_fault_that_ends_in_one_process_lasts_in_the_other(databases: list[PostgresDatabase]) -> None:
    room, at = Room(), SteppedClock()
    async with desks(databases, room, at) as (one, two), asyncio.timeout(60):
        one.tell("model", FAULT)
        two.tell("model", FAULT)
        await passes(at, 180, databases)
        one.clear("model")
        await passes(at, SETTLE_SECONDS + REMIND_SECONDS + 60, databases)
        assert len(texts(room)) == 1, "the other one has it all the time"
        two.clear("model")
        await passes(at, SETTLE_SECONDS + 120, databases)
        one.tell("model", FAULT)
        await passes(at, 180, databases)
        assert len(texts(room)) == 2, "it was over, and came back"


@pytest.mark.promise("P-alert-once")
async def test_a_process_that_starts_does_not_tell_what_another_one_has_told(
    databases: list[PostgresDatabase],
) -> None:
    room, at = Room(), SteppedClock()
    async with asyncio.timeout(40):
        async with desks(databases[:1], room, at) as [one]:
            one.tell("disk", FAULT)
            await eventually(lambda: len(texts(room)) == 1)
            async with desks(databases[1:], room, at) as [two]:
                two.tell("disk", FAULT)
                await passes(at, 180, databases)
                assert len(texts(room)) == 1
                at.advance(AGAIN_SECONDS)
                await passes(at, REMIND_SECONDS + 120, databases)
                assert len(texts(room)) == 2, "after a day it is told again, once"


async def test_factors_of_tokens_are_kept_for_each_model(databases: list[PostgresDatabase]) -> None:
    one, two = map(Settings, databases)
    await asyncio.gather(one.learn_all({"token_scales:a": 1.2}), two.learn_all({"token_scales:b": 1.4}))
    assert await one.facts("token_scales") == {"a": 1.2, "b": 1.4}
