"""Leases of sessions: one process works on a session that is wanted, and another one when that is gone."""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from goclaw.common.config.policies import ReplicaSettings
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.fencing import AUTHORITY, alongside_owner, under_fence
from goclaw.common.core.supervise import background
from goclaw.durable.engine.journal import Journal
from goclaw.durable.store.ownership import Lease, Work
from goclaw.durable.store.postgres.connecting import connect
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.durable.store.postgres.reservations import PostgresReservations
from goclaw.durable.store.spending import Reservation
from goclaw.errors import OwnershipLost
from tests.acceptance.waiting import PATIENCE, clock, eventually, never
from tests.parts import sql
from tests.postgres import STALL, Server

ADD = "INSERT INTO steps (turn, name, state) VALUES (:k, 'x', 'done')"


class Process:
    """One process's part: its client of the schema, its leases, and what it does under them."""

    def __init__(self, database: PostgresDatabase, ownership: PostgresOwnership) -> None:
        self.database = database
        self.ownership = ownership
        self.done: list[str] = []
        self.leases: dict[str, Lease] = {}
        self.lost: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        """Sessions that are held until the gate is opened."""

    async def want(self, session: str) -> None:
        await self.database.write(self.ownership.wanted(session))

    async def work(self, lease: Lease) -> bool:
        self.leases[lease.session] = lease
        try:
            if gate := self.gates.get(lease.session):
                await gate.wait()
            await self.database.write(sql(ADD, k=f"{lease.session} {lease.fence.epoch}"))
            self.done.append(lease.session)
            return True
        except OwnershipLost:
            self.lost.append(lease.session)
            raise
        finally:
            del self.leases[lease.session]


@asynccontextmanager
async def process(place: PostgresPlace, work: Work | None = None, stall: float = STALL) -> AsyncIterator[Process]:
    """A process that works on sessions for as long as the block lasts."""
    async with open_schema(place, clock) as database:
        made = Process(database, PostgresOwnership(database, clock, stall))
        async with background(made.ownership.run(work or made.work), "a process"):
            yield made


def jobs(server: Server, place: PostgresPlace, query: str = "SELECT lock, status FROM procrastinate_jobs") -> list[str]:
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}", autocommit=True) as connection:
        return [" ".join(map(str, row)) for row in connection.execute(query.encode()).fetchall()]


async def test_every_session_that_is_wanted_is_worked_on_once_by_one_of_the_processes(
    place: PostgresPlace, server: Server
) -> None:
    async with process(place) as one, process(place) as two:
        sessions = [f"s{number}" for number in range(20)]
        await asyncio.gather(*(one.want(session) for session in sessions))
        await eventually(lambda: len(one.done) + len(two.done) == 20)
        await eventually(lambda: jobs(server, place) == [])
        assert Counter(one.done + two.done) == Counter(sessions)


async def test_no_session_is_worked_on_by_two_at_a_time(place: PostgresPlace, server: Server) -> None:
    at_work, most = Counter[str](), Counter[str]()

    async def work(lease: Lease) -> bool:
        at_work[lease.session] += 1
        most[lease.session] = max(most[lease.session], at_work[lease.session])
        await clock.sleep(0.01)
        at_work[lease.session] -= 1
        return True

    async with process(place, work) as one, process(place, work) as two:
        for _ in range(10):
            await asyncio.gather(one.want("s"), two.want("s"), two.want("t"))
        await eventually(lambda: jobs(server, place) == [])
    assert most == {"s": 1, "t": 1}


async def test_its_owner_hears_what_any_process_brings_a_session(place: PostgresPlace) -> None:
    async with process(place) as owner, process(place) as other:
        owner.gates["s"] = asyncio.Event()
        other.ownership.take_no_more()
        await owner.want("s")
        lease = await eventually(lambda: owner.leases.get("s"))
        for bringer in (other, owner):
            lease.news.clear()
            await bringer.want("s")
            async with asyncio.timeout(10):
                await lease.news.wait()
        owner.gates["s"].set()
        # What came while it worked is looked at once more: it may have come behind its last look.
        await eventually(lambda: owner.done == ["s", "s"])


async def test_a_process_that_was_paused_is_sure_of_no_session_before_it_has_seen_what_was_taken_over(
    place: PostgresPlace,
) -> None:
    async with process(place) as owner, process(place) as other:
        other.ownership.take_no_more()
        leases = {}
        for session in ("kept", "taken"):
            owner.gates[session] = asyncio.Event()
            await owner.want(session)
            leases[session] = await eventually(lambda session=session: owner.leases.get(session))  # type: ignore[misc]  # bound at once
            await eventually(lambda session=session: owner.ownership.is_sure_of(session))  # type: ignore[misc]  # bound at once
            assert not other.ownership.is_sure_of(session)
        await other.database.acquire("taken")
        owner.ownership._seen_at -= STALL + 1  # as after a pause
        assert not owner.ownership.is_sure_of("kept") and owner.ownership.fence_of("kept")
        await eventually(lambda: leases["taken"].is_lost)  # at the next heartbeat, without a write of its own
        await eventually(lambda: owner.ownership.is_sure_of("kept"))
        assert not leases["kept"].is_lost and not owner.ownership.is_sure_of("taken")
        for gate in owner.gates.values():
            gate.set()
        await eventually(lambda: (owner.done, owner.lost) == (["kept"], ["taken"]))


