"""What processes know of each other's chats, messages and secret."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from goclaw.channels.telegram.shared_state import SharedChatMigrations, SharedLiveMessageIds
from goclaw.channels.telegram.webhook import agreed_secret, is_kept
from goclaw.config.state import WEBHOOK_SECRET
from goclaw.config.values import PostgresPlace
from goclaw.errors import DiskError, DiskFault, OwnershipLost
from goclaw.store.fencing import Fence
from goclaw.store.postgres.channel_state import PostgresChannels
from goclaw.store.postgres.database import PostgresDatabase, open_schema
from goclaw.store.postgres.ownership import PostgresOwnership
from goclaw.store.postgres.state_files import StateFiles
from tests.acceptance.waiting import clock


class Holding(PostgresOwnership):
    """Holds what the test has taken."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, clock)
        self.taken: dict[str, Fence] = {}

    def fence_of(self, session: str) -> Fence | None:
        return self.taken.get(session)


@dataclass
class Process:
    """One process's view."""

    folder: Path
    database: PostgresDatabase
    sharing: PostgresChannels
    files: StateFiles
    ids: SharedLiveMessageIds
    moved: SharedChatMigrations
    ownership: "Holding"

    async def secret(self) -> str:
        return await agreed_secret(self.folder, self.files.agree)

    async def take(self, *turns: str) -> None:
        """Take the sessions of turns, and read what is known of their previews."""
        for session in map(session_of, turns):
            self.ownership.taken[session] = await self.database.take(session)
            await self.ids.take(session)

    def kept(self) -> str:
        return (self.folder / "secrets" / WEBHOOK_SECRET).read_text()


@asynccontextmanager
async def process(place: PostgresPlace, folder: Path) -> AsyncIterator[Process]:
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    async with open_schema(place, clock) as database:
        ownership = Holding(database)
        sharing = PostgresChannels(database, ownership, clock)
        ids = SharedLiveMessageIds(folder / "ids.json", sharing)
        ids.session_of = session_of
        moved = SharedChatMigrations(folder / "moved.json", sharing)
        yield Process(folder, database, sharing, StateFiles(database, folder, clock), ids, moved, ownership)


def session_of(turn: str) -> str:
    return f"session of {turn}"


@pytest.mark.promise("P-telegram-replicas")
async def test_of_first_starts_at_the_same_time_all_get_one_secret(place: PostgresPlace, tmp_path: Path) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        for each in (one, two):
            await each.files.settle()
        secrets = set(await asyncio.gather(*(each.secret() for each in (one, two, one, two))))
        assert len(secrets) == 1
        [secret] = secrets
        assert len(secret) >= 32
        assert {one.kept(), two.kept()} == {secret}
        assert is_kept(secret, one.folder) and not is_kept("of the operator", one.folder)
        for each in (one, two):
            assert await each.files.send_changes() == 0, "the folder has what the database has"
            mode = (each.folder / "secrets" / WEBHOOK_SECRET).stat().st_mode
            assert mode & 0o777 == 0o600
    async with process(place, tmp_path / "three") as three:
        await three.files.settle()
        assert await three.secret() == secret


async def test_a_secret_of_before_stays_and_one_that_lost_is_replaced(place: PostgresPlace, tmp_path: Path) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        for each, words in ((one, b"of one"), (two, b"of two")):
            (each.folder / "secrets").mkdir(mode=0o700)
            (each.folder / "secrets" / WEBHOOK_SECRET).write_bytes(words)
        assert [await one.secret(), await two.secret()] == ["of one", "of one"]
        assert two.kept() == "of one"


@pytest.mark.promise("P-telegram-live")
async def test_the_process_that_takes_a_session_finds_the_preview_of_the_one_before(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await one.take("t1", "t2")
        await one.ids.intend("t1", "half of it")
        await two.take("t1")
        assert two.ids.is_lost("t1") and two.ids.may_say("t1", "half of it")
        await one.take("t1")
        await one.ids.remember("t1", 77)
        await one.ids.remember("t2", 78)
        assert two.ids.message_of("t1") is None, "it is another's yet"
        await two.take("t1")
        assert (two.ids.message_of("t1"), two.ids.message_of("t2")) == (77, None)
        # An interim text takes the message over; the turn goes on in another one.
        assert await two.ids.hand_over("t1", "t1:interim") == 77
        await one.take("t1")
        assert (one.ids.message_of("t1:interim"), await one.ids.hand_over("t1", "t1:interim")) == (77, 77)
    async with process(place, tmp_path / "three") as three:
        await three.take("t1")
        assert (three.ids.message_of("t1"), three.ids.message_of("t1:interim")) == (None, 77)


async def test_a_migration_is_known_to_the_process_that_hears_of_the_new_chat_first(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await two.moved.look(-5)
        await one.moved.remember(-5, -1005)
        await one.moved.remember(-1005, -1006)
        await two.moved.look(-1006)
        assert (two.moved.origin(-1006), two.moved.current(-5)) == (-5, -1006)


async def test_files_of_before_are_put_into_the_store(place: PostgresPlace, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "moved.json").write_bytes(orjson.dumps({"-5": -1005}))
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        for _ in range(2):
            await one.moved.put_into_store()
        await two.moved.look(-1005)
        assert two.moved.origin(-1005) == -5


async def test_a_migration_that_cannot_be_kept_is_heard_of_again(
    place: PostgresPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with process(place, tmp_path / "one") as one:

        async def refuse(facts: object) -> None:
            raise DiskError("away", DiskFault.UNREACHABLE)

        with monkeypatch.context() as patch:
            patch.setattr(one.sharing, "learn", refuse)
            with pytest.raises(DiskError):
                await one.moved.remember(-5, -1005)
        await one.moved.remember(-5, -1005)
        async with process(place, tmp_path / "two") as two:
            await two.moved.look(-1005)
            assert two.moved.origin(-1005) == -5


async def test_a_preview_that_another_process_handed_over_meanwhile_grows_no_further(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await one.take("t1")
        await one.ids.remember("t1", 77)
        await two.take("t1")
        assert await two.ids.hand_over("t1", "t1:interim") == 77
        await one.take("t1")
        assert one.ids.message_of("t1") is None, "the next text would be edited into the interim one"
        assert one.ids.message_of("t1:interim") == 77


@pytest.mark.promise("P-repeat-marked")
async def test_a_process_that_was_paused_does_not_replace_what_the_next_owner_knows_of_a_preview(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await one.take("t1")
        await two.take("t1")
        assert await two.ids.intend("t1", "half of it")
        await two.ids.remember("t1", 78)
        # It goes on where it was paused: in the middle of the same turn.
        assert not await one.ids.intend("t1", "what it was about to say")
        await one.ids.remember("t1", 77)
        assert not await one.ids.keep("t1")
        with pytest.raises(OwnershipLost):
            await one.ids.hand_over("t1", "t1:interim")
    async with process(place, tmp_path / "three") as three:
        await three.take("t1")
        assert three.ids.message_of("t1") == 78


async def test_a_chat_that_was_heard_of_before_its_migration_is_known_after_it(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with process(place, tmp_path / "one") as one, process(place, tmp_path / "two") as two:
        await two.moved.look(-1005, is_message=False)
        await one.moved.remember(-5, -1005)
        await two.moved.look(-1005)
        assert two.moved.origin(-1005) == -5
