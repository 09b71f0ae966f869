"""A step that is held in memory is recorded with the turn's end, or before anything else of its turn."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Delivery
from goclaw.durable.engine.base import Step, Turn
from goclaw.durable.engine.journal import Journal
from goclaw.durable.store.database import BoundStatement, Database
from tests.durable.engine.house import House, Slow, inbound
from tests.durable.engine.test_journal import COUNT_MESSAGES, COUNT_STEPS, Work, count, reopened
from tests.durable.engine.test_lanes_disk import Disk, until

TEXT: Codec[str] = Codec(str)


def last(_: str) -> bool:
    """The turn ends with this step."""
    return True


@dataclass
class Noted:
    """What a turn was told of its step."""

    steps: list[Step[str]] = field(default_factory=list)

    def kept(self, step: Step[str]) -> None:
        self.steps.append(step)

    @property
    def held(self) -> list[bool]:
        return [step.held for step in self.steps]


@dataclass
class Commits:
    """Counts the commits of a database."""

    database: Database
    number: int = 0

    def begin(self) -> None:
        def written() -> None:
            self.number += 1

        self.database.written = written


async def test_a_held_step_is_not_on_the_disk_and_a_crash_does_it_again(database: Database) -> None:
    journal, work, noted = Journal(database), Work(), Noted()
    await journal.submit(inbound(1), "message")
    turn = journal.new_turn(inbound(1), "message")
    step = await turn.step("model:1", work.run, TEXT, rows=work.rows, kept=noted.kept, hold=last)
    assert (step.value, step.rows, step.held, noted.held) == ("outcome", (), True, [True])
    assert (await count(database, COUNT_MESSAGES), await count(database, COUNT_STEPS)) == (0, 0)
    again = await reopened(journal)
    await again.step("model:1", work.run, TEXT, rows=work.rows)
    assert (work.times, await count(database, COUNT_MESSAGES)) == (2, 1)


async def test_the_next_step_begins_when_the_held_one_is_recorded(database: Database) -> None:
    journal, work, noted = Journal(database), Work(), Noted()
    turn = journal.new_turn(inbound(1), "message")
    await turn.step("model:1", work.run, TEXT, rows=work.rows, kept=noted.kept, hold=last)

    async def look() -> str:
        return str(await count(database, COUNT_MESSAGES))

    assert (await turn.step("tell", look, TEXT)).value == "1"
    assert noted.held == [True, False] and len(noted.steps[1].rows) == 1
    await turn.flush()
    assert await count(database, COUNT_MESSAGES) == 1


def ending(
    work: Work, noted: Noted, told: list[str], before: Callable[[], Awaitable[None]]
) -> Callable[[Turn], Awaitable[str]]:
    """A handler that ends its turn itself, and says so then."""

    async def act(turn: Turn) -> str:
        said = (await turn.step("model:1", work.run, TEXT, rows=work.rows, kept=noted.kept, hold=last)).value
        await before()
        await turn.end([Delivery(f"{turn.id}:deliver:1", turn.inbound.address, said)])
        told.append(f"ended after {len(noted.steps)}")
        return "not delivered"

    return act


async def nothing() -> None:
    """Do nothing before the end."""


async def test_the_held_step_the_end_and_the_delivery_are_one_transaction(tmp_path: Path) -> None:
    work, noted, told, seen = Work(), Noted(), list[str](), list[Commits]()

    def around(database: Database) -> Database:
        seen.append(Commits(database))
        return database

    async def begin() -> None:
        seen[0].begin()

    house = House(tmp_path, ending(work, noted, told, begin), around)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.idle()
        assert told == ["ended after 2"], "the handler goes on when its end is recorded"
        assert lanes.running("s") is None
        [row] = await seen[0].database.read(COUNT_MESSAGES())
        assert row[0] == 1
    assert house.texts() == ["outcome"], "what it returns is not delivered besides"
    assert seen[0].number == 2 + 1, "the end with all of it, the receipt, and what is empty at the close"


async def test_an_end_that_the_disk_refuses_is_tried_again_and_the_turn_is_not(tmp_path: Path) -> None:
    work, noted, told, disk = Work(), Noted(), list[str](), Disk()

    async def fill() -> None:
        disk.now.full = True

    house = House(tmp_path, ending(work, noted, told, fill), disk.around)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await until(house, lambda: disk.now.refused >= 3)
        assert (told, noted.held, lanes.running("s")) == ([], [True], "m1")
        disk.now.full = False
        await until(house, lambda: not lanes.busy())
    assert (work.times, told, house.texts()) == (1, ["ended after 2"], ["outcome"])


async def test_a_stop_comes_too_late_for_an_end_that_is_being_recorded(tmp_path: Path) -> None:
    work, noted, told, disks = Work("late"), Noted(), list[str](), list[Slow]()

    def around(database: Database) -> Database:
        disks.append(Slow(database, "done"))
        return disks[0]

    house = House(tmp_path, ending(work, noted, told, nothing), around)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await disks[0].reached.wait()
        stopping = asyncio.ensure_future(lanes.cancel("s"))
        await asyncio.sleep(0)
        disks[0].gate.set()
        assert not await stopping, "nothing was stopped"
    assert (told, house.texts(), house.stopped) == (["ended after 2"], ["late"], [])


async def test_what_fails_behind_the_end_changes_no_answer(tmp_path: Path) -> None:
    async def act(turn: Turn) -> str:
        await turn.end([Delivery(f"{turn.id}:deliver:1", turn.inbound.address, "answer")])
        raise RuntimeError("nobody expected that")

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.idle()
    assert house.texts() == ["answer"]


async def test_a_row_is_held_once(database: Database) -> None:
    """The end writes what is held; a second end of the same turn finds nothing more."""
    journal, work = Journal(database), Work()
    turn = journal.new_turn(inbound(1), "message")
    await turn.step("model:1", work.run, TEXT, rows=work.rows, hold=last)
    ended = list[BoundStatement]()
    for _ in range(2):
        await turn.record_end(1.0, ended, lambda: None, durable=False)
    assert await count(database, COUNT_MESSAGES) == 1
