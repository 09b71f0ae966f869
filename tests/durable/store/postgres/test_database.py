"""The store on Postgres: what is kept, what is refused, and what happens while Postgres is away."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import psycopg
import pytest
from sqlalchemy import bindparam, func, select, text

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import Actor, Address, Inbound
from goclaw.common.core.messages import ToolResult, UserMessage
from goclaw.durable.engine.journal import Journal
from goclaw.durable.store import forgetting
from goclaw.durable.store.database import BoundStatement, ConstraintViolated, Statement, insert_into
from goclaw.durable.store.open import open_database, stored_fact
from goclaw.durable.store.postgres import connecting, silence
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.postgres.schema import FIRST, NEWEST, STEPS, VERSION
from goclaw.durable.store.postgres.sending import bind
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.durable.store.schema import schedules, sessions
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.sqlite import migrations
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from goclaw.errors import DiskError, DiskFault, StateError
from tests.acceptance.waiting import clock, eventually
from tests.parts import sql
from tests.postgres import DURABLE, Server, fresh_place, running

ADD = insert_into(sessions, "key", "created_at", "context_start")

COUNT = Statement(select(func.count()).select_from(sessions).where(sessions.c.key == bindparam("key")))


def session(key: str) -> BoundStatement:
    return ADD(key=key, created_at=1.0, context_start=0)


@asynccontextmanager
async def opened(place: PostgresPlace, *, alone: bool = False) -> AsyncIterator[PostgresDatabase]:
    async with open_database(place, alone=alone) as found:
        assert isinstance(found, PostgresDatabase)
        yield found


async def keys(found: PostgresDatabase) -> list[str]:
    return [row["key"] for row in await found.read(sql("SELECT key FROM sessions ORDER BY key"))]


def test_both_stores_have_the_same_tables() -> None:
    """A step of the one is a step of the other, but for those about processes that share a schema."""
    assert migrations.MIGRATIONS
    assert 1 + len(migrations.MIGRATIONS) == FIRST + sum(step.of_both_stores for step in STEPS)


async def test_what_is_written_is_there_after_it_is_opened_again(place: PostgresPlace) -> None:
    async with opened(place) as found:
        await found.write(session("a"), session("b"), durable=True)
    async with opened(place) as found:
        assert await keys(found) == ["a", "b"]


async def test_a_transaction_that_fails_is_undone_alone(place: PostgresPlace) -> None:
    async with opened(place) as found:
        outcomes = await asyncio.gather(
            found.write(session("a")),
            found.write(session("b"), session("a")),
            found.write(session("c")),
            return_exceptions=True,
        )
        assert [isinstance(outcome, ConstraintViolated) for outcome in outcomes] == [False, True, False]
        assert await keys(found) == ["a", "c"]
        assert found.trouble is None


async def test_a_statement_goes_on_after_the_transaction_failed_in_which_it_was_to_be_prepared(
    place: PostgresPlace,
) -> None:
    async with opened(place) as found:
        await found.write(session("a"))
        for round_ in range(3):
            for number in range(2 * connecting.PREPARED_AFTER):
                # At one of these failures Postgres never gets to the statement that psycopg would prepare then.
                with pytest.raises(ConstraintViolated):
                    await found.write(session("a"), COUNT(key=f"{round_}{number}"))
                await found.write(COUNT(key=f"{round_}{number}"))
        for _ in range(2 * connecting.PREPARED_AFTER):
            [result] = await found.write(COUNT(key="a"))
            assert result.rows[0][0] == 1
        async with found.pause_writes() as writer:
            prepared = await (await writer.execute("SELECT count(*) FROM pg_prepared_statements")).fetchone()
        assert prepared is not None and prepared[0] >= 1, "the statements of turns are parsed once"
        assert found.trouble is None


async def test_what_belongs_behind_a_commit_is_sent_though_the_connection_is_lost_there(
    place: PostgresPlace, server: Server
) -> None:
    behind = "CASE WHEN nextval('tries') = 1 THEN pg_terminate_backend(pg_backend_pid())::text"
    tell = Statement(text(f"SELECT {behind} ELSE pg_notify('told', :key)::text END"))
    add = Statement(text("INSERT INTO sessions (key, created_at, context_start) VALUES (:key, 1, 0)"), behind=tell)
    async with opened(place) as found, await psycopg.AsyncConnection.connect(server.url, autocommit=True) as listener:
        await listener.execute("LISTEN told")
        await found.write(sql("CREATE SEQUENCE tries"))
        await found.write(add(key="a"))
        async with asyncio.timeout(20):
            heard = [notice.payload async for notice in listener.notifies(timeout=15, stop_after=1)]
        assert heard == ["a"]
        assert await keys(found) == ["a"]


async def test_an_error_does_not_repeat_the_values_that_were_refused(place: PostgresPlace) -> None:
    async with opened(place) as found:
        await found.write(session("a secret"))
        with pytest.raises(ConstraintViolated) as refused:
            await found.write(session("a secret"))
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_rows_have_rising_numbers_and_an_insert_tells_its_own(place: PostgresPlace) -> None:
    rows = rows_of(UserMessage("hi"), Origin("s", "t", "user", 1.0))
    async with opened(place) as found:
        first, second = [(await found.write(*rows))[0].lastrowid for _ in range(2)]
        assert 0 < first < second
        assert (await found.write(session("a")))[0].lastrowid == 0


async def test_the_character_nul_is_left_out_where_a_tool_says_it(place: PostgresPlace) -> None:
    result = ToolResult("c", "read", "before\0after")
    async with opened(place) as found:
        await found.write(*rows_of(result, Origin("s", "t", "tool", 1.0)))
        [stored] = await Transcripts(found).history("s", 0, 10)
    assert isinstance(stored.message, ToolResult)
    assert stored.message.content == "beforeafter"


async def test_a_schedule_with_the_character_nul_in_its_text_does_not_keep_others_from_being_found(
    place: PostgresPlace,
) -> None:
    add = insert_into(schedules, "name", "person", "body", "state", "made_at")
    bodies = {"a": r'{"session":"s","text":"\u0000"}', "b": r'{"session":"s","text":"\\u0000","configured":true}'}
    async with opened(place) as found:
        for name, body in bodies.items():
            await found.write(add(name=name, person="p", body=body, state="active", made_at=1.0))
        assert (await found.read(forgetting._SCHEDULES(of_session="s")))[0][0] == 1
        await found.write(forgetting._FORGET_SCHEDULES(of_session="s"))
        assert [row["name"] for row in await found.read(sql("SELECT name FROM schedules"))] == ["b"]


async def test_a_message_that_was_taken_in_before_is_known(place: PostgresPlace) -> None:
    inbound = Inbound("m1", Actor("a", "memory"), "s", "hi", Address("memory", "c"), 0.0)
    async with opened(place) as found:
        journal = Journal(found)
        assert await journal.submit(inbound, "message")
        assert not await journal.submit(inbound, "message")


async def test_the_feed_waits_for_a_transaction_that_has_a_lower_number(place: PostgresPlace, server: Server) -> None:
    rows = rows_of(UserMessage("late"), Origin("s", "t", "user", 1.0))
    async with opened(place) as found:
        feed = TranscriptFeed(found)
        found.written = feed.wake
        text, values = bind(rows[0])
        other = await psycopg.AsyncConnection.connect(f"{server.url}", options=f"-csearch_path={place.schema}")
        async with other:
            await other.execute(text, values)  # has the lower number, and is not committed yet
            await found.write(*rows_of(UserMessage("early"), Origin("s", "t", "user", 2.0)))
            await feed.news()
            assert await feed.after(0) == []
            assert await feed.end() == 0, "who begins there misses neither"
            await other.commit()
        async with asyncio.timeout(10):
            while not (seen := await feed.after(0)):
                await feed.news()
        assert await feed.end() == seen[-1].row
    assert [row.text for row in seen] == ["late", "early"]


@pytest.mark.promise("P-one-daemon")
async def test_a_process_that_wants_the_schema_to_itself_is_refused_while_others_use_it_and_refuses_them(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = r"goclaw \w+ pid \d+ on \S+"
    async with opened(place) as found, opened(place) as other:
        with monkeypatch.context() as short:
            short.setattr(connecting, "LOCK_SECONDS", 0.3)
            with pytest.raises(
                StateError, match=rf"another GoClaw \({one}, {one}\) uses the schema {place.schema} .*stop each with"
            ):
                async with opened(place, alone=True):
                    pytest.fail("beside two others")
        await found.write(session("a"))
        assert await keys(other) == ["a"]
    # Postgres may be slow to notice that those two are gone.
    async with opened(place, alone=True) as found:
        monkeypatch.setattr(connecting, "LOCK_SECONDS", 0.3)
        for alone in (False, True):
            with pytest.raises(
                StateError, match=rf"another GoClaw \({one}\) (has exclusive use of|uses) the schema {place.schema}"
            ):
                async with opened(place, alone=alone):
                    pytest.fail("beside one that has it to itself")
        assert await keys(found) == ["a"]


async def test_two_gateways_in_one_database_do_not_see_each_other(server: Server) -> None:
    async with opened(fresh_place(server)) as one, opened(fresh_place(server)) as two:
        await one.write(session("a"))
        assert await keys(two) == []


async def test_a_schema_of_a_newer_program_or_of_another_one_is_refused_untouched(
    place: PostgresPlace, server: Server
) -> None:
    async with opened(place) as found:
        await Settings(found).learn(VERSION, NEWEST + 1)
    with pytest.raises(StateError, match=rf"has version {NEWEST + 1}, but this GoClaw .* knows only up to {NEWEST}"):
        async with opened(place):
            pytest.fail("opened")
    assert stored_fact(place, VERSION) == NEWEST + 1
    other = fresh_place(server)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {other.schema}")
        connection.execute(f"CREATE TABLE {other.schema}.invoices (id int)")
    with pytest.raises(StateError, match="tables that are not GoClaw's, such as invoices"):
        async with opened(other):
            pytest.fail("opened")


async def test_a_role_with_no_more_than_its_schema_is_enough(server: Server) -> None:
    place = fresh_place(server)
    role = f"r_{place.schema}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"CREATE SCHEMA {place.schema} AUTHORIZATION {role}")
    url = server.url.replace("goclaw@", f"{role}@")
    async with opened(PostgresPlace(url, place.schema)) as found:
        await found.write(session("a"))
        before = await files_of_texts(found)
        assert await found.rewrite()
        assert await keys(found) == ["a"]
        assert set(before).isdisjoint(await files_of_texts(found)), "what was deleted is still in the file"


async def files_of_texts(database: PostgresDatabase) -> list[int]:
    """Return the numbers of the files of tables that have what was said."""
    tables = ("messages", "inbox", "state_file_pieces", "orders", "media_parts", "previews")
    return [(await database.read(sql(f"SELECT pg_relation_filenode('{name}')")))[0][0] for name in tables]


@pytest.mark.promise("P-disk")
async def test_while_postgres_is_away_writes_fail_in_words_and_go_on_by_themselves(own_server: Server) -> None:
    told = list[DiskError | None]()
    async with opened(fresh_place(own_server)) as found:
        found.on_trouble(told.append)
        await found.write(session("before"))
        await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
        for _ in range(2):
            with pytest.raises(DiskError, match=r"cannot be written: .*is Postgres running") as refused:
                await found.write(session("away"), durable=True)
            assert refused.value.fault is DiskFault.UNREACHABLE
            with pytest.raises(DiskError, match="cannot be read"):
                await keys(found)
        await asyncio.to_thread(own_server.start)
        await found.write(session("after"))
        assert await keys(found) == ["after", "before"]
    assert [trouble and trouble.fault for trouble in told] == [DiskFault.UNREACHABLE, None]


@pytest.mark.promise("P-disk")
async def test_what_was_acknowledged_survives_restarts_of_postgres_at_once_and_nothing_is_written_twice(
    own_server: Server,
) -> None:
    """Writers go on while Postgres is killed again and again; each repeats what was refused."""
    acknowledged = list[str]()

    async def write_all(found: PostgresDatabase, writer: int, done: asyncio.Event) -> None:
        number = 0
        while not done.is_set():
            key = f"{writer}:{number}"
            try:
                await found.write(sql("INSERT INTO steps (turn, name, state) VALUES (:k, 'x', 'done')", k=key))
            except DiskError:
                await clock.sleep(0.01)
                continue
            acknowledged.append(key)
            number += 1

    def beyond(count: int) -> bool:
        return len(acknowledged) >= count

    async with opened(fresh_place(own_server)) as found:
        done = asyncio.Event()
        writers = [asyncio.create_task(write_all(found, writer, done)) for writer in range(8)]
        for _ in range(5):
            await eventually(partial(beyond, len(acknowledged) + 100), 30)
            await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
            await asyncio.to_thread(own_server.start)
        done.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*writers)
        stored = [row[0] for row in await found.read(sql("SELECT turn FROM steps"))]
    # The key is the table's: a transaction that was committed unseen, and repeated, would have been refused.
    assert sorted(stored) == sorted(acknowledged)


async def test_a_commit_in_which_the_connection_is_lost_is_looked_up(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(psycopg.AsyncConnection[connecting.PostgresRow]):
        """Loses the answer to a COMMIT, or the COMMIT itself."""

        loses = ""

        async def execute(self, query: object, *arguments: object, **options: object) -> object:  # type: ignore[override]  # as the driver calls it
            if query == "COMMIT" and Cut.loses:
                lost, Cut.loses = Cut.loses, ""
                if lost == "answer":
                    await super().execute(b"COMMIT")
                await self.close()
                raise psycopg.OperationalError("the connection is lost")
            return await super().execute(query, *arguments, **options)  # type: ignore[call-overload]  # as the driver calls it

    monkeypatch.setattr(connecting, "AsyncConnection", Cut)
    async with opened(fresh_place(own_server)) as found:
        Cut.loses = "answer"
        assert (await found.write(session("kept")))[0].rowcount == 1
        Cut.loses = "commit"
        assert (await found.write(session("again")))[0].rowcount == 1
        assert await keys(found) == ["again", "kept"]
        assert found.counts["commits looked up"] == 2


async def test_a_commit_that_a_crash_has_undone_is_not_taken_for_the_one_that_has_its_number_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Postgres gives numbers of transactions anew of which a crash left nothing on its disk."""
    with running(settings=(*DURABLE, "-c", "wal_writer_delay=10s")) as server:
        numbers = list[str]()

        def crash() -> None:
            server.stop(signal.SIGQUIT)
            server.start()
            with psycopg.connect(server.url, autocommit=True) as other:
                for _ in range(20):
                    (number,) = other.execute("SELECT pg_current_xact_id()::text").fetchone() or ("",)
                    numbers.append(number)

        class Cut(psycopg.AsyncConnection[connecting.PostgresRow]):
            """Crashes the server before the first COMMIT behind `armed`."""

            armed = False

            async def execute(self, query: object, *arguments: object, **options: object) -> object:  # type: ignore[override]  # as the driver calls it
                if query == "COMMIT" and Cut.armed:
                    Cut.armed = False
                    (number,) = await (await super().execute("SELECT pg_current_xact_id()::text")).fetchone() or ("",)
                    await asyncio.to_thread(crash)
                    assert number in numbers, "it is another one's now"
                    await self.close()
                    raise psycopg.OperationalError("the connection is lost")
                return await super().execute(query, *arguments, **options)  # type: ignore[call-overload]  # as the driver calls it

        monkeypatch.setattr(connecting, "AsyncConnection", Cut)
        async with opened(fresh_place(server)) as found:
            Cut.armed = True
            assert (await found.write(session("kept")))[0].rowcount == 1
            assert await keys(found) == ["kept"]
            assert found.counts["commits looked up"] == 1