async def test_what_an_owner_takes_back_is_not_looked_at_once_more(place: PostgresPlace, server: Server) -> None:
    async with process(place) as owner:
        owner.gates["s"] = asyncio.Event()
        await owner.want("s")
        await eventually(lambda: owner.leases.get("s"))
        await owner.want("s")
        await owner.database.write(owner.ownership.withdrawn("s"))
        owner.gates["s"].set()
        await eventually(lambda: jobs(server, place) == [])
        assert owner.done == ["s"]


async def test_a_session_is_not_taken_before_the_transaction_that_brings_it_work_has_ended(
    place: PostgresPlace, server: Server
) -> None:
    """Though a job of it waits already: its owner would find nothing and let it go."""
    async with open_schema(place, clock) as database:
        await database.write(PostgresOwnership(database, clock).wanted("s"))
    async with await psycopg.AsyncConnection.connect(server.url, options=f"-csearch_path={place.schema}") as bringing:
        await bringing.execute("SELECT want_session('s')")
        async with process(place) as one:
            await one.want("t")
            await eventually(lambda: one.done == ["t"])
            await bringing.commit()
            await eventually(lambda: one.done == ["t", "s"])


async def test_sessions_of_a_dead_process_are_taken_also_where_a_job_of_theirs_waits_already(
    place: PostgresPlace, server: Server
) -> None:
    async with open_schema(place, clock) as database:
        ownership = PostgresOwnership(database, clock)
        await database.write(
            sql("INSERT INTO procrastinate_workers (last_heartbeat) VALUES (clock_timestamp() - interval '1 hour')"),
            ownership.wanted("alone"),
            ownership.wanted("twice"),
            sql("UPDATE procrastinate_jobs SET status = 'doing', worker_id = 1"),
        )
        await database.write(ownership.wanted("twice"))
    assert sorted(jobs(server, place)) == ["alone doing", "twice doing", "twice todo"]
    async with process(place) as one:
        await eventually(lambda: sorted(one.done) == ["alone", "twice"])
        await eventually(lambda: jobs(server, place) == [])


