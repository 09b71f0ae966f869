"""A copy of the database to Postgres and back: all rows as they are, or none; never while anything uses them."""

import asyncio
import shutil
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import psycopg
import pytest

from goclaw.channels.telegram.chat_migrations import MOVED_FROM, ChatMigrations
from goclaw.common.config.schema import Config
from goclaw.common.config.state import locality_of, open_state
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.common.core.messages import AssistantMessage, ToolResult, UserMessage
from goclaw.durable.engine.journal import Journal
from goclaw.durable.store.blobs import open_blobs
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.database import Database, insert_into
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres import connecting
from goclaw.durable.store.postgres.ownership_schema import MIGRATION
from goclaw.durable.store.postgres.schema import REWRITER, VERSION
from goclaw.durable.store.schema import schedules
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.sqlite.database import open_file
from goclaw.durable.store.sums import OF_A_STORE, TableSum, sums_of_file
from goclaw.errors import StateError
from goclaw.program.app import open_app
from goclaw.program.ops.store_copy import FOLDER, Place, StoreCopied, copy_store
from tests.acceptance.daemon import ROOT
from tests.acceptance.waiting import eventually
from tests.durable.store.saying import Story
from tests.fake_telegram.server import FakeTelegram
from tests.parts import sql
from tests.postgres import Server

pytestmark = pytest.mark.sqlite("copies between both stores in every run")

JOB = insert_into(schedules, "name", "person", "body", "state", "made_at")
LAST = "media_parts"
"""The table that is copied last: all others have come then."""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})


async def copied(config: Config, source: Place, target: Place, *, replace: bool = False) -> StoreCopied:
    return await copy_store(config, source, target, RealClock(), replace=replace)


async def fill(database: Database) -> None:
    """A bit of everything: what has ended, what is under way, words of every kind, and an id that is gone."""
    story = Story(database)
    result = ToolResult("c1", "exec", "a\0b, ä, 🙂, 'q', \"d\", \\n, \t", is_error=True)
    await story.turn("telegram:5", "a:1", 100.125, UserMessage("Grüße"), AssistantMessage("Hello"), result)
    await story.turn("telegram:5:x", "b:1", 200.1, UserMessage("under way"), ended=False)
    await story.turn("telegram:50", "c:1", 1 / 3, UserMessage(""), AssistantMessage("x" * 200_000))
    await Settings(database).set("telegram:5", "todos", [{"content": "tea\0", "done": False}])
    await Settings(database).learn("summary_health", {"share": 0.1, "names": ["a", "b"]})
    made = [await database.write(JOB(name=name, person="p", body="{}", state="done", made_at=1.0)) for name in "ab"]
    await database.write(sql("DELETE FROM schedules WHERE id = :id", id=made[1][0].lastrowid))
    channels = ChannelRows(database)
    for name in ("open", "ended", "handed over"):
        for part in (-1, 2**40):
            await channels.gather(name, -1005, 5, part, b"{}")
    for name in ("ended", "handed over"):
        await channels.end_group(name, 0.0, 0)
    await channels.hand_over("handed over", keep=False)
    await channels.note_preview("telegram", "telegram:5", "a:1", 7)


@asynccontextmanager
async def filled(config: Config) -> AsyncIterator[Mapping[str, TableSum]]:
    config.state_dir.mkdir(mode=0o700)
    async with open_file(config.database_path) as database:
        await fill(database)
    yield sums_of_file(config.database_path)


async def next_job(place: Place) -> int:
    async with open_database(place) as database:
        [done] = await database.write(JOB(name="new", person="p", body="{}", state="done", made_at=2.0))
        return done.lastrowid


