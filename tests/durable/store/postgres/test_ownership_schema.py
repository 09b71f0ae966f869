"""The tables about processes that share a schema: made, brought up to date, and refused when they are newer."""

import psycopg
import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.open import open_database, stored_fact
from goclaw.durable.store.postgres.ownership_schema import MIGRATION, TABLES, migrations
from goclaw.durable.store.postgres.schema import FIRST, NEWEST, VERSION
from goclaw.durable.store.postgres.stored_files import files_metadata
from goclaw.durable.store.schema import metadata
from goclaw.durable.store.settings import Settings
from goclaw.errors import StateError
from tests.postgres import Server

_WITHOUT_JOBS = """
DROP TABLE procrastinate_periodic_defers, procrastinate_events, procrastinate_jobs, procrastinate_workers CASCADE;
DO $$ DECLARE each record; BEGIN
  FOR each IN SELECT p.oid::regprocedure AS name FROM pg_proc p
    WHERE p.pronamespace = current_schema()::regnamespace AND p.proname LIKE 'procrastinate%'
  LOOP EXECUTE 'DROP FUNCTION ' || each.name || ' CASCADE'; END LOOP;
END $$;
DROP TYPE procrastinate_job_status, procrastinate_job_event_type, procrastinate_job_to_defer_v1 CASCADE;
DELETE FROM daemon_facts WHERE name = 'procrastinate_migration';
"""
_KEPT = ", ".join(f"'{table.name}'" for table in (*metadata.sorted_tables, *files_metadata.sorted_tables))
_WITHOUT_OURS = f"""
DO $$ DECLARE each record; BEGIN
  FOR each IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
  LOOP EXECUTE 'DROP FUNCTION ' || each.name || ' CASCADE'; END LOOP;
  FOR each IN SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT IN ({_KEPT})
  LOOP EXECUTE 'DROP TABLE ' || each.name || ' CASCADE'; END LOOP;
  FOR each IN SELECT sequencename AS name FROM pg_sequences WHERE schemaname = current_schema()
    AND sequencename ~ '^(session_epochs|reservation_numbers)$'
  LOOP EXECUTE 'DROP SEQUENCE ' || each.name; END LOOP;
END $$;
DROP INDEX IF EXISTS inbox_open_by_session;
ALTER TABLE steps DROP COLUMN replica; ALTER TABLE tasks DROP COLUMN replica;
ALTER TABLE messages DROP COLUMN denied;
DROP TABLE previews, media_parts, media_groups;
"""  # noqa: S608  # names of tables
_FUNCTIONS = "SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY proname"
_COLUMNS = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name LIKE 'procrastinate%' ORDER BY 1, 2
"""


def tables(server: Server, place: PostgresPlace) -> set[str]:
    with psycopg.connect(server.url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (place.schema,))
        return {str(name) for (name,) in found.fetchall()}


async def test_a_schema_of_before_gets_the_tables_and_keeps_what_it_had(place: PostgresPlace, server: Server) -> None:
    async with open_database(place) as found:
        settings = Settings(found)
        await settings.learn("version", "what was there")
        await settings.learn(VERSION, FIRST)
    made = tables(server, place)
    assert set(TABLES) <= made
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={place.schema}") as connection:
        connection.execute(_WITHOUT_JOBS)
        connection.execute(_WITHOUT_OURS)
    assert not set(TABLES) & tables(server, place)
    async with open_database(place):
        pass
    assert tables(server, place) == made
    assert stored_fact(place, "version") == "what was there"
    assert stored_fact(place, VERSION) == NEWEST
    assert stored_fact(place, MIGRATION) == migrations()[-1].stem


async def test_jobs_of_an_older_procrastinate_are_brought_up_by_its_own_migrations(
    place: PostgresPlace, server: Server
) -> None:
    async with open_database(place):
        pass
    known = "03.03.00_01_pre_priority_lock_fetch_job"
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={place.schema}") as connection:
        made = [connection.execute(query).fetchall() for query in (_FUNCTIONS, _COLUMNS)]
        connection.execute(_WITHOUT_JOBS)
        older = [each for each in migrations() if each.stem <= known]
        for each in older:
            connection.execute(each.read_bytes())
        assert connection.execute(_FUNCTIONS).fetchall() != made[0]
        connection.execute("INSERT INTO daemon_facts VALUES (%s, %s)", (MIGRATION, f'"{known}"'))
        async with open_database(place):
            pass
        assert len(older) < len(migrations())
        assert [connection.execute(query).fetchall() for query in (_FUNCTIONS, _COLUMNS)] == made
    assert stored_fact(place, MIGRATION) == migrations()[-1].stem


async def test_jobs_of_a_newer_procrastinate_are_refused_untouched(place: PostgresPlace) -> None:
    async with open_database(place) as found:
        await Settings(found).learn(MIGRATION, "99.00.00_01_pre_something")
    with pytest.raises(StateError, match=r"jobs of a newer procrastinate \(99\.00"):
        async with open_database(place):
            pytest.fail("opened")
    assert stored_fact(place, MIGRATION) == "99.00.00_01_pre_something"


async def test_a_schema_that_lost_a_column_is_refused(place: PostgresPlace, server: Server) -> None:
    async with open_database(place):
        pass
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={place.schema}") as connection:
        connection.execute("ALTER TABLE deliveries DROP COLUMN progress")
    with pytest.raises(StateError, match=r"has no deliveries\.progress: something has changed it"):
        async with open_database(place):
            pytest.fail("opened")


async def test_a_schema_that_lost_a_table_about_processes_is_refused(place: PostgresPlace, server: Server) -> None:
    async with open_database(place):
        pass
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={place.schema}") as connection:
        connection.execute("DROP TABLE replicas")
    with pytest.raises(StateError, match="has no replicas: something has changed it"):
        async with open_database(place):
            pytest.fail("opened")
