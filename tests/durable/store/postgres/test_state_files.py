"""Files of the state folder that Postgres has, too: an empty folder gets them, and no change is lost."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.state import SET_ASIDE, SHARED_FILES, WEBHOOK_SECRET
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.state_audits import copy_audits
from goclaw.durable.store.postgres.state_files import Settled, StateFiles
from goclaw.durable.store.postgres.stored_files import PIECE, StoredFiles, stored_file
from goclaw.errors import StateError, ToolError
from goclaw.program.ops.doctor.state import check_database
from tests.parts import sql

USERS, NOTE = "users.json", "notes/telegram-5/tea.md"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir(mode=0o700)
    return tmp_path / "here"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    return tmp_path / "elsewhere"


def put(folder: Path, name: str, content: bytes | str, mode: int = 0o600) -> None:
    path = folder / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


def names(folder: Path) -> list[str]:
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name != SHARED_FILES)


@asynccontextmanager
async def together(place: PostgresPlace, folder: Path) -> AsyncIterator[StateFiles]:
    """A gateway's files, from its start to its end."""
    async with open_database(place) as database:
        files = StateFiles(database, folder, SteppedClock())
        await files.settle()
        await files.settle_media()
        yield files
        await files.send_changes()


@asynccontextmanager
async def media(place: PostgresPlace, folder: Path) -> AsyncIterator[tuple[Blobs, StateFiles]]:
    async with (
        together(place, folder) as files,
        open_blobs(folder / "blobs", SteppedClock(), files) as blobs,
    ):
        yield blobs, files