def rows(server: Server, place: PostgresPlace, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as connection:
        return connection.execute(query.encode()).fetchall()


def test_what_is_about_a_schema_is_in_no_copy() -> None:
    assert {VERSION, REWRITER, MIGRATION} <= set(OF_A_STORE)


@pytest.mark.promise("P-store-copy")
async def test_all_rows_come_to_postgres_and_back_as_they_were(config: Config, place: PostgresPlace) -> None:
    async with filled(config) as before:
        there = await copied(config, config.database_path, place)
        assert there.sums == before and there.kept is None
        assert there.shortened == 1
        assert sums_of_file(config.database_path) == before, "the source is as it was"
        async with open_database(place) as database:
            assert [turn.id for turn in await Journal(database).open_turns()] == ["b:1"]
            [(text,)] = await database.read(sql("SELECT text FROM messages WHERE role = 'tool_result'"))
            assert text == "ab, ä, 🙂, 'q', \"d\", \\n, \t"
        config.database_path.rename(config.state_dir / "old.db")
        back = await copied(config, place, config.database_path)
        assert back.sums == before and back.kept is None
        async with open_file(config.database_path) as file:
            assert [turn.id for turn in await Journal(file).open_turns()] == ["b:1"]
        assert config.database_path.stat().st_mode & 0o777 == 0o600
        assert await next_job(place) == 3 and await next_job(config.database_path) == 3, "an id that is gone stays gone"
        assert not list(config.state_dir.glob(f"{FOLDER}*"))


@pytest.mark.promise("P-store-copy")
async def test_the_files_that_postgres_has_come_along(config: Config, place: PostgresPlace, tmp_path: Path) -> None:
    async with filled(config):
        (config.state_dir / "users.json").write_text('{"users": {}}')
        async with open_blobs(config.state_dir / "blobs") as blobs:
            key = await blobs.put(b"picture", "image/png")
        assert (await copied(config, config.database_path, place)).files == 3
        other = Config.model_validate({"state_dir": tmp_path / "other", "models": {"agent": ["demo"]}})
        assert (await copied(other, place, other.database_path)).files == 3
        assert (other.state_dir / "users.json").read_text() == '{"users": {}}'
        async with open_blobs(other.state_dir / "blobs") as blobs:
            assert (await blobs.get(key), await blobs.mime(key)) == (b"picture", "image/png")


@pytest.mark.promise("P-store-copy")
async def test_a_group_that_moved_while_postgres_had_the_database_stays_one_conversation(
    config: Config, place: PostgresPlace
) -> None:
    async with open_database(place) as database:
        await Settings(database).learn(f"{MOVED_FROM}:-1005", -5)
        await Settings(database).learn(f"{MOVED_FROM}:-1006", -1005)
    await copied(config, place, config.database_path)
    async with FakeTelegram() as telegram:
        bot = {"token": telegram.token, "base_url": telegram.base_url}
        values = {"state_dir": config.state_dir, "models": {"agent": ["demo"]}, "telegram": bot}
        async with open_app(Config.model_validate(values)) as app:
            moved = ChatMigrations(ChannelRows(app.foundation.storage.database), is_alone=True)
            await moved.load()
            assert (moved.origin(-1006), moved.current(-5)) == (-5, -1006)


@pytest.mark.promise("P-store-copy")
async def test_rows_of_the_target_are_refused_or_kept(config: Config, place: PostgresPlace, server: Server) -> None:
    async with filled(config) as before:
        (config.state_dir / "users.json").write_text('{"users": {}}')
        async with open_database(place) as database:
            await database.write(sql("INSERT INTO sessions (key, created_at, context_start) VALUES ('other', 1, 0)"))
        with pytest.raises(StateError, match=r"the schema t_\w+ of .* already has rows \(1 of sessions\); `--replace`"):
            await copied(config, config.database_path, place)
        assert rows(server, place, "SELECT count(*) FROM state_files") == [(0,)]
        done = await copied(config, config.database_path, place, replace=True)
        assert done.sums == before and done.kept is not None
        assert locality_of(done.kept.name) is not None
        with closing(sqlite3.connect(done.kept)) as kept:
            assert kept.execute("SELECT key FROM sessions").fetchall() == [("other",)]

        (config.state_dir / "users.json").write_text("changed here")
        with pytest.raises(StateError, match=rf"{config.database_path} already has rows \(.* of messages"):
            await copied(config, place, config.database_path)
        assert (config.state_dir / "users.json").read_text() == "changed here"
        done.kept.unlink()
        again = await copied(config, place, config.database_path, replace=True)
        assert again.kept is not None and sums_of_file(again.kept) == before
        assert sums_of_file(config.database_path) == before


@pytest.mark.promise("P-store-copy")
async def test_nothing_is_copied_while_a_daemon_uses_one_of_the_two(
    config: Config, place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "LOCK_SECONDS", 0.2)
    async with filled(config):
        with open_state(config), pytest.raises(StateError, match=r"uses .*; stop it with `goclaw stop`"):
            await copied(config, config.database_path, place)
        async with open_database(place):
            with pytest.raises(StateError, match=r"another GoClaw .* uses the schema"):
                await copied(config, config.database_path, place)
            with pytest.raises(StateError, match=r"another GoClaw .* uses the schema"):
                await copied(config, place, config.database_path, replace=True)


async def test_a_place_that_was_never_used_or_is_the_same_is_refused(config: Config, place: PostgresPlace) -> None:
    config.state_dir.mkdir()
    with pytest.raises(StateError, match="there is no database yet"):
        await copied(config, config.database_path, place)
    with pytest.raises(StateError, match="there is no database yet"):
        await copied(config, place, config.database_path)
    with pytest.raises(StateError, match="is both the source and the target of the copy"):
        await copied(config, place, place)
    assert not config.database_path.exists()


@pytest.mark.promise("P-store-copy")
async def test_rows_that_come_in_differently_are_taken_back(
    config: Config, place: PostgresPlace, server: Server
) -> None:
    async with filled(config):
        async with open_database(place):
            pass
        change = (
            "CREATE FUNCTION {0}.change() RETURNS trigger AS 'BEGIN NEW.value = 5; RETURN NEW; END' LANGUAGE plpgsql"
        )
        when = "CREATE TRIGGER change BEFORE INSERT ON {0}.session_settings FOR EACH ROW EXECUTE FUNCTION {0}.change()"
        for statement in (change, when):
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(statement.format(place.schema).encode())
        with pytest.raises(
            StateError, match=r"the received data differ from the source: session_settings \(1 and 1 rows\)"
        ):
            await copied(config, config.database_path, place)
        assert rows(server, place, "SELECT count(*) FROM messages") == [(0,)]


async def test_a_damaged_file_is_not_copied(config: Config, place: PostgresPlace) -> None:
    async with filled(config):
        with config.database_path.open("r+b") as file:
            file.seek(20_000)
            file.write(b"\xff" * 8_192)
        with pytest.raises(StateError, match=r"damaged|cannot be copied|could not be copied"):
            await copied(config, config.database_path, place)


@asynccontextmanager
async def held(server: Server, place: PostgresPlace) -> AsyncIterator[None]:
    """Nothing can use the last table meanwhile."""
    async with await psycopg.AsyncConnection.connect(server.url) as other:
        await other.execute(f'LOCK TABLE "{place.schema}".{LAST} IN ACCESS EXCLUSIVE MODE'.encode())
        yield
        await other.rollback()


async def kill_when_it_waits(config: Config, server: Server, to: str, store: str) -> None:
    """Begin a copy as a process of its own, and kill it when it waits for the last table."""
    command = [sys.executable, "-m", "goclaw", "store", "copy", "--to", to]
    environment = {"PYTHONPATH": str(ROOT), "GOCLAW_STATE_DIR": str(config.state_dir), "HOME": str(config.state_dir)}
    environment |= {"GOCLAW_STORE": store} if store else {}
    process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=config.state_dir)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'goclaw%'"

    def waits() -> bool:
        assert process.returncode is None, "it has ended"
        with psycopg.connect(server.url) as connection:
            return connection.execute(waiting.encode()).fetchall() != [(0,)]

    try:
        await eventually(waits)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.slow
@pytest.mark.promise("P-store-copy")
async def test_a_copy_that_is_killed_leaves_the_target_empty_and_is_done_again(
    config: Config, place: PostgresPlace, server: Server
) -> None:
    address = f"{server.url}?schema={place.schema}"
    async with filled(config) as before:
        async with open_database(place):
            pass
        async with held(server, place):
            await kill_when_it_waits(config, server, address, "")
        assert rows(server, place, "SELECT count(*) FROM messages") == [(0,)]
        assert (await copied(config, config.database_path, place)).sums == before

        shutil.move(config.database_path, config.state_dir / "old.db")
        async with held(server, place):
            await kill_when_it_waits(config, server, "sqlite", address)
        assert not config.database_path.exists()
        assert [locality_of(path.name) for path in config.state_dir.glob(f"{FOLDER}*")]
        assert (await copied(config, place, config.database_path)).sums == before
        assert not list(config.state_dir.glob(f"{FOLDER}*"))
