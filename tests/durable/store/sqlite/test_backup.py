"""A copy of the database is whole and sound, whatever the daemon does meanwhile."""

import asyncio
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Address, Delivery
from goclaw.common.core.messages import Image, UserMessage
from goclaw.common.core.supervise import background
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.sqlite.backup import NEWEST, check_database, copy_database, needed_media, referred_media
from goclaw.durable.store.transcripts import Origin, rows_of
from goclaw.errors import StateError
from tests.parts import sql

pytestmark = pytest.mark.sqlite("copies and checks a file of SQLite")


def said(text: str, session: str = "tui:ann", images: tuple[Image, ...] = ()) -> list[BoundStatement]:
    return rows_of(UserMessage(text, images), Origin(session, f"turn:{text}", "user", 1.0))


def texts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT text FROM messages ORDER BY id")]


async def test_what_is_committed_is_in_the_copy_and_half_a_transaction_never_is(tmp_path: Path) -> None:
    """Every transaction writes two rows; a copy that was made at any moment holds an even number of them."""
    async with open_database(tmp_path / "goclaw.db") as database:
        counts: list[int] = []
        async with asyncio.timeout(50), background(write_pairs(database), "writing"):
            while len(counts) < 20 or len(set(counts)) < 3:
                copy = tmp_path / f"copy-{len(counts)}.db"
                assert await asyncio.to_thread(copy_database, tmp_path / "goclaw.db", copy) == NEWEST
                counts.append(len(texts(copy)))
    assert all(each % 2 == 0 for each in counts), counts
    assert counts == sorted(counts)


async def write_pairs(database: Database) -> None:
    for number in count():
        await database.write(*said(f"{number} a"), *said(f"{number} b"), durable=number % 10 == 0)


async def test_the_daemon_writes_on_while_a_copy_reads(tmp_path: Path) -> None:
    async with open_database(tmp_path / "goclaw.db") as database:
        await database.write(*said("before"))
        with closing(sqlite3.connect(f"file:{tmp_path / 'goclaw.db'}?mode=ro", uri=True)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM messages").fetchone()[0] == 1
            async with asyncio.timeout(20):
                await database.write(*said("meanwhile"), durable=True)
            assert reader.execute("SELECT count(*) FROM messages").fetchone()[0] == 1


async def test_a_copy_is_one_private_file(tmp_path: Path, database: Database) -> None:
    await database.write(*said("hello"))
    copy_database(tmp_path / "goclaw.db", tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "copy.db-wal").exists()


async def test_what_was_deleted_is_not_in_a_copy(tmp_path: Path, database: Database) -> None:
    await database.write(*said("the secret of the pyramids " * 100))
    await database.write(sql("DELETE FROM messages"))
    copy_database(tmp_path / "goclaw.db", tmp_path / "copy.db")
    assert b"pyramids" not in (tmp_path / "copy.db").read_bytes()


async def test_pictures_of_conversations_are_found(tmp_path: Path, database: Database) -> None:
    await database.write(*said("look", images=(Image("a" * 64, "image/png"), Image("b" * 64, "image/png"))))
    await database.write(*said("again", images=(Image("a" * 64, "image/png"),)), *said("nothing to see"))
    await database.write(sent("c" * 64), sent(None))
    assert referred_media(tmp_path / "goclaw.db") == {"a" * 64, "b" * 64, "c" * 64}
    assert needed_media(tmp_path / "goclaw.db") == {"a" * 64, "b" * 64}, "what was sent is there"


def sent(media: str | None) -> BoundStatement:
    """The row of a delivery."""
    delivery = Delivery(f"d:{media}", Address("telegram", "5"), "hello", media=media)
    row = {"id": delivery.id, "body": Codec[Delivery](Delivery).to_json(delivery)}
    return sql(
        "INSERT INTO deliveries (id, channel, chat, body, state, created_at) "
        "VALUES (:id, 'telegram', '5', :body, 'sent', 1)",
        **row,
    )


def test_no_database_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="has not run with this state folder"):
        copy_database(tmp_path / "goclaw.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


async def test_a_damaged_database_is_not_copied_as_if_it_were_sound(tmp_path: Path) -> None:
    path = tmp_path / "goclaw.db"
    async with open_database(path) as database:
        for number in range(300):
            await database.write(*said(f"{number} " * 200))
    with path.open("r+b") as file:
        for page in range(5, 60):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with pytest.raises(StateError, match=r"cannot be copied|damaged"):
        copy_database(path, tmp_path / "copy.db")


@pytest.mark.promise("P-damaged-kept")
async def test_a_database_of_a_newer_goclaw_is_refused(tmp_path: Path, database: Database) -> None:
    with closing(sqlite3.connect(tmp_path / "goclaw.db")) as connection:
        connection.execute(f"PRAGMA user_version={NEWEST + 1}")
    with pytest.raises(StateError, match="newer version"):
        copy_database(tmp_path / "goclaw.db", tmp_path / "copy.db")


@pytest.mark.parametrize("content", [b"", b"no database at all", b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.db").write_bytes(content)
    with pytest.raises(StateError, match=r"odd\.db"):
        check_database(tmp_path / "odd.db")


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "cookies.db")) as connection:
        connection.execute("CREATE TABLE cookies (a)")
    with pytest.raises(StateError, match="is not a GoClaw database"):
        check_database(tmp_path / "cookies.db")