async def test_a_connection_that_was_closed_while_it_was_idle_fails_no_write(
    place: PostgresPlace, server: Server
) -> None:
    told = list[DiskError | None]()
    async with opened(place) as found:
        found.on_trouble(told.append)
        await found.write(session("a"))
        assert await keys(found) == ["a"]
        with psycopg.connect(server.url, autocommit=True) as other:
            ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
            assert len(other.execute(ours, (found.application_name,)).fetchall()) == 2
        assert await keys(found) == ["a"]
        await found.write(session("b"))
        assert await keys(found) == ["a", "b"]
    assert told == []


async def test_a_process_whose_schema_another_one_had_to_itself_meanwhile_writes_no_more(own_server: Server) -> None:
    place = fresh_place(own_server)
    async with opened(place) as found:
        await found.write(session("a"))
        await cut_off(found)
        async with opened(place) as other:
            await other.write(session("b"))
        await found.write(session("c"))
        await cut_off(found)
        async with opened(place, alone=True) as restoring:
            await restoring.write(session("d"))
        with pytest.raises(DiskError, match=r"had exclusive use of .* in the meantime"):
            await found.write(session("e"))
        async with opened(place) as after:
            assert await keys(after) == ["a", "b", "c", "d"]


async def cut_off(found: PostgresDatabase) -> None:
    """Close the connection that writes, as when the network between it and Postgres is cut."""
    assert found._writer is not None
    await found._writer.close()


