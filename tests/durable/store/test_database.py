"""The grouped writer: whole transactions, or nothing."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import bindparam, select

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.supervise import FIRST_PAUSE, background
from goclaw.durable.store.database import RESULTS_AT_ONCE, ConstraintViolated, Database, Statement, insert_into
from goclaw.durable.store.open import open_database
from goclaw.durable.store.schema import sessions
from goclaw.errors import DiskError, DiskFault

ADD = insert_into(sessions, "key", "created_at", "context_start")
ALL = Statement(select(sessions.c.key).order_by(sessions.c.key))
ONE = Statement(select(sessions.c.key).where(sessions.c.key == bindparam("key")))


async def keys(database: Database) -> list[str]:
    return [row["key"] for row in await database.read(ALL())]


async def test_what_was_written_is_read_back(database: Database) -> None:
    await database.write(ADD(key="a", created_at=1.0, context_start=0))
    assert await keys(database) == ["a"]
    assert len(await database.read(ONE(key="a"))) == 1


async def test_a_transaction_that_fails_leaves_nothing_behind(database: Database) -> None:
    with pytest.raises(ConstraintViolated):
        await database.write(
            ADD(key="a", created_at=1.0, context_start=0),
            ADD(key="a", created_at=1.0, context_start=0),
        )
    assert await keys(database) == []


async def test_a_failing_transaction_does_not_take_its_group_along(database: Database) -> None:
    writes = [database.write(ADD(key=key, created_at=1.0, context_start=0)) for key in ("a", "b", "a", "c")]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(outcome, ConstraintViolated) for outcome in outcomes] == [False, False, True, False]
    assert await keys(database) == ["a", "b", "c"]


async def test_text_that_is_not_unicode_fails_alone(database: Database) -> None:
    with pytest.raises(UnicodeEncodeError):
        await database.write(ADD(key="\ud800", created_at=1.0, context_start=0))
    await database.write(ADD(key="b", created_at=1.0, context_start=0))
    assert await keys(database) == ["b"]


async def test_few_writers_of_a_group_go_on_in_one_round_of_the_loop(database: Database) -> None:
    rounds, went_on = 0, []

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    async def write(number: int) -> None:
        await database.write(ADD(key=f"{number:03}", created_at=1.0, context_start=0))
        went_on.append((rounds, number))

    async with background(count(), "rounds"):
        await asyncio.gather(*map(write, range(100)))
    assert [number for _, number in went_on] == list(range(100))
    assert max(Counter(at for at, _ in went_on).values()) <= RESULTS_AT_ONCE


async def test_a_thousand_writes_at_once_all_arrive_in_order(database: Database) -> None:
    insert = insert_into(sessions, "key", "created_at", "context_start")
    results = await asyncio.gather(
        *(
            database.write(insert(key=f"{n:04}", created_at=1.0, context_start=0), durable=n % 7 == 0)
            for n in range(1000)
        )
    )
    assert [result[0].lastrowid for result in results] == sorted(result[0].lastrowid for result in results)
    assert len(await keys(database)) == 1000


async def test_a_misspelt_parameter_is_refused_before_it_becomes_null(database: Database) -> None:
    with pytest.raises(TypeError, match="no parameter kee"):
        ADD(kee="a")


async def test_everything_handed_in_is_committed_before_the_file_closes(tmp_path: Path) -> None:
    async with open_database(tmp_path / "a.db") as database:
        pending = asyncio.ensure_future(database.write(ADD(key="late", created_at=1.0, context_start=0)))
        await asyncio.sleep(0)
    await pending
    async with open_database(tmp_path / "a.db") as database:
        assert await keys(database) == ["late"]


@pytest.mark.sqlite("the mode of the file")
async def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    async with open_database(tmp_path / "a.db"):
        assert (tmp_path / "a.db").stat().st_mode & 0o777 == 0o600


async def test_a_writer_that_meets_the_unexpected_goes_on(tmp_path: Path) -> None:
    def broken(trouble: DiskError | None) -> None:
        raise RuntimeError("the watcher has a fault")

    clock = SteppedClock()
    async with open_database(tmp_path / "goclaw.db", clock) as database, asyncio.timeout(10):
        database.on_trouble(broken)
        database.trouble = DiskError("full", DiskFault.FULL)  # so that its end is told
        await database.write(ADD(key="a", created_at=1.0, context_start=0))
        while not clock.sleepers:  # noqa: ASYNC110  # a clock has no event for it
            await asyncio.sleep(0)
        clock.advance(FIRST_PAUSE)
        await database.write(ADD(key="b", created_at=1.0, context_start=0))
        assert await keys(database) == ["a", "b"]