async def test_a_process_that_only_counted_as_dead_ends_nothing_of_the_one_that_goes_on(
    place: PostgresPlace, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with process(place) as before, process(place) as after:
        before.gates["s"], after.gates["s"] = asyncio.Event(), asyncio.Event()
        after.ownership.take_no_more()
        await before.want("s")
        await eventually(lambda: before.leases.get("s"))
        before.ownership.take_no_more()
        after.ownership._takes = True
        await before.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
        await eventually(lambda: after.leases.get("s"))
        before.gates["s"].set()
        await eventually(lambda: before.lost == ["s"])
        await never(lambda: jobs(server, place) != ["s doing"], 0.5)
        after.gates["s"].set()
        await eventually(lambda: after.done == ["s"])
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_process_that_counted_as_dead_takes_its_session_from_itself(place: PostgresPlace) -> None:
    async with process(place) as one:
        one.gates["s"] = asyncio.Event()
        await one.want("s")
        lease = await eventually(lambda: one.leases.get("s"))
        await one.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
        await eventually(lambda: lease.is_lost)
        one.gates["s"].set()
        await eventually(lambda: one.done == ["s", "s"])
        assert lease.ended.is_set()


async def test_what_is_left_when_a_process_ends_is_taken_by_another_one_at_once(place: PostgresPlace) -> None:
    ending = asyncio.Event()

    async def work(lease: Lease) -> bool:
        await ending.wait()
        return False

    stall = 2 * PATIENCE  # so that what comes within our patience has not waited for that
    async with process(place, stall=stall) as other:
        other.ownership.take_no_more()
        async with process(place, work, stall) as one:
            await one.want("s")
            await eventually(lambda: one.ownership._leases)
            one.ownership.take_no_more()
            other.ownership._takes = True
            ending.set()
            await eventually(lambda: other.done == ["s"])


async def test_a_session_whose_work_fails_is_tried_again(
    place: PostgresPlace, caplog: pytest.LogCaptureFixture
) -> None:
    tries = list[str]()

    async def work(lease: Lease) -> bool:
        tries.append(lease.session)
        if len(tries) == 1:
            raise RuntimeError("unforeseen")
        return True

    async with process(place, work) as one:
        await one.want("s")
        await eventually(lambda: len(tries) == 2)
    caplog.clear()


async def test_a_session_that_was_left_behind_is_found_and_one_that_is_worked_on_left_alone(
    place: PostgresPlace, server: Server
) -> None:
    async with process(place) as one:
        one.gates["busy"] = asyncio.Event()
        await one.want("busy")
        await eventually(lambda: one.leases.get("busy"))
        await one.database.write(one.ownership.wanted_if_idle("busy"), one.ownership.wanted_if_idle("left"))
        await eventually(lambda: one.done == ["left"])
        await eventually(lambda: jobs(server, place) == ["busy doing"])
        one.gates["busy"].set()


async def test_one_process_at_a_time_has_a_duty_and_another_one_when_that_ends(place: PostgresPlace) -> None:
    has = list[int]()

    def duty(number: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def run() -> None:
            has.append(number)
            try:
                await asyncio.Event().wait()
            finally:
                has.remove(number)

        return run

    async with process(place) as one, process(place) as two:
        async with background(one.ownership.lead("duty", duty(1)), "one"):
            await eventually(lambda: has == [1])
            async with background(two.ownership.lead("duty", duty(2)), "two"):
                await never(lambda: has != [1], 0.5)
                async with background(two.ownership.lead("another", duty(3)), "three"):
                    await eventually(lambda: has == [1, 3])
        assert has == []
        async with background(two.ownership.lead("duty", duty(2)), "two"):
            await eventually(lambda: has == [2])


async def test_rows_of_a_process_that_lives_are_not_those_of_the_dead(place: PostgresPlace, server: Server) -> None:
    async with process(place) as one:
        await eventually(lambda: jobs(server, place, "SELECT id FROM replicas") == [one.database.replica])
        await one.database.write(sql(ADD, k="of an agent at work"))
        async with open_schema(place, clock) as two:
            await Journal(two).forget_loose()
            left = partial(jobs, server, place, "SELECT turn FROM steps")
            assert left() == ["of an agent at work"]
    async with open_schema(place, clock) as alone:
        await Journal(alone).forget_loose()
        assert left() == []


@pytest.mark.parametrize("silent", [20, 90])
async def test_a_process_lives_for_as_long_as_its_stall_seconds_say(
    place: PostgresPlace, server: Server, silent: int
) -> None:
    async with open_schema(place, clock) as slow, open_schema(place, clock) as other:
        await slow.join(ReplicaSettings.model_validate({"stall_seconds": 60}))
        held = Reservation("t:model:1", "p", "p", "t", 1_000, 0.0)
        await PostgresReservations(slow).make(held)
        await slow.write(sql(ADD, k="of an agent at work"))
        past = f"clock_timestamp() - interval '{silent} s'"
        await slow.write(sql(f"UPDATE replicas SET seen_at = {past}"), sql(f"UPDATE reservations SET made_at = {past}"))  # noqa: S608  # our own words
        await Journal(other).forget_loose()
        await PostgresReservations(other).end_the_dead()
        lives = silent < 60
        assert jobs(server, place, "SELECT turn FROM steps") == ["of an agent at work"] * lives
        assert await PostgresReservations(other).of_person("p") == [held] * lives


async def test_a_process_that_was_forgotten_while_it_was_paused_is_seen_again_with_its_settings(
    place: PostgresPlace, server: Server
) -> None:
    row = "SELECT name || ' ' || workspaces || ' ' || stall_seconds FROM replicas"
    async with open_schema(place, clock) as found:
        await found.join(ReplicaSettings.model_validate({"name": "hall", "workspaces": "own", "stall_seconds": 5}))
        ownership = PostgresOwnership(found, clock, 5)
        await found.write(sql("DELETE FROM replicas"))
        async with background(ownership._detect_dead(), "heartbeat"):
            await eventually(lambda: jobs(server, place, row) == ["hall own 5"])


async def test_of_a_session_that_is_forgotten_nothing_says_who_worked_on_it(place: PostgresPlace) -> None:
    async with process(place) as one:
        await one.database.write(
            sql("INSERT INTO sessions (key, created_at, context_start) VALUES ('kept', 1, 0), ('forgotten', 1, 0)")
        )
        for session in ("kept", "forgotten", "outbox:telegram:5"):
            await one.want(session)
        await eventually(lambda: len(one.done) == 3)
        await one.database.write(sql("DELETE FROM sessions WHERE key = 'forgotten'"))
        await one.want("forgotten")
        await eventually(lambda: len(one.done) == 4 and not one.leases)

        async def left() -> list[str]:
            found = [
                *await one.database.read(sql("SELECT session FROM session_owners")),
                *await one.database.read(sql("SELECT lock FROM procrastinate_jobs")),
            ]
            return sorted({row[0] for row in found})

        async with asyncio.timeout(10):
            while await left() != ["kept"]:
                await clock.sleep(0.05)


async def test_a_process_that_goes_on_after_it_counted_as_dead_keeps_the_connections_that_it_makes_then(
    place: PostgresPlace, server: Server
) -> None:
    seen = "UPDATE replicas SET seen_at = clock_timestamp() WHERE id = 'gone'"
    made = "INSERT INTO replicas (id, address, version, began_at, seen_at) VALUES ('gone', '', '', now(), now())"
    async with open_schema(place, clock) as other:
        await other.write(sql(made))
        async with await connect(place, "goclaw gone pid 1") as before:
            await other.write(sql(seen))
            async with await connect(place, "goclaw gone pid 1") as since:
                # A stall of no time: it counts as dead from the moment at which it was seen.
                await other.write(sql("SELECT end_connections_of_the_dead(0)"))
                with pytest.raises(psycopg.OperationalError):
                    await before.execute("SELECT 1")
                await since.execute("SELECT 1")


class _Said(logging.Handler):
    """Calls back at a message of psycopg's pool."""

    def __init__(self, words: str, call: Callable[[], object]) -> None:
        super().__init__()
        self._words = words
        self._call = call
        self.was_said = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.was_said and self._words in record.getMessage():
            self.was_said = True
            self._call()


@pytest.mark.parametrize("words", ["waiting for pool", "adding new connection to the pool"], ids=["before", "at"])
async def test_a_process_that_is_ended_when_its_connections_are_made_ends_with_all_of_them(
    place: PostgresPlace, server: Server, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the second case Python 3.11 lost the cancellation, and the process never ended."""
    caplog.set_level(logging.WARNING, "psycopg")  # a record about a connection would keep it from being collected
    pool, loop = logging.getLogger("psycopg.pool"), asyncio.get_running_loop()
    async with open_schema(place, clock) as database:
        made = Process(database, PostgresOwnership(database, clock, STALL))
        running = asyncio.create_task(made.ownership.run(made.work))
        said, level = _Said(words, lambda: loop.call_soon(running.cancel)), pool.level
        pool.addHandler(said)
        pool.setLevel(logging.INFO)
        try:
            await asyncio.wait({running}, timeout=10)
            assert said.was_said and running.cancelled()
        finally:
            pool.removeHandler(said)
            pool.setLevel(level)
            running.cancel()
            await asyncio.wait({running}, timeout=10)
        name = database.application_name
    left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []
    gc.collect()  # psycopg closes one whose making was cut when it is collected
    with psycopg.connect(server.url, autocommit=True) as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s"
        await eventually(lambda: not connection.execute(query, (name,)).fetchall())


async def test_work_beside_the_owner_is_refused_in_every_process_once_that_is_ended(
    place: PostgresPlace, server: Server
) -> None:
    async with process(place) as one, process(place) as two:
        both = {"one": (one, await one.ownership.beside("s")), "two": (two, await two.ownership.beside("s"))}
        other = await two.ownership.beside("t")
        for name, (each, fence) in both.items():
            with alongside_owner(fence):
                await each.database.write(sql(ADD, k=f"{name} before"))
                assert AUTHORITY.get().fence is None, "it is not the owner's"
        await one.ownership.end_beside("s")
        for name, (each, fence) in both.items():
            with alongside_owner(fence):
                with pytest.raises(OwnershipLost):
                    await each.database.write(sql(ADD, k=f"{name} after"))
                with under_fence(None):
                    await each.database.write(sql(ADD, k=f"{name} unfenced"))
        for again in (other, await two.ownership.beside("s")):
            with alongside_owner(again):
                await two.database.write(sql(ADD, k=again.session))
        await one.ownership.end_beside("s")
        assert jobs(server, place, "SELECT session FROM session_owners") == ["beside:t"]
        written = jobs(server, place, "SELECT turn FROM steps")
    kept = {f"{name} {when}" for name in both for when in ("before", "unfenced")}
    assert set(written) == kept | {"beside:s", "beside:t"}


async def test_the_end_of_work_beside_the_owner_waits_for_what_is_being_written(
    place: PostgresPlace, server: Server
) -> None:
    async with process(place) as one, process(place) as two:
        fence = await two.ownership.beside("s")
        async with two.database.pause_writes() as writer:
            async with writer.transaction():
                await writer.execute("SELECT check_epoch(%s, %s)", (fence.session, fence.epoch))
                ending = asyncio.ensure_future(one.ownership.end_beside("s"))
                waiting = (
                    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%take_session%'"
                )
                await eventually(lambda: jobs(server, place, waiting))
                assert not ending.done()
            await asyncio.wait_for(ending, 20)
