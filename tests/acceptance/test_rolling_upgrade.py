"""Replicas are replaced one by one by those of a version with one more step of the schema, while people talk."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from goclaw import __version__
from goclaw.durable.store.postgres.schema import NEWEST
from tests.acceptance.daemon import Installation, replicas_on
from tests.acceptance.ledger import Outcome, close_chat
from tests.acceptance.model import EFFECTS, UNKNOWN, EchoModel
from tests.acceptance.next_version import VERSION
from tests.acceptance.people import Chat, Habits, People, ended
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.postgres import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.sqlite("starts a Postgres of its own, in every run"),
]

HELD = 21
"""The person whose answer is held while the schema is brought up to date."""
TALKERS = (11, 12, 13)
KINDS = ("plain", "exec", "plain", "both")
WAIT_SECONDS = 60.0
ROUND_SECONDS = 0.2
NEXT = "tests.acceptance.next_version"


@pytest.fixture
async def homes(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> AsyncIterator[list[Installation]]:
    """Places for four daemons with one workspace; the last two are of the next version."""
    users = {f"telegram:{person}": dict[str, str]() for person in (*TALKERS, HELD)}
    names = ("old-1", "old-2", "new-1", "new-2")
    async with replicas_on(server.url, folder, telegram, model.url, names, users) as made:
        for home in made:
            # None dies here, and one that a busy machine holds up is not to be taken for dead.
            home.config["replica"] = {"stall_seconds": WAIT_SECONDS}
            home.write_config()
        for home in made[2:]:
            home.module = NEXT
        yield made


def rows(server: Server, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url, options="-csearch_path=goclaw", autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def schema_version(server: Server) -> int:
    [(value,)] = rows(server, "SELECT value FROM daemon_facts WHERE name = 'schema_version'")
    return int(str(value))


def owner_of(server: Server, person: int) -> int:
    """The process that took a person's conversation last."""
    query = "SELECT r.address FROM session_owners o JOIN replicas r ON r.id = o.replica WHERE o.session = 'telegram:{}'"
    for (address,) in rows(server, query.format(person)):
        found = re.search(r" pid (\d+) ", str(address))
        assert found is not None, address
        return int(found[1])
    return 0


@asynccontextmanager
async def talking(telegram: FakeTelegram) -> AsyncIterator[People]:
    """People who go on and on while the block lasts, a few messages ahead of their answers."""
    people = People(telegram, "rolling")
    people.chats = {number: Chat(number, Habits((number,), KINDS, waiting=2)) for number in TALKERS}

    async def talk() -> None:
        for round_ in range(10_000):
            await people.talk(round_)
            await clock.sleep(ROUND_SECONDS)

    talk_on = asyncio.create_task(talk(), name="people")
    try:
        yield people
    finally:
        await ended(talk_on)


async def hear_more(people: People, messages: int = 2) -> None:
    """Wait until every chat has had so many answers more."""
    before = {number: len(people.answered(chat)) for number, chat in people.chats.items()}
    await eventually(
        lambda: all(len(people.answered(chat)) >= before[number] + messages for number, chat in people.chats.items()),
        WAIT_SECONDS,
    )


def check_books(people: People, server: Server, homes: Sequence[Installation], work: Path) -> None:
    """Nothing is lost, doubled, out of order or left; nothing has failed unexpectedly."""
    found = Outcome()
    for chat in people.chats.values():
        close_chat(found, chat, people.seen(chat))
    assert found.faults == [], found.evidence
    assert found.answered_once == found.messages > 20, "each message was answered, and none was delivered again"
    effects = Counter((work / EFFECTS).read_text().split())
    assert set(effects.values()) == {1}, effects
    asked = {name for chat in people.chats.values() for name, kind in chat.said if kind in ("exec", "both")}
    unknown = sum(sent.text.count(UNKNOWN) for number in TALKERS for sent in people.telegram.sent(number))
    assert len(asked - set(effects)) <= unknown, "a command that did not run is said to have run"
    doubled = "SELECT turn, step FROM messages WHERE role = 'user' GROUP BY turn, step HAVING count(*) > 1"
    assert rows(server, doubled) == []
    assert rows(server, "SELECT id FROM inbox WHERE state <> 'done'") == []
    assert rows(server, "SELECT id FROM deliveries WHERE state <> 'sent'") == []
    for home in homes:
        logs = [path.read_text() for path in (home.state / "logs").glob("goclaw.log*")]
        assert not any("failed unexpectedly" in log for log in logs), home.folder


@pytest.mark.long
@pytest.mark.promise("P-rolling-upgrade")
async def test_replicas_of_the_next_version_take_over_one_by_one_and_nothing_is_lost(
    homes: list[Installation], telegram: FakeTelegram, model: EchoModel, server: Server, folder: Path
) -> None:
    old, new = homes[:2], homes[2:]
    for home in old:
        await home.start()
    async with talking(telegram) as people:
        await hear_more(people)
        gate = model.gate("h1 ", streamed=1)
        await telegram.world.say("h1 exec", user=HELD)
        async with asyncio.timeout(WAIT_SECONDS):
            await gate.reached.wait()
        holder = owner_of(server, HELD)
        assert schema_version(server) == NEWEST

        await new[0].start()  # it brings the schema up to date, under turns that run
        assert schema_version(server) == NEWEST + 1
        await hear_more(people)
        assert all(home.process and home.process.returncode is None for home in old), "an older one has ended"
        gate.opened.set()
        await eventually(lambda: any("h1" in sent.text and "(end)" in sent.text for sent in telegram.sent(HELD)))
        assert owner_of(server, HELD) == holder, "its turn went on where it was"

        assert await old[0].stop() == 0
        await hear_more(people)
        await new[1].start()
        await hear_more(people)
        assert await old[1].stop() == 0
        await hear_more(people)

        refused = await old[0].run("gateway", seconds=60)
        assert refused.code != 0 and "Traceback" not in refused.err
        assert f"has version {NEWEST + 1}, but this GoClaw ({__version__}) knows only up to {NEWEST}" in refused.err
        assert f"GoClaw {VERSION} has migrated it. Install that version here, too" in refused.err
        await hear_more(people)
    await eventually(lambda: not any(people.waiting(chat) for chat in people.chats.values()), WAIT_SECONDS)
    query = "SELECT count(*) FROM inbox WHERE state <> 'done'"
    await eventually(lambda: rows(server, query) == [(0,)], WAIT_SECONDS)
    for home in new:
        assert await home.stop() == 0
    check_books(people, server, homes, folder / "work")
