"""A schema is brought up to date while others use it: they are held up for a moment at most, and once is enough."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from goclaw import __version__
from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.open import open_database, stored_fact
from goclaw.durable.store.postgres import ownership_schema, schema
from goclaw.durable.store.postgres.connecting import connect
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.postgres.ownership_schema import MIGRATION, migrations
from goclaw.durable.store.postgres.schema import NEWEST, STEPS, VERSION, WRITER, SchemaStep, prepare
from goclaw.durable.store.settings import Settings
from goclaw.errors import StateError
from tests.acceptance.waiting import clock
from tests.parts import sql
from tests.postgres import Server

STEP = SchemaStep("ALTER TABLE sessions ADD COLUMN of_the_next TEXT; CREATE TABLE next_things (id BIGINT PRIMARY KEY)")
NEXT = (*STEPS, STEP)
LONGEST_WAIT = 6.0
"""Seconds: half a second behind the step, and what a busy machine takes; without end, a lock is waited for for 8 s."""


async def upgraded(place: PostgresPlace, name: str = "goclaw next") -> None:
    connection = await connect(place, name)
    try:
        await prepare(connection, place.schema, NEXT, clock)
    finally:
        await connection.close()


def columns(server: Server, place: PostgresPlace) -> set[str]:
    with psycopg.connect(server.url) as connection:
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'sessions'",
            (place.schema,),
        )
        return {str(name) for (name,) in found.fetchall()}


async def test_a_step_that_waits_for_a_transaction_lets_others_pass(place: PostgresPlace, server: Server) -> None:
    async with open_database(place) as used:
        with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as holding:
            holding.execute("SELECT count(*) FROM sessions")  # and stays in its transaction
            upgrading = asyncio.create_task(upgraded(place))
            longest = 0.0
            for number in range(20):
                began = clock.monotonic()
                await used.write(sql("INSERT INTO sessions (key, created_at) VALUES (:key, 0)", key=f"s{number}"))
                await used.read(sql("SELECT count(*) FROM sessions"))
                longest = max(longest, clock.monotonic() - began)
                await clock.sleep(0.05)
            assert not upgrading.done() and "of_the_next" not in columns(server, place)
            assert longest < LONGEST_WAIT, "who writes waits behind the step"
            holding.rollback()
        async with asyncio.timeout(30):
            await upgrading
        assert "of_the_next" in columns(server, place)
        await used.write(sql("INSERT INTO sessions (key, created_at) VALUES ('after', 0)"))
        assert (await used.read(sql("SELECT count(*) FROM sessions")))[0][0] == 21
    assert stored_fact(place, VERSION) == NEWEST + 1 and stored_fact(place, WRITER) == __version__


async def test_two_that_begin_at_once_make_the_step_once(place: PostgresPlace, server: Server) -> None:
    async with open_database(place):
        pass
    await asyncio.gather(*(upgraded(place, f"goclaw {number}") for number in range(3)))
    assert "of_the_next" in columns(server, place)
    assert stored_fact(place, VERSION) == NEWEST + 1


async def test_two_that_begin_at_once_make_a_new_schema_once(place: PostgresPlace) -> None:
    async def opened() -> None:
        async with open_database(place) as database:
            await database.read(sql("SELECT count(*) FROM sessions"))

    await asyncio.gather(*(opened() for _ in range(3)))
    assert stored_fact(place, VERSION) == NEWEST


async def test_tables_that_are_held_all_the_time_end_it_with_a_reason(
    place: PostgresPlace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_database(place):
        pass
    monkeypatch.setattr(schema, "UPGRADE_SECONDS", 1.0)
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as holding:
        holding.execute("SELECT count(*) FROM sessions")
        with pytest.raises(
            StateError, match=r"other transactions have locked its tables for 1 s .*Nothing has changed"
        ):
            await upgraded(place)
        holding.rollback()
    assert stored_fact(place, VERSION) == NEWEST and "of_the_next" not in columns(server, place)


async def test_who_is_older_goes_on_with_the_newer_schema_and_is_refused_at_its_next_start(
    place: PostgresPlace, server: Server
) -> None:
    async with open_database(place) as older:
        assert isinstance(older, PostgresDatabase)
        await upgraded(place)
        await Settings(older).learn(WRITER, "99.1.0")
        with psycopg.connect(server.url, autocommit=True) as connection:  # and after it has lost its connections
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                (older.application_name,),
            )
        await older.write(sql("INSERT INTO sessions (key, created_at) VALUES ('s', 0)"))
        with pytest.raises(
            StateError,
            match=rf"has version {NEWEST + 1}, but this GoClaw \({__version__}\) knows only up to {NEWEST}: "
            "GoClaw 99.1.0 has migrated it. Install that version here, too",
        ):
            async with open_database(place):
                pytest.fail("opened")
        assert (await older.read(sql("SELECT count(*) FROM sessions")))[0][0] == 1


@pytest.fixture
def newer_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Migrations of a procrastinate that does not exist yet."""
    made = []
    for name in ("90.00.00_01_pre_things", "90.00.00_50_post_things"):
        path = tmp_path / f"{name}.sql"
        path.write_text(f'CREATE TABLE "{name}" (id BIGINT)')
        made.append(path)
    known = migrations()
    monkeypatch.setattr(ownership_schema, "migrations", lambda: [*known, *made])
    return made


def alive(server: Server, place: PostgresPlace, version: str) -> None:
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}", autocommit=True) as connection:
        connection.execute("DELETE FROM replicas")
        connection.execute("INSERT INTO replicas VALUES ('r', 'x', %s, now(), now())", (version,))


async def test_what_older_ones_do_not_survive_in_procrastinates_tables_waits_until_none_runs(
    place: PostgresPlace, server: Server, monkeypatch: pytest.MonkeyPatch, newer_jobs: list[Path]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ownership_schema, "migrations", migrations)
        async with open_database(place):
            pass
    alive(server, place, "0.0.1")
    async with open_database(place):
        assert stored_fact(place, MIGRATION) == newer_jobs[0].stem
    alive(server, place, __version__)
    async with open_database(place):
        assert stored_fact(place, MIGRATION) == newer_jobs[1].stem


async def test_a_leap_in_procrastinates_tables_is_refused_beside_older_ones(
    place: PostgresPlace, server: Server, monkeypatch: pytest.MonkeyPatch, newer_jobs: list[Path], tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ownership_schema, "migrations", migrations)
        async with open_database(place):
            pass
    last = tmp_path / "91.00.00_01_pre_more.sql"
    last.write_text("SELECT 1")
    known = ownership_schema.migrations()
    monkeypatch.setattr(ownership_schema, "migrations", lambda: [*known, last])
    alive(server, place, "0.0.1")
    with pytest.raises(StateError, match=r"beside gateways of another version \(0\.0\.1\): end these first"):
        async with open_database(place):
            pytest.fail("opened")
    assert stored_fact(place, MIGRATION) == migrations()[-1].stem
