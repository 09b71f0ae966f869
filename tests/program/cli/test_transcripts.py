"""A conversation is read the same way from the daemon and from the disk, with the same rights."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.events import CompactionRecord
from goclaw.common.core.messages import UserMessage
from goclaw.common.core.wire import MAX_FRAME, SERVER_FRAME, ServerFrame
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import StoredCompaction
from goclaw.errors import AccessDenied, StateError
from goclaw.gateway.servers import terminals as socket_module
from goclaw.gateway.servers.socket_file import bound_socket, open_socket
from goclaw.gateway.servers.terminals import serve_owner
from goclaw.program.cli import transcripts as source_module
from goclaw.program.cli.transcripts import ConversationSource, Entry, entries, find_outline, open_source
from tests.durable.store.saying import Story, talk
from tests.harness import World
from tests.parts import sql

SESSION = "tui:me"


@asynccontextmanager
async def told(folder: Path) -> AsyncIterator[Config]:
    """A state folder with a conversation in it."""
    config = Config(state_dir=folder / "state")
    config.state_dir.mkdir(mode=0o700)
    async with open_database(config.database_path) as database:
        story = Story(database)
        await story.turn(SESSION, "a:1", 0.0, *talk("one"))
        rows = await story.turn(SESSION, "a:2", 10.0, *talk("two"))
        await story.transcripts.add_compaction(SESSION, StoredCompaction("told", "LLM", rows[0], 9, 1, at=11.0))
        await story.turn("telegram:5", "b:1", 20.0, UserMessage("hello"))
    yield config


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def read(source: ConversationSource, *, full: bool = True, last: int = 0) -> list[Entry]:
    outline = await find_outline(source, SESSION, last)
    return [entry async for entry in entries(source, outline, full=full)]


def short(found: list[Entry]) -> list[int | str]:
    return [entry.summary if isinstance(entry, CompactionRecord) else entry.row for entry in found]


@pytest.mark.parametrize(
    ("full", "last", "shown"),
    [
        (True, 0, [1, 2, 3, 4, 5, "told", 6, 7, 8, 9, 10]),
        (False, 0, ["told", 6, 7, 8, 9, 10]),
        (False, 2, [9, 10]),
        (True, 3, [7, 8, 9, 10]),
        (True, 5, [5, "told", 6, 7, 8, 9, 10]),
        (False, 5, ["told", 6, 7, 8, 9, 10]),
        (True, 99, [1, 2, 3, 4, 5, "told", 6, 7, 8, 9, 10]),
    ],
)
async def test_a_transcript_is_shown_whole_in_part_or_as_the_model_has_it(
    tmp_path: Path, full: bool, last: int, shown: list[int | str]
) -> None:
    async with told(tmp_path) as config, open_source(config, SESSION) as source:
        assert short(await read(source, full=full, last=last)) == shown


async def test_the_daemon_gives_the_same_as_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with told(tmp_path) as config:
        async with open_source(config, SESSION) as source:
            expected, sessions = await read(source), await source.sessions()
        world = World(tmp_path)
        config.database_path.rename(tmp_path / "goclaw.db")
        async with world.running() as core:
            async with open_socket(config.socket_path, core.gateway, world.clock, lambda: ""):
                monkeypatch.setattr(source_module, "listens_soon", AsyncMock(return_value=True))
                async with open_source(config, SESSION) as source:
                    assert await read(source) == expected
                    assert await source.sessions() == sessions


MANY = 10_000


async def say_in_many_sessions(database: Database) -> None:
    """Store so many sessions that their list is more than a frame holds: with long keys, two in each second."""
    key, title = f"'telegram:' || n || '{'7' * 85}'", f"'{'🍐' * 80}'"
    numbers = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY})"  # noqa: S608 - ours
    columns = "session, turn, step, role, text, created_at"
    await database.write(
        sql(f"INSERT INTO sessions (key, created_at) {numbers} SELECT {key}, 1 FROM numbers"),  # noqa: S608 - ours
        sql(f"INSERT INTO messages ({columns}) {numbers} SELECT {key}, 't', '', 'user', {title}, n / 2 FROM numbers"),  # noqa: S608 - names of ours
    )


async def test_more_sessions_than_a_frame_holds_are_listed_by_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = list[int]()
    to_json = SERVER_FRAME.to_json

    def measured(frame: ServerFrame) -> str:
        sizes.append(len((written := to_json(frame)).encode()))
        return written

    world = World(tmp_path)

    async def listens(_: Config) -> bool:
        return True

    monkeypatch.setattr(source_module, "listens_soon", listens)
    async with world.running() as core:
        await say_in_many_sessions(core.database)
        path = Config(state_dir=tmp_path / "state").socket_path
        path.parent.mkdir()
        async with open_socket(path, core.gateway, world.clock, lambda: ""):
            monkeypatch.setattr(SERVER_FRAME, "to_json", measured)
            async with open_source(Config(state_dir=tmp_path / "state"), SESSION) as source:
                found = await source.sessions()
        assert found == await core.transcripts.sessions()
    assert len({info.key for info in found}) == len(found) == MANY
    assert [info.place for info in found] == sorted((info.place for info in found), key=lambda at: (-at[0], at[1]))
    assert sum(sizes) > MAX_FRAME and max(sizes) < MAX_FRAME / 2


async def test_a_reader_who_was_slow_goes_on_where_he_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon hangs up on clients that are silent for long: somebody reads the first page in `less`."""
    monkeypatch.setattr(source_module, "listens_soon", AsyncMock(return_value=True))
    world = World(tmp_path)
    async with world.running() as core:
        for number in range(250):
            await Story(core.database).turn(SESSION, f"a:{number}", float(number), UserMessage(str(number)))
        path = Config(state_dir=tmp_path / "state").socket_path
        path.parent.mkdir()
        with bound_socket(path) as socket:
            async with (
                serve_owner(socket, core.gateway, world.clock, lambda: "") as server,
                open_source(Config(state_dir=tmp_path / "state"), SESSION) as source,
            ):
                outline, seen = await find_outline(source, SESSION), list[Entry]()
                async for entry in entries(source, outline, full=True):
                    seen.append(entry)
                    if len(seen) in (1, 150):
                        await server.end()
                assert len(short(seen)) == 250 == len(set(short(seen)))


