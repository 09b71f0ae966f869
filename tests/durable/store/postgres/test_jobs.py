"""Jobs of sessions are taken on a notice; a look without one is seldom."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.testing import InMemoryConnector

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.postgres import jobs, ownership
from goclaw.durable.store.postgres.database import open_schema
from tests.acceptance.waiting import PATIENCE, clock, eventually
from tests.durable.store.postgres.test_ownership import Process, process
from tests.durable.store.postgres.test_ownership import jobs as rows_of
from tests.parts import sql
from tests.postgres import LOGGED, Server, fresh_place, running
from tests.statement_log import sent

LISTENERS = (
    "SELECT application_name FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'LISTEN \"procrastinate%'"
)
"""Processes that have begun to listen for jobs, and of which that connection has done nothing else."""


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for a job: one at the start, and then one for each notice."""
    for module in (jobs, ownership):
        monkeypatch.setattr(module, "POLL_SECONDS", 600.0)


@asynccontextmanager
async def told(place: PostgresPlace, server: Server) -> AsyncIterator[Process]:
    """A process that listens for jobs: its first look may have come before that, and no other one follows."""
    # One that counted as dead would begin to listen anew, and miss what is told meanwhile.
    async with process(place, stall=2 * PATIENCE) as one:
        await eventually(lambda: one.database.application_name in rows_of(server, place, LISTENERS))
        yield one


@pytest.mark.usefixtures("no_polling")
async def test_a_session_is_taken_on_a_notice_without_any_polling(place: PostgresPlace, server: Server) -> None:
    async with told(place, server) as one:
        await one.want("s")
        await eventually(lambda: one.done == ["s"])
        await one.want("s")
        await eventually(lambda: one.done == ["s", "s"])


async def test_what_comes_during_the_last_look_of_a_process_that_takes_no_more_is_left_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes, looks = [True], list[int]()

    async def look(self: JobManager, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        looks.append(worker_id)
        if takes:
            takes.clear()
            found._due_at = 0.0  # as a notice has it
        return None

    async def seen(at: float) -> None:
        """No heartbeat is sent."""

    monkeypatch.setattr(JobManager, "fetch_job", look)
    found = jobs.Jobs(InMemoryConnector(), clock, lambda: bool(takes), seen)
    assert await found.fetch_job(None, 1) is None
    assert looks == [1]


@asynccontextmanager
async def one_waits_for_another(place: PostgresPlace, server: Server) -> AsyncIterator[tuple[Process, Process]]:
    """A process that works on "s" until its gate is opened, and one that has looked and waits for it."""
    async with told(place, server) as owner, told(place, server) as other:
        owner.gates["s"] = asyncio.Event()
        other.ownership.take_no_more()
        await owner.want("s")
        await eventually(lambda: owner.leases.get("s"))
        other.ownership._takes = True
        owner.ownership.take_no_more()
        await other.want("s")
        await other.want("t")
        await eventually(lambda: other.done == ["t"])
        yield owner, other


@pytest.mark.usefixtures("no_polling")
async def test_a_session_that_waits_for_another_process_is_taken_when_that_has_let_go(
    place: PostgresPlace, server: Server
) -> None:
    async with one_waits_for_another(place, server) as (owner, other):
        owner.gates["s"].set()
        await eventually(lambda: other.done == ["t", "s"])


@pytest.mark.usefixtures("no_polling")
async def test_a_session_that_waits_for_a_dead_process_is_taken_when_that_counts_as_dead(
    place: PostgresPlace, server: Server
) -> None:
    async with one_waits_for_another(place, server) as (owner, other):
        await other.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
        await eventually(lambda: "s" in other.done)  # and "t" perhaps once more: all are dead at that moment
        owner.gates["s"].set()
        await eventually(lambda: owner.lost == ["s"])


async def test_a_session_that_a_process_gets_after_it_was_told_to_take_no_more_is_worked_on_by_another_one(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = jobs.Jobs.fetch_job
    async with process(place) as one:

        async def fetch(self: jobs.Jobs, queues: Iterable[str] | None, worker_id: int) -> Job | None:
            if found := await look(self, queues, worker_id):
                one.ownership.take_no_more()
            return found

        monkeypatch.setattr(jobs.Jobs, "fetch_job", fetch)
        await one.want("s")
        await eventually(lambda: not one.ownership._takes)
        monkeypatch.undo()
        async with process(place) as two:
            await eventually(lambda: two.done == ["s"])
        assert one.done == []


@pytest.mark.long
async def test_a_process_without_work_sends_few_statements_between_two_beats() -> None:
    with running(settings=LOGGED) as server:
        async with process(fresh_place(server), stall=3.0) as idle:
            await idle.want("s")
            await eventually(lambda: idle.done == ["s"])

            def since(begin: int) -> list[str]:
                return [each.text for each in sent(server.log()[begin:])]

            def beats(begin: int) -> int:
                return sum("FROM look_for_the_dead(" in text for text in since(begin))

            await eventually(lambda: beats(0) >= 8)  # what follows a notice is over
            begin, began = len(server.log()), clock.monotonic()
            await eventually(lambda: beats(begin) >= 12)
            statements = since(begin)
            seconds = clock.monotonic() - began
    # A beat of two statements comes every 0.375 s here; a look for a job and a heartbeat, of four each, once a second.
    # A busy machine holds the beats up: then there are more seconds between them.
    assert sum("procrastinate_fetch_job" in text for text in statements) <= seconds + 2, (seconds, statements)
    assert len(statements) <= (2 / 0.375 + 2 * 4) * (seconds + 2) + 4, (seconds, statements)


async def test_a_look_for_the_dead_says_when_the_next_process_counts_as_dead(place: PostgresPlace) -> None:
    async with open_schema(place, clock) as database:
        look = "SELECT next_death FROM look_for_the_dead(50)"
        assert float((await database.read(sql(look)))[0][0]) == 50.0, "there is no process"
        silent = "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (clock_timestamp() - interval '%s s')"
        for seconds in (60, 10, 30):
            await database.write(sql(silent % seconds))
        assert 0.0 < float((await database.read(sql(look)))[0][0]) <= 20.0


async def test_a_process_that_is_paused_within_a_transaction_does_not_hold_up_those_that_look_for_the_dead(
    place: PostgresPlace, server: Server
) -> None:
    def paused() -> psycopg.Connection[Any]:
        return psycopg.connect(server.url, options=f"-csearch_path={place.schema}")

    async with open_schema(place, clock) as database:
        for lock, status in (("a", "doing"), ("b", "doing")):
            job = (
                "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, status) VALUES ('sessions', 'work', :k, "
            )
            await database.write(sql(f"{job} '{status}')", k=lock))
        with paused() as connection:
            connection.execute("SELECT 1 FROM procrastinate_jobs WHERE lock = 'a' FOR UPDATE")
            look = "SELECT gone FROM look_for_the_dead(1)"
            async with asyncio.timeout(7):  # a lock is waited for for 8 s
                assert (await database.write(sql(look)))[0].rows[0][0] == ["b"]
        assert (await database.write(sql(look)))[0].rows[0][0] == ["a"]
