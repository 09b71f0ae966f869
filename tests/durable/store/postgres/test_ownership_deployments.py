"""Two deployments in one database, each with a role that has its schema and nothing else: neither touches the other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import psycopg
import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background
from goclaw.durable.store.ownership import Lease
from goclaw.durable.store.postgres.beside import examine
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.durable.store.spending import Reservation, reservations_of
from tests.acceptance.waiting import clock, eventually
from tests.parts import sql
from tests.postgres import STALL, Server, fresh_place

ADD = "INSERT INTO steps (turn, name, state) VALUES (:k, 'x', 'done')"


@dataclass
class Process:
    """A process of a deployment."""

    database: PostgresDatabase
    ownership: PostgresOwnership
    done: list[str]


def least_place(server: Server) -> PostgresPlace:
    """A schema, and a role that has it and nothing else."""
    place = fresh_place(server)
    role = f"r_{place.schema}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        connection.execute("REVOKE CREATE, TEMPORARY ON DATABASE postgres FROM PUBLIC")
        connection.execute(f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT")
        connection.execute(f"CREATE SCHEMA {place.schema} AUTHORIZATION {role}")
    return PostgresPlace.of(f"{server.url.replace('goclaw@', f'{role}@')}?schema={place.schema}")


@asynccontextmanager
async def deployment(place: PostgresPlace, processes: int = 2) -> AsyncIterator[list[Process]]:
    """So many processes that work on the sessions of a schema."""
    async with AsyncExitStack() as stack:
        made = list[Process]()
        for _ in range(processes):
            database = await stack.enter_async_context(open_schema(place, clock))
            process = Process(database, PostgresOwnership(database, clock, STALL), [])

            async def work(lease: Lease, process: Process = process) -> bool:
                await process.database.write(sql(ADD, k=f"{lease.session} {lease.fence.epoch}"))
                process.done.append(lease.session)
                return True

            await stack.enter_async_context(background(process.ownership.run(work), "a process"))
            made.append(process)
        yield made


def done(processes: Sequence[Process]) -> list[str]:
    return sorted(session for each in processes for session in each.done)


@pytest.mark.promise("P-deployments-apart")
async def test_both_work_at_once_each_on_its_own_with_the_same_names_of_sessions(server: Server) -> None:
    sessions = [f"telegram:{number}" for number in range(10)]
    async with deployment(least_place(server)) as one, deployment(least_place(server)) as two:
        await asyncio.gather(
            *(each[0].database.write(each[0].ownership.wanted(s)) for each in (one, two) for s in sessions)
        )
        await eventually(lambda: done(one) == done(two) == sorted(sessions))
        for process in (*one, *two):
            (count,) = await process.database.read(sql("SELECT count(*) FROM steps"))
            assert count[0] == 10
            (count,) = await process.database.read(sql("SELECT count(*) FROM replicas"))
            assert count[0] == 2, "each sees its own processes"
        for each in (one, two):
            reservations = reservations_of(each[0].database)
            await reservations.make(Reservation("t:model:1", "p", "p", "t", 1, 0.0))
            assert len(await reservations.of_person("p")) == 1


async def test_each_has_its_duties_for_itself(server: Server) -> None:
    held = list[str]()

    async def hold(name: str) -> None:
        held.append(name)
        await asyncio.Event().wait()

    async with (
        deployment(least_place(server)) as one,
        deployment(least_place(server)) as two,
        AsyncExitStack() as stack,
    ):
        for name, each in (("one", one[0]), ("two", two[0]), ("one again", one[1])):
            leading = each.ownership.lead("sweep", lambda name=name: hold(name))  # type: ignore[misc]  # bound at once
            await stack.enter_async_context(background(leading, name))
        await eventually(lambda: len(held) >= 2)
        assert sorted(held) in (["one", "two"], ["one again", "two"])


async def test_a_role_sees_and_reaches_nothing_of_the_other_schema(server: Server) -> None:
    mine, theirs = least_place(server), least_place(server)
    async with open_schema(mine, clock), open_schema(theirs, clock):
        with psycopg.connect(mine.url, autocommit=True) as connection:
            for statement in (
                "SELECT * FROM {}.messages",
                "SELECT {}.want_session('s')",
                "INSERT INTO {}.procrastinate_jobs (queue_name, task_name, args) VALUES ('a', 'b', '{{}}')",
                "CREATE SCHEMA another",
                "CREATE TABLE public.another (id int)",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.format(theirs.schema).encode())


_DEAD = """
INSERT INTO replicas (id, address, version, began_at, seen_at, stall_seconds)
VALUES ('dead', 'x', '1', clock_timestamp(), clock_timestamp(), 0)
"""
_NAME = "goclaw dead pid 1 on here"


def look_for_the_dead(place: PostgresPlace) -> None:
    """Note a process that is dead by now, as its connections are older, and end those."""
    with psycopg.connect(place.url, options=f"-csearch_path={place.schema}", autocommit=True) as looking:
        looking.execute(_DEAD)
        looking.execute("INSERT INTO session_owners VALUES ('s', 1, 'dead', now())")
        looking.execute("SELECT end_connections_of_the_dead(0)")
        looking.execute("SELECT end_transactions_of_owner('s')")


@pytest.mark.parametrize("place_of", [least_place, fresh_place], ids=["least", "superuser"])
async def test_a_stranger_that_calls_itself_as_a_dead_process_neither_loses_its_connection_nor_ends_our_look(
    server: Server, place_of: Callable[[Server], PostgresPlace]
) -> None:
    mine, theirs = place_of(server), least_place(server)
    async with open_schema(mine, clock):
        with psycopg.connect(theirs.url, application_name=_NAME, autocommit=True) as stranger:
            look_for_the_dead(mine)
            assert stranger.execute("SELECT 1").fetchone() == (1,)


async def test_the_least_role_ends_connections_of_its_own_dead(server: Server) -> None:
    place = least_place(server)
    async with open_schema(place, clock):
        with psycopg.connect(place.url, application_name=_NAME, autocommit=True) as own:
            look_for_the_dead(place)
            with pytest.raises(psycopg.OperationalError):
                own.execute("SELECT 1")


async def test_doctor_has_nothing_against_the_least_role(server: Server) -> None:
    place = least_place(server)
    async with open_schema(place, clock):
        found = await asyncio.to_thread(examine, place)
    assert "superuser" not in str(found.weaknesses)
    assert "used by" in found.words


async def test_jobs_of_another_deployment_wake_a_process_and_give_it_nothing(server: Server) -> None:
    async with deployment(least_place(server), 1) as (one,), deployment(least_place(server), 1) as (two,):
        for number in range(20):
            await one.database.write(one.ownership.wanted(f"s{number}"))
        await eventually(lambda: len(one.done) == 20)
        assert two.done == []
        (count,) = await two.database.read(sql("SELECT count(*) FROM procrastinate_jobs"))
        assert count[0] == 0
