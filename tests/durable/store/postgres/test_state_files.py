"""The state folder and the database as a whole: a copy of the store, and what every gateway follows."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.config.state import SET_ASIDE, SHARED_FILES
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.durable.store.open import open_database
from goclaw.durable.store.postgres.state_audits import copy_audits
from goclaw.durable.store.postgres.state_files import StateFiles
from goclaw.durable.store.postgres.stored_files import StoredFiles, stored_file
from goclaw.errors import StateError
from tests.durable.store.postgres.gateways import AUDIT, NOTE, USERS, edit


@pytest.mark.promise("P-store-copy")
async def test_what_is_sent_as_a_whole_takes_the_place_of_what_was_there(place: PostgresPlace, tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for name in (USERS, NOTE):
        edit(elsewhere, name, "theirs")
    edit(here, USERS, "ours")
    edit(here, AUDIT, "of SQLite\n")
    async with open_database(place) as database:
        await StateFiles(database, elsewhere, SteppedClock()).begin()
        files = StateFiles(database, here, SteppedClock())
        await files.send_all()
        assert await files.compare() == 2 and AUDIT in await StoredFiles(database).all()
        kept = sorted(path.read_text() for path in (here / SET_ASIDE).rglob("*") if path.is_file())
        assert kept == ["theirs", "theirs"]
        edit(here, USERS, "changed")
        with pytest.raises(StateError, match=rf"not the same in {here} and in the database: {USERS}"):
            await StateFiles(database, here, SteppedClock()).compare()
        await StateFiles(database, here, SteppedClock()).begin()
        assert (await StoredFiles(database).all())[USERS].sha256 == stored_file(b"changed", 0, 0.0).sha256


@pytest.mark.parametrize(
    "name",
    [
        "logs/audit-../../outside.jsonl",
        "logs/audit.jsonl/../../../outside.md",
        "blobs/media/" + "../" * 18 + "outside.md",
    ],
)
async def test_a_name_that_no_gateway_stores_is_written_nowhere(
    place: PostgresPlace, tmp_path: Path, name: str
) -> None:
    here = tmp_path / "here"
    here.mkdir(mode=0o700)
    async with open_database(place) as database:
        stored = StoredFiles(database)
        for each in (name, f"{name}.type"):
            await stored.put(each, None, stored_file(b"x", 0o600, 1.0), b"x")
        files = StateFiles(database, here, SteppedClock())
        await files.begin()
        await files.media.sync()
        await files.audits.fetch()
        files._miss()
        await files.follow_news()
        await files.send_all()
        assert await files.compare() == 0
    await asyncio.to_thread(copy_audits, place, here, tmp_path / "copies")
    assert files_below(tmp_path) == [SHARED_FILES]


def files_below(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]