async def test_a_postgres_that_does_not_answer_is_cut_off(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(fresh_place(own_server)) as found:
        await found.write(session("a"))
        with psycopg.connect(own_server.url, options=f"-csearch_path={found.place.schema}") as other:
            other.execute("LOCK TABLE sessions")
            with monkeypatch.context() as short:
                short.setattr(silence, "STALL_SECONDS", 0.3)
                with pytest.raises(DiskError) as refused:
                    await found.write(session("b"))
        assert refused.value.fault is DiskFault.UNREACHABLE
        async with asyncio.timeout(20):
            while True:
                try:
                    await found.write(session("c"))
                    break
                except DiskError:
                    await clock.sleep(0.05)
        assert await keys(found) == ["a", "c"]


async def test_what_keeps_postgres_from_being_opened_is_said_in_words(server: Server) -> None:
    nowhere = PostgresPlace.of("postgresql://goclaw@127.0.0.1:1/goclaw")
    with pytest.raises(StateError, match=r"postgresql://goclaw@127\.0\.0\.1:1/goclaw cannot be opened: .*is Postgres"):
        async with opened(nowhere):
            pytest.fail("opened")
    missing = PostgresPlace.of(server.url.replace("/postgres", "/nowhere"))
    with pytest.raises(StateError, match='database "nowhere" does not exist'):
        async with opened(missing):
            pytest.fail("opened")
    odd = PostgresPlace.of(f"{server.url}?colour=red")
    with pytest.raises(StateError, match="colour"):
        async with opened(odd):
            pytest.fail("opened")


def test_off_this_machine_the_certificate_is_verified_unless_the_address_says_otherwise() -> None:
    def mode(address: str) -> tuple[object, object]:
        found = connecting.parameters(PostgresPlace.of(address))
        return found.get("sslmode"), found.get("sslrootcert")

    assert mode("postgresql://a@db.example.org/x") == ("verify-full", "system")
    assert mode("postgresql://a@127.0.0.1,db.example.org/x") == ("verify-full", "system")
    assert mode("postgresql://a@db/x?sslmode=disable") == ("disable", None)
    assert mode("postgresql://a@db/x?sslrootcert=/ca.pem") == ("verify-full", "/ca.pem")
    assert mode("postgresql://a@127.0.0.1/x") == (None, None)
    assert mode("postgresql:///x?host=/run/postgresql") == (None, None)