@pytest.mark.promise("P-store-files")
async def test_an_empty_folder_gets_every_file_with_its_mode_and_time(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    made = f"secrets/{WEBHOOK_SECRET}"
    contents = {
        USERS: b'{"users": {}}',
        made: b"s",
        NOTE: "Grüße".encode(),
        "telegram-moved.json": b"[]",
        "notes/a/empty.md": b"",
    }
    for name, content in contents.items():
        put(here, name, content, 0o640 if name == USERS else 0o600)
    async with together(place, here):
        pass
    async with together(place, elsewhere):
        assert {name: (elsewhere / name).read_bytes() for name in names(elsewhere)} == contents
        for name in contents:
            ours, theirs = (here / name).stat(), (elsewhere / name).stat()
            assert (theirs.st_mode, theirs.st_mtime) == (ours.st_mode, ours.st_mtime)
        assert {(elsewhere / name).stat().st_mode & 0o777 for name in ("notes", "notes/a", "secrets")} == {0o700}


@pytest.mark.promise("P-store-files")
async def test_what_is_secret_or_belongs_to_a_machine_is_not_sent(place: PostgresPlace, here: Path) -> None:
    passing = ("notes/.x.tmp", "users.json.new", "users.json.before-restore-20261121T160000Z")
    for name in ("secrets/token", "config.yaml", "logs/goclaw.log", "daemon.json", "goclaw.db", *passing):
        put(here, name, "x")
    (here / "notes" / "link.md").symlink_to(here / "config.yaml")
    async with open_database(place) as database:
        await StateFiles(database, here, SteppedClock()).settle()
        assert await StoredFiles(database).all() == {}


@pytest.mark.parametrize(
    "name",
    [
        "../outside.md",
        "/outside-of-goclaw.md",
        "notes/../../outside.md",
        "config.yaml",
        "plugins/evil.py",
        "secrets/token",
        "notes//twice.md",
        "logs/audit-../../outside.jsonl",
        "logs/audit.jsonl/../../../outside.md",
        "blobs/media/" + "../" * 18 + "outside.md",
    ],
)
async def test_a_name_that_no_gateway_stores_is_written_nowhere(
    place: PostgresPlace, here: Path, tmp_path: Path, name: str
) -> None:
    before = names(tmp_path)
    async with open_database(place) as database:
        stored = StoredFiles(database)
        for each in (name, f"{name}.type"):
            await stored.put(each, None, stored_file(b"x", 0o600, 1.0), b"x")
        files = StateFiles(database, here, SteppedClock())
        await files.settle()
        await files.settle_media()
        await files.fetch_audits()
        files._hear(name)
        await files.fetch_changes()
        await files.send_all()
        assert await files.compare() == 0
    await asyncio.to_thread(copy_audits, place, here, tmp_path / "copies")
    assert [each for each in names(tmp_path) if not each.endswith(SHARED_FILES)] == before


@pytest.mark.promise("P-store-files")
async def test_what_is_changed_made_and_removed_while_it_runs_is_found_elsewhere(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    put(here, USERS, "1")
    put(here, NOTE, "tea")
    async with together(place, here) as files:
        put(here, USERS, "2")
        put(here, "notes/telegram-5/new.md", "n")
        (here / NOTE).unlink()
        assert await files.send_changes() == 3
        assert await files.send_changes() == 0
    async with together(place, elsewhere):
        assert names(elsewhere) == ["notes/telegram-5/new.md", USERS]
        assert (elsewhere / USERS).read_text() == "2"


@pytest.mark.promise("P-store-files")
async def test_what_is_added_to_a_file_is_sent_alone_and_a_file_that_was_rewritten_as_a_whole(
    place: PostgresPlace, here: Path
) -> None:
    path = here / "logs" / "audit.jsonl"
    put(here, "logs/audit.jsonl", "1\n")
    async with open_database(place) as database:
        files = StateFiles(database, here, SteppedClock())
        await files.settle()
        for number in range(2, 6):
            with path.open("a") as file:
                file.write(f"{number}\n")
            assert await files.send_changes() == 1
        assert await pieces(database) == 5
        path.rename(path.with_name("audit.jsonl.1"))
        put(here, "logs/audit.jsonl", "6\n")
        assert await files.send_changes() == 2
        put(here, "logs/audit.jsonl.1", "blanked\n")
        assert await files.send_changes() == 1
        assert await pieces(database) == 2
    async with open_database(place) as database:
        stored = StoredFiles(database)
        found = {name: await stored.data(name, entry) for name, entry in (await stored.all()).items()}
        newest = f"logs/audit-{files.chain}.jsonl"
        assert found == {newest: b"6\n", f"{newest}.1": b"blanked\n"}


async def test_a_change_of_the_same_size_in_the_same_moment_is_seen(place: PostgresPlace, here: Path) -> None:
    put(here, USERS, "1")
    async with together(place, here) as files:
        for content in "2345":
            put(here, USERS, content)
            assert await files.send_changes() == 1


@pytest.mark.promise("P-store-files")
async def test_a_folder_that_was_left_behind_gets_what_changed_and_keeps_nothing_that_was_removed(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    put(here, USERS, "old")
    put(here, NOTE, "tea")
    async with together(place, here):
        pass
    async with together(place, elsewhere):
        put(elsewhere, USERS, "new")
        (elsewhere / NOTE).unlink()
    async with together(place, here):
        assert names(here) == [USERS] and (here / USERS).read_text() == "new"


@pytest.mark.promise("P-store-files")
async def test_what_was_changed_while_nothing_ran_is_sent_at_the_start(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    put(here, USERS, "1")
    put(here, NOTE, "tea")
    async with together(place, here):
        pass
    put(here, USERS, "2")
    (here / NOTE).unlink()
    async with together(place, here):
        pass
    async with together(place, elsewhere):
        assert names(elsewhere) == [USERS] and (elsewhere / USERS).read_text() == "2"


@pytest.mark.promise("P-store-files")
async def test_of_two_changes_the_one_in_the_database_counts_and_the_other_is_kept(
    place: PostgresPlace, here: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(here, USERS, "1")
    async with together(place, here):
        pass
    async with together(place, elsewhere):
        put(elsewhere, USERS, "theirs")
    put(here, USERS, "ours")
    async with together(place, here):
        assert (here / USERS).read_text() == "theirs"
        (aside,) = (here / SET_ASIDE).rglob(USERS)
        assert aside.read_text() == "ours"
        assert f"{USERS} is another one in the database, which counts" in caplog.text
    config = Config.model_validate({"state_dir": here, "store": f"{place.url}?schema={place.schema}"})
    assert "has 1 files that differ from the database" in str(check_database(config))


@pytest.mark.promise("P-store-files")
async def test_what_is_newer_than_a_database_that_was_restored_is_kept(place: PostgresPlace, here: Path) -> None:
    put(here, USERS, "old")
    async with together(place, here):
        pass
    async with open_database(place) as database:
        stored = StoredFiles(database)
        old = (await stored.all())[USERS]
        put(here, USERS, "new")
        files = StateFiles(database, here, SteppedClock())
        await files.settle()
        assert (await stored.all())[USERS] != old
        await stored.put(USERS, (await stored.all())[USERS].sha256, old, b"old")
        assert await StateFiles(database, here, SteppedClock()).settle() == Settled(sent=0, fetched=0, set_aside=1)
    assert (here / USERS).read_text() == "old"
    (aside,) = (here / SET_ASIDE).rglob(USERS)
    assert aside.read_text() == "new"


async def test_a_folder_that_is_emptied_while_it_runs_removes_nothing_elsewhere(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    put(here, USERS, "1")
    async with open_database(place) as database:
        files = StateFiles(database, here, SteppedClock())
        await files.settle()
        for name in (USERS, SHARED_FILES):
            (here / name).unlink()
        with pytest.raises(StateError, match="was emptied or is no longer mounted"):
            await files.send_changes()
    async with together(place, elsewhere):
        assert (elsewhere / USERS).read_text() == "1"


async def test_a_file_that_cannot_be_moved_counts(
    place: PostgresPlace, here: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(elsewhere, USERS, "theirs")
    async with together(place, elsewhere):
        pass
    put(here, USERS, "mounted")
    put(here, SET_ASIDE, "no folder can be made here")
    async with together(place, here):
        assert (here / USERS).read_text() == "mounted"
        assert "this one counts, for it cannot be moved" in caplog.text
    async with together(place, elsewhere):
        assert (elsewhere / USERS).read_text() == "mounted"


async def test_a_large_file_comes_in_pieces_and_a_damaged_one_is_refused(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    content = bytes(range(256)) * (2 * PIECE // 256) + b"end"
    put(here, NOTE, content)
    async with together(place, here):
        pass
    async with together(place, elsewhere):
        assert (elsewhere / NOTE).read_bytes() == content
        (elsewhere / NOTE).unlink()
    put(here, NOTE, content)
    async with open_database(place) as database:
        (here / SHARED_FILES).unlink()
        await StateFiles(database, here, SteppedClock()).send_all()
        assert await pieces(database) == 3
        await database.write(sql("DELETE FROM state_file_pieces WHERE number = 1"))
        (here / NOTE).unlink()
        (here / SHARED_FILES).unlink()
        with pytest.raises(StateError, match=f"{NOTE} is damaged in the database"):
            await StateFiles(database, here, SteppedClock()).settle()


async def pieces(database: Database) -> int:
    [(count,)] = await database.read(sql("SELECT count(*) FROM state_file_pieces"))
    return int(count)


@pytest.mark.promise("P-store-files")
async def test_a_picture_is_in_the_database_when_it_is_put_and_another_folder_gets_it(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    async with media(place, here) as (blobs, _):
        key = await blobs.put(b"picture", "image/png")
        (here / "blobs/media" / key).unlink()
        (here / "blobs/media" / f"{key}.type").unlink()
        assert await blobs.keep(key)
        assert (await blobs.get(key), await blobs.mime(key)) == (b"picture", "image/png")
    async with media(place, elsewhere) as (blobs, _):
        assert (elsewhere / "blobs/media" / key).read_bytes() == b"picture"
        assert await blobs.mime(key) == "image/png"
        with pytest.raises(ToolError, match="no such media"):
            await blobs.get("0" * 64)


@pytest.mark.promise("P-store-files")
@pytest.mark.promise("P-forgotten")
async def test_a_picture_that_was_removed_elsewhere_does_not_come_back(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    async with media(place, here) as (blobs, _):
        gone, stays = await blobs.put(b"gone", "image/png"), await blobs.put(b"stays", "image/png")
    async with media(place, elsewhere) as (blobs, _):
        assert await blobs.remove_media({gone}, SteppedClock().now() + 1e6) == set()
    async with media(place, here) as (blobs, _):
        assert await blobs.get(stays) == b"stays"
        with pytest.raises(ToolError, match="no such media"):
            await blobs.get(gone)
        assert not list((here / "blobs/media").glob(f"{gone}*"))
    async with open_database(place) as database:
        assert [name for name in await StoredFiles(database).all() if gone in name] == []


@pytest.mark.promise("P-store-files")
async def test_pictures_that_only_the_folder_has_are_sent_at_the_start(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    async with open_blobs(here / "blobs", SteppedClock()) as alone:
        key = await alone.put(b"from SQLite's time", "image/png")
    async with media(place, here):
        pass
    async with media(place, elsewhere) as (blobs, _):
        assert await blobs.get(key) == b"from SQLite's time"


@pytest.mark.promise("P-store-copy")
async def test_what_is_sent_as_a_whole_takes_the_place_of_what_was_there(
    place: PostgresPlace, here: Path, elsewhere: Path
) -> None:
    put(elsewhere, USERS, "theirs")
    put(elsewhere, NOTE, "theirs")
    async with together(place, elsewhere):
        pass
    put(here, USERS, "ours")
    async with open_database(place) as database:
        files = StateFiles(database, here, SteppedClock())
        await files.send_all()
        assert await files.compare() == 1
    kept = sorted(path.read_text() for path in (here / SET_ASIDE).rglob("*") if path.is_file())
    assert kept == ["theirs", "theirs"]
    put(here, USERS, "changed")
    async with open_database(place) as database:
        with pytest.raises(StateError, match=rf"not the same in {here} and in the database: {USERS}"):
            await StateFiles(database, here, SteppedClock()).compare()


@pytest.mark.promise("P-store-files")
async def test_a_file_whose_name_is_no_text_holds_up_no_other(
    place: PostgresPlace, here: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(here, NOTE, "tea")
    (here / os.fsdecode(b"notes/telegram-5/caf\xe9.md")).write_text("coffee")
    async with together(place, here) as files:
        put(here, USERS, '{"users": {}}')
        await files.send_changes()
        await files.send_changes()
    async with together(place, elsewhere):
        assert names(elsewhere) == [NOTE, USERS]
    assert caplog.text.count(r"notes/telegram-5/caf\udce9.md") == 1
