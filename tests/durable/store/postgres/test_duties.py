"""Duties: one process at a time has each of them, and all of a process are on one connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.store.ownership import Lease
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.duties import Duties
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from tests.acceptance.waiting import clock, eventually, never
from tests.parts import sql
from tests.postgres import Server

MAX_CONNECTIONS = 11
"""Connections of one process: a writer, four that read, four of procrastinate, one for notices, one for duties."""
OF_PROCESS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
async def databases(place: PostgresPlace) -> AsyncIterator[list[PostgresDatabase]]:
    async with open_schema(place, clock) as one, open_schema(place, clock) as two, asyncio.timeout(60):
        yield [one, two]


def duties_of(database: PostgresDatabase) -> Duties:
    return Duties(database.place, f"{database.application_name[:40]} duties", clock, 4.0)


def on(server: Server, query: str, *values: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        return connection.execute(query.encode(), values).fetchall()


def doing(has: list[str], name: str) -> Callable[[], Coroutine[Any, Any, None]]:
    async def run() -> None:
        has.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            has.remove(name)

    return run


async def test_a_duty_that_ends_is_free_although_the_process_has_others(databases: list[PostgresDatabase]) -> None:
    one, two = map(duties_of, databases)
    has = list[str]()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(background(one.lead("kept", doing(has, "one keeps")), "kept"))
        async with background(one.lead("left", doing(has, "one leaves")), "left"):
            await eventually(lambda: sorted(has) == ["one keeps", "one leaves"])
            await stack.enter_async_context(background(two.lead("left", doing(has, "two has")), "left of two"))
            await stack.enter_async_context(background(two.lead("kept", doing(has, "never")), "kept of two"))
            await never(lambda: "two has" in has, 0.5)
        await eventually(lambda: sorted(has) == ["one keeps", "two has"])
        await never(lambda: "never" in has, 0.5)
    assert has == []


async def test_all_duties_of_a_process_are_on_one_connection_and_are_lost_with_it(
    databases: list[PostgresDatabase], server: Server
) -> None:
    one, two = map(duties_of, databases)
    has, name = list[str](), one._name
    async with AsyncExitStack() as stack:
        for duty in ("a", "b", "c"):
            work = run_with_restarts(duty, lambda duty=duty: one.lead(duty, doing(has, f"one {duty}")), clock)  # type: ignore[misc]  # its default
            await stack.enter_async_context(background(work, duty))
        await eventually(lambda: len(has) == 3)
        assert on(server, OF_PROCESS, name) == [(1,)]
        for duty in ("a", "b"):
            work = two.lead(duty, doing(has, f"two {duty}"))
            await stack.enter_async_context(background(work, duty))
        on(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", name)
        await eventually(lambda: {"two a", "two b"} <= set(has) or {"one a", "one b"} <= set(has), 20)
        await eventually(lambda: len({each[-1] for each in has}) == len(has) == 3, 20)
    await eventually(lambda: on(server, OF_PROCESS, name) == [(0,)])


async def test_a_process_has_a_bounded_number_of_connections(databases: list[PostgresDatabase], server: Server) -> None:
    one, _ = databases
    ownership = PostgresOwnership(one, clock)
    has = list[str]()

    async def work(lease: Lease) -> bool:
        await asyncio.gather(*(one.read(sql("SELECT pg_sleep(0.05)")) for _ in range(10)))
        has.append(lease.session)
        return True

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(background(ownership.run(work), "sessions"))
        for duty in ("schedules", "sweeps", "publishing", "telegram"):
            await stack.enter_async_context(background(ownership.lead(duty, doing([], duty)), duty))
        for number in range(40):
            await one.write(ownership.wanted(f"s{number}"))
        await eventually(lambda: len(has) == 40, 30)
        [(count,)] = on(server, OF_PROCESS, one.application_name)
        assert 5 <= count <= MAX_CONNECTIONS
