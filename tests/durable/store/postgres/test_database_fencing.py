"""Two processes on one schema: what the one before writes for a session is refused once another has taken it over."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.common.core.fencing import AUTHORITY, Authority, Fence, under_fence
from goclaw.durable.engine.journal import Journal
from goclaw.durable.store.postgres import connecting
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.errors import DiskError, OwnershipLost
from tests.acceptance.waiting import eventually
from tests.durable.engine.house import inbound
from tests.parts import sql
from tests.postgres import Server

ADD = "INSERT INTO steps (turn, name, state) VALUES (:k, 'x', 'done')"


@asynccontextmanager
async def shared(place: PostgresPlace, count: int = 2) -> AsyncIterator[list[PostgresDatabase]]:
    """So many processes' clients of one schema."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_schema(place, RealClock())) for _ in range(count)]


async def stored(found: PostgresDatabase) -> list[str]:
    return [row[0] for row in await found.read(sql("SELECT turn FROM steps ORDER BY turn"))]


async def test_what_the_owner_before_writes_is_refused_and_what_others_write_is_kept(place: PostgresPlace) -> None:
    async with shared(place) as (before, after):
        with under_fence(await before.acquire("s")):
            await before.write(sql(ADD, k="first"))
            fence = await after.acquire("s")
            outcomes = await asyncio.gather(
                before.write(sql(ADD, k="late")), before.write(sql(ADD, k="later")), return_exceptions=True
            )
        assert [type(outcome) for outcome in outcomes] == [OwnershipLost, OwnershipLost]
        await before.write(sql(ADD, k="of no session"))
        with under_fence(fence):
            await after.write(sql(ADD, k="second"))
        assert await stored(after) == ["first", "of no session", "second"]
        assert before.trouble is None, "nothing is wrong with the store"


async def test_a_session_lost_in_a_group_undoes_only_its_own_transactions(place: PostgresPlace) -> None:
    async with shared(place) as (before, after):
        lost, kept = await before.acquire("lost"), await before.acquire("kept")
        await after.acquire("lost")
        writes = list[Awaitable[object]]()
        for fence in (lost, kept, None, lost):
            with under_fence(fence):
                writes.append(before.write(sql(ADD, k=f"{len(writes)}")))
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [isinstance(outcome, OwnershipLost) for outcome in outcomes] == [True, False, False, True]
        assert await stored(after) == ["1", "2"]


async def test_without_the_fence_both_would_write(place: PostgresPlace) -> None:
    """The negative control: the same as above, but the one before says nothing of its epoch."""
    async with shared(place) as (before, after):
        with under_fence(await before.acquire("s")):
            fence = await after.acquire("s")
            AUTHORITY.set(Authority())
            await before.write(sql(ADD, k="by the one before"))
        with under_fence(fence):
            await after.write(sql(ADD, k="by the one after"))
        assert await stored(after) == ["by the one after", "by the one before"]


async def test_who_takes_over_waits_for_the_transaction_that_is_open_and_sees_it(
    place: PostgresPlace, server: Server
) -> None:
    async with shared(place, 1) as (after,):
        fence = await after.acquire("s")
        other = await psycopg.AsyncConnection.connect(server.url, options=f"-csearch_path={place.schema}")
        async with other:
            await other.execute("SELECT check_epoch(%s, %s)", (fence.session, fence.epoch))
            await other.execute("INSERT INTO steps (turn, name, state) VALUES ('open', 'x', 'done')")
            taking = asyncio.create_task(after.acquire("s"))
            await waits_for_a_lock(server, taking)
            assert await stored(after) == []
            await other.commit()
            assert (await taking).epoch > fence.epoch
            assert await stored(after) == ["open"]


async def waits_for_a_lock(server: Server, work: asyncio.Task[Fence]) -> None:
    """Wait until Postgres says that a query waits for a lock."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%take_session%'"

        def is_there() -> bool:
            assert not work.done()
            return connection.execute(waiting).fetchone() != (0,)

        await eventually(is_there)


async def test_a_process_that_stops_between_its_statements_and_its_commit_holds_up_no_other(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction is ended by Postgres; when it goes on it is told, and nothing of it is kept."""
    reached, gate = asyncio.Event(), asyncio.Event()

    class Pausing(psycopg.AsyncConnection[connecting.PostgresRow]):
        """Waits before one COMMIT."""

        pauses = False

        async def execute(self, query: object, *arguments: object, **options: object) -> object:  # type: ignore[override]  # as the driver calls it
            if query == "COMMIT" and Pausing.pauses:
                Pausing.pauses = False
                reached.set()
                await gate.wait()
            return await super().execute(query, *arguments, **options)  # type: ignore[call-overload]  # as the driver calls it

    monkeypatch.setattr(connecting, "AsyncConnection", Pausing)
    async with shared(place) as (before, after):
        with under_fence(await before.acquire("s")):
            Pausing.pauses = True
            writing = before.write(sql(ADD, k="paused"))
        await reached.wait()
        try:
            async with asyncio.timeout(10):
                fence = await after.acquire("s")
            with under_fence(fence):
                await after.write(sql(ADD, k="after"))
        finally:
            gate.set()
        with pytest.raises(OwnershipLost):
            await writing
        assert await stored(after) == ["after"]


async def test_tasks_that_begin_under_a_fence_write_under_it(place: PostgresPlace) -> None:
    async def work() -> None:
        await before.write(sql(ADD, k="late"))

    async with shared(place) as (before, after):
        with under_fence(await before.acquire("s")):
            await after.acquire("s")
            working = asyncio.create_task(work())
        with pytest.raises(OwnershipLost):
            await working


async def test_a_journal_under_an_old_epoch_records_nothing(place: PostgresPlace) -> None:
    async with shared(place) as (before, after):
        with under_fence(await before.acquire("s")):
            journal = Journal(before)
            assert await journal.submit(inbound(1), "message")
            await after.acquire("s")
            for writing in (
                journal.record_intent("m1", "tool:1:a"),
                journal.record_question("m1", "ask", "?"),
                journal.mark_stopping("m1"),
                journal.end("m1", 1.0),
                journal.steps_by_now("m1"),
            ):
                with pytest.raises(OwnershipLost):
                    await writing
        assert [row["state"] for row in await after.read(sql("SELECT state FROM inbox"))] == ["new"]


async def test_an_epoch_is_never_given_twice_not_even_after_the_session_was_forgotten(place: PostgresPlace) -> None:
    async with shared(place) as (one, two):
        first = await one.acquire("s")
        await one.write(sql("DELETE FROM session_owners"))
        assert (await two.acquire("s")).epoch > first.epoch
        with under_fence(first), pytest.raises(OwnershipLost):
            await one.write(sql(ADD, k="late"))


async def test_while_postgres_is_away_a_session_cannot_be_taken(place: PostgresPlace, server: Server) -> None:
    async with shared(place, 1) as (one,):
        await one.acquire("s")
        with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as other:
            other.execute("LOCK TABLE session_owners")
            with pytest.raises(DiskError, match="cannot be written"):
                await one.acquire("s")