async def test_a_session_that_is_not_there_has_a_neighbour(tmp_path: Path) -> None:
    async with told(tmp_path) as config:
        async with open_source(config, "telegarm:5") as source:
            with pytest.raises(StateError, match=r"no session `telegarm:5`; did you mean `telegram:5`\?"):
                await find_outline(source, "telegarm:5")
        async with open_source(config, "x") as source:
            with pytest.raises(StateError, match="`goclaw sessions list` shows"):
                await find_outline(source, "x")


async def test_who_may_not_read_it_is_refused_with_the_rule(tmp_path: Path) -> None:
    async with told(tmp_path) as config:
        config.users_path.write_text('{"users": {"tui:me": {"session": "team"}, "tui:eve": {}}}')
        with pytest.raises(StateError, match="there is no session"):
            async with open_source(config, SESSION) as source:
                await find_outline(source, SESSION)  # his own is `team`, which is empty
        async with open_source(config, "tui:eve") as source:
            assert await source.sessions() == []


async def test_a_listed_login_without_rights_reads_no_other_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_module, "login_name", lambda: "eve")
    async with told(tmp_path) as config:
        config.users_path.write_text('{"users": {"tui:eve": {}}}')
        with pytest.raises(AccessDenied, match="telegram:5 is not a session of tui:eve"):
            async with open_source(config, "telegram:5"):
                raise AssertionError("it must not open")


async def test_looking_makes_nothing(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path / "state")
    async with open_source(config) as source:
        assert await source.sessions() == () and await source.page(0) == ()
        with pytest.raises(StateError, match="no session"):
            await find_outline(source, "x")
    assert names(tmp_path) == []
