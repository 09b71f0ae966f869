"""Two daemons on one schema of Postgres: what one has begun when it is killed, the other one finishes."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.daemon import Installation, replicas_on
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.postgres import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ANN, BOB = 5, 6
STALL_SECONDS = 4.0
WAIT_SECONDS = 60.0


@pytest.fixture
async def replicas(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> AsyncIterator[list[Installation]]:
    """Two installations with a state folder each and one workspace; no daemon runs yet."""
    users = {f"telegram:{ANN}": {"name": "Ann"}, f"telegram:{BOB}": {"name": "Bob"}}
    async with replicas_on(server.url, folder, telegram, model.url, ("one", "two"), users) as made:
        yield made


def rows(server: Server, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url, options="-csearch_path=goclaw", autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def answers(telegram: FakeTelegram, person: int = ANN) -> list[str]:
    return [sent.text for sent in telegram.sent(person) if "(end)" in sent.text]


def named(telegram: FakeTelegram, name: str, person: int = ANN) -> list[str]:
    return [said for said in answers(telegram, person) if name in said]


def owner_of(server: Server, replicas: list[Installation]) -> Installation | None:
    """The installation whose daemon had Ann's conversation last; None: that daemon has ended."""
    owners = "SELECT r.address FROM session_owners o JOIN replicas r ON r.id = o.replica WHERE o.session = 'telegram:5'"
    for (address,) in rows(server, owners):
        found = re.search(r" pid (\d+) ", str(address))
        assert found is not None, address
        return next((home for home in replicas if home.process and home.process.pid == int(found[1])), None)
    return None


@pytest.mark.promise("P-answered-once")
async def test_what_one_has_begun_when_it_is_killed_the_other_one_finishes(
    replicas: list[Installation], telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    for home in replicas:
        await home.start()
    gate = model.gate("m1 ", streamed=0)
    await telegram.world.say("m1 exec", user=ANN)
    async with asyncio.timeout(WAIT_SECONDS):
        await gate.reached.wait()
    owner = owner_of(server, replicas)
    assert owner is not None
    await telegram.world.say("m2 plain", user=ANN)
    await telegram.world.say("m3 plain", user=BOB)
    await owner.kill()
    killed = clock.monotonic()
    gate.opened.set()
    await eventually(lambda: named(telegram, "m2") and named(telegram, "m3", BOB), WAIT_SECONDS)
    assert clock.monotonic() - killed < STALL_SECONDS + 20
    assert [bool(named(telegram, name)) for name in ("m1", "m2")] == [True, True]
    assert len(answers(telegram)) == 2 and len(answers(telegram, BOB)) == 1, telegram.sent(ANN)
    effects = (replicas[0].folder.parent / "work" / "effects.log").read_text().split()
    assert effects == ["m1"], "a command that was not begun runs once"
    await owner.start()
    await telegram.world.say("m4 plain", user=ANN)
    await eventually(lambda: named(telegram, "m4"), WAIT_SECONDS)
    doubled = "SELECT turn, step FROM messages WHERE role <> 'tool_use' GROUP BY turn, step HAVING count(*) > 1"
    assert rows(server, doubled) == []
    assert rows(server, "SELECT count(*) FROM inbox WHERE state <> 'done'") == [(0,)]
    for home in replicas:
        assert await home.stop() == 0
    assert Counter(answers(telegram)) == Counter(set(answers(telegram)))


async def test_a_daemon_that_is_told_to_end_hands_its_conversations_over_at_once(
    replicas: list[Installation], telegram: FakeTelegram, server: Server
) -> None:
    for home in replicas:
        home.config["replica"] = {"stall_seconds": WAIT_SECONDS}  # so long the end of one that is killed goes unnoticed
        home.write_config()
        await home.start()
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(lambda: named(telegram, "m1"), WAIT_SECONDS)
    owner = owner_of(server, replicas)
    assert owner is not None
    [other] = [home for home in replicas if home is not owner]
    assert await owner.stop() == 0
    await eventually(lambda: owner_of(server, replicas) is other)
    await telegram.world.say("m2 plain", user=ANN)
    await eventually(lambda: named(telegram, "m2"), WAIT_SECONDS)
    assert len(answers(telegram)) == 2
    assert await other.stop() == 0


@pytest.mark.promise("P-one-daemon")
@pytest.mark.long
async def test_what_needs_the_store_for_itself_is_refused_while_a_daemon_runs_anywhere(
    replicas: list[Installation], telegram: FakeTelegram
) -> None:
    running, ended = replicas
    await running.start(telegram)
    assert running.process is not None
    remedies = {
        ("send", "hello"): "`goclaw start` starts one here",
        ("store", "copy", "--to", "sqlite"): "stop each with `",
    }
    for command, remedy in remedies.items():
        done = await ended.run(*command, seconds=60)
        assert done.code != 0
        assert f" pid {running.process.pid} on " in done.err and remedy in done.err
        assert (command[0] == "send") is ("no gateway is running here, but others use the same database" in done.err)
    assert await running.stop() == 0
