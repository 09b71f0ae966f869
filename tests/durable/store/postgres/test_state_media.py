"""Pictures of several state folders on one schema."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.common.auth.tokens import add_token, read_tokens, revoke_token
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.supervise import background
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.durable.store.database import BoundStatement, ConstraintViolated
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.postgres.state_files import StateFiles
from goclaw.durable.store.postgres.stored_files import StoredFile, StoredFiles
from goclaw.errors import ToolError
from tests.acceptance.waiting import clock
from tests.durable.store.postgres.gateways import TOKENS, Gateway, soon


@asynccontextmanager
async def media(place: PostgresPlace, folder: Path) -> AsyncIterator[Blobs]:
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    async with open_database(place) as database:
        files = StateFiles(database, folder, SteppedClock())
        await files.begin()
        await files.media.sync()
        async with open_blobs(folder / "blobs", SteppedClock(), files.media) as blobs:
            yield blobs


@pytest.mark.promise("P-store-files")
async def test_a_picture_is_in_the_database_when_it_is_put_and_another_folder_gets_it(
    place: PostgresPlace, tmp_path: Path
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    async with media(place, here) as blobs:
        key = await blobs.put(b"picture", "image/png")
        (here / "blobs/media" / key).unlink()
        (here / "blobs/media" / f"{key}.type").unlink()
        assert await blobs.retain(key)
        assert (await blobs.get(key), await blobs.mime(key)) == (b"picture", "image/png")
    async with media(place, elsewhere) as blobs:
        assert (elsewhere / "blobs/media" / key).read_bytes() == b"picture"
        assert await blobs.mime(key) == "image/png"
        with pytest.raises(ToolError, match="no such media"):
            await blobs.get("0" * 64)


@pytest.mark.promise("P-store-files")
@pytest.mark.promise("P-forgotten")
async def test_a_picture_that_was_removed_elsewhere_does_not_come_back(place: PostgresPlace, tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    async with media(place, here) as blobs:
        gone, stays = await blobs.put(b"gone", "image/png"), await blobs.put(b"stays", "image/png")
    async with media(place, elsewhere) as blobs:
        assert await blobs.remove_media({gone}, SteppedClock().now() + 1e6) == set()
    async with media(place, here) as blobs:
        assert await blobs.get(stays) == b"stays"
        with pytest.raises(ToolError, match="no such media"):
            await blobs.get(gone)
        assert not list((here / "blobs/media").glob(f"{gone}*"))
    async with open_database(place) as database:
        assert [name for name in await StoredFiles(database).all() if gone in name] == []


@pytest.mark.promise("P-store-files")
async def test_pictures_that_only_the_folder_has_are_sent_at_the_start(place: PostgresPlace, tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    async with open_blobs(here / "blobs", SteppedClock()) as alone:
        key = await alone.put(b"from SQLite's time", "image/png")
    async with media(place, here):
        pass
    async with media(place, elsewhere) as blobs:
        assert await blobs.get(key) == b"from SQLite's time"


@pytest.mark.promise("P-forgotten")
async def test_a_picture_that_one_removes_leaves_the_folder_of_the_other_but_not_one_that_is_kept_anew(
    gateways: list[Gateway],
) -> None:
    one, two = gateways
    async with (
        open_blobs(one.folder / "blobs", clock, one.files.media) as ours,
        open_blobs(two.folder / "blobs", clock, two.files.media) as theirs,
    ):
        gone, kept = await ours.put(b"gone", "image/png"), await ours.put(b"kept", "image/png")
        assert (await theirs.get(gone), await theirs.get(kept)) == (b"gone", b"kept")
        until = clock.now()
        assert await theirs.put(b"kept", "image/png") == kept
        assert await ours.old_media(clock.now() + 1) == {gone, kept}
        await ours.remove_media({gone, kept}, until + 0.000001)
        await soon(lambda: not list((two.folder / "blobs/media").glob(f"{gone}*")))
        assert await ours.get(kept) == b"kept", "the other one has put it since"
        again = await ours.put(b"gone", "image/png")
        assert again == gone and await theirs.get(gone) == b"gone"


class Swept(StoredFiles):
    """Files of which another gateway removes some right behind a first try to store one that is there."""

    def __init__(self, database: PostgresDatabase, sweep: Callable[[], Awaitable[object]]) -> None:
        super().__init__(database)
        self._sweeps = [sweep]

    async def put(self, name: str, known: str | None, entry: StoredFile, data: bytes, *others: BoundStatement) -> int:
        try:
            return await super().put(name, known, entry, data, *others)
        except ConstraintViolated:
            while self._sweeps:
                await self._sweeps.pop()()
            raise


async def test_a_picture_that_is_swept_while_another_gateway_puts_it_anew_is_whole(gateways: list[Gateway]) -> None:
    one, two = gateways
    async with (
        open_blobs(one.folder / "blobs", clock, one.files.media) as ours,
        open_blobs(two.folder / "blobs", clock, two.files.media) as theirs,
    ):
        key = await ours.put(b"tea", "image/png")
        two.files.media._stored = Swept(two.database, lambda: ours.remove_media({key}, clock.now() + 100))
        assert await theirs.put(b"tea", "image/png") == key
        assert await ours.get(key) == b"tea" and await ours.mime(key) == "image/png"


class Slow(StoredFiles):
    """Files that come once the gate is open."""

    gate: asyncio.Event

    async def get(self, name: str) -> StoredFile | None:
        await self.gate.wait()
        return await super().get(name)


@pytest.mark.promise("P-users-live")
async def test_users_and_tokens_do_not_wait_for_pictures(gateways: list[Gateway], tmp_path: Path) -> None:
    one, _ = gateways
    async with open_blobs(one.folder / "blobs", clock, one.files.media) as blobs:
        key = await blobs.put(b"tea", "image/png")
    folder = tmp_path / "new"
    folder.mkdir(mode=0o700)
    files = StateFiles(one.database, folder, clock)
    await files.begin()
    files.media._stored = slow = Slow(one.database)
    slow.gate = asyncio.Event()
    files.listen()
    async with background(files.follow(), "files"):
        add_token(one.folder / TOKENS, "phone", "telegram:5", 0.0, writer=one.writer)
        await soon(lambda: "phone" in read_tokens(folder / TOKENS))
        revoke_token(one.folder / TOKENS, "phone", one.writer)
        await soon(lambda: "phone" not in read_tokens(folder / TOKENS))
        slow.gate.set()
        await soon(lambda: (folder / "blobs/media" / key).exists())


class Removed(StoredFiles):
    """Files of which another gateway removes one right behind a look at it."""

    def __init__(self, database: PostgresDatabase, remove: Callable[[], Awaitable[object]]) -> None:
        super().__init__(database)
        self._remove_one = remove

    async def get(self, name: str) -> StoredFile | None:
        found = await super().get(name)
        await self._remove_one()
        return found


async def test_a_picture_that_goes_while_it_is_fetched_is_missing_and_not_damaged(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    one, _ = gateways
    async with open_blobs(one.folder / "blobs", clock, one.files.media) as blobs:
        key = await blobs.put(b"tea", "image/png")
        files = StateFiles(one.database, tmp_path / "new", clock)
        files.media._stored = Removed(one.database, lambda: blobs.remove_media({key}, clock.now() + 100))
        (tmp_path / "new").mkdir(mode=0o700)
        assert not await files.media.fetch(key)
