"""A conversation that somebody ordered to be forgotten is gone: from the tables, and from the bytes of the file."""

from pathlib import Path

import pytest
from sqlalchemy import select

from goclaw.common.core.messages import UserMessage
from goclaw.durable.store.checkpoints import CheckpointStore, StoredCheckpoint
from goclaw.durable.store.database import Database, Statement
from goclaw.durable.store.forgetting import Forgetting, PendingDeletion
from goclaw.durable.store.open import open_database
from goclaw.durable.store.schema import metadata
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.spending import Spending
from goclaw.durable.store.sqlite.database import open_file
from goclaw.durable.store.transcripts import StoredCompaction
from tests.durable.store.saying import ANNA, Story, talk

PICTURE, FILE = "ab" * 32, "cd" * 32
OUTPUT = "0123456789abcdef"


async def tell(database: Database, session: str, word: str) -> Story:
    """A session with a bit of everything."""
    story = Story(database)
    rows = await story.turn(session, f"{word}:1", 100.0, *talk(word, image=PICTURE, output=OUTPUT), media=FILE)
    await story.turn(session, f"{word}:2", 200.0, UserMessage(f"{word} again"))
    await story.transcripts.add_compaction(session, StoredCompaction(f"{word} summary", "LLM", rows[1], 9, 1, at=201.0))
    await Settings(database).set(session, "todos", [{"content": f"{word} todo"}])
    await story.sent()
    return story


async def contents(database: Database) -> str:
    """Everything in the tables, as text."""
    rows = [tuple(row) for table in metadata.sorted_tables for row in await database.read(Statement(select(table))())]
    return str(rows)


@pytest.mark.promise("P-history-kept")
async def test_nothing_of_it_is_left_and_other_sessions_keep_everything(database: Database) -> None:
    await tell(database, "a", "apple")
    story = await tell(database, "b", "berry")
    before = await story.transcripts.context("b")
    assert await Forgetting(database).forget("a", 300.0) == 6
    left = await contents(database)
    assert "apple question" not in left and "apple summary" not in left and "apple todo" not in left
    assert "text of apple" not in left and "answer of apple" not in left
    assert await story.transcripts.context("b") == before
    assert [info.key for info in await story.transcripts.sessions()] == ["b"]
    for kept in ("berry question", "berry summary", "berry todo", "text of berry", "answer of berry"):
        assert kept in left


async def test_its_costs_stay_in_the_sums_without_its_name(database: Database) -> None:
    await tell(database, "a", "apple")
    spending = Spending(database)
    before = await spending.by_model()
    await Forgetting(database).forget("a", 300.0)
    assert await spending.by_model() == before
    assert (await spending.of_session("a")).requests == 0
    assert await Story(database).column("SELECT DISTINCT session || turn FROM usage") == [""]


async def test_messages_and_answers_are_still_known_so_that_none_comes_twice(database: Database) -> None:
    story = await tell(database, "a", "apple")
    await Forgetting(database).forget("a", 300.0)
    assert await story.column("SELECT id FROM inbox") == ["apple:1", "apple:2"]
    assert await story.column("SELECT id FROM deliveries") == ["apple:1:deliver:1", "apple:2:deliver:1"]


async def test_numbers_of_rows_are_never_used_again(database: Database) -> None:
    story = await tell(database, "a", "apple")
    last = max(await story.column("SELECT id FROM messages"), key=str)
    for number in range(3):
        await Forgetting(database).forget("a", 300.0)
        rows = await story.turn("a", f"new:{number}", 400.0, UserMessage("hello"))
        assert isinstance(last, int) and rows[0] > last
        last = rows[0]
    assert await story.column("SELECT count(*) FROM messages WHERE session = ''") == [1]


async def test_what_lies_outside_the_database_is_owed_with_the_deletion(database: Database) -> None:
    await tell(database, "a", "apple")
    forgetting = Forgetting(database)
    assert not await forgetting.list_pending()
    await forgetting.forget("a", 300.0)
    assert await forgetting.list_pending() == PendingDeletion(
        frozenset({PICTURE, FILE}), frozenset({(OUTPUT, ANNA)}), True, True, frozenset({"a"})
    )
    await forgetting.replace_pending(PendingDeletion())
    assert not await forgetting.list_pending()


async def test_what_another_process_owes_meanwhile_is_not_settled_with_the_rest(database: Database) -> None:
    one, two = Forgetting(database), Forgetting(database)
    await one.forget("a", 300.0)
    assert (await one.list_pending()).audit == frozenset({"a"})
    await two.forget("b", 300.0)
    await one.replace_pending(PendingDeletion())
    assert (await two.list_pending()).audit == frozenset({"b"})


async def test_what_an_earlier_version_owed_is_owed_on(database: Database) -> None:
    before = {"media": [], "outputs": [], "rewrite": True, "memory": False, "audit": ["a"]}
    await Settings(database).learn("owed deletions", before)
    forgetting = Forgetting(database)
    assert await forgetting.list_pending() == PendingDeletion(rewrite=True, audit=frozenset({"a"}))
    await forgetting.replace_pending(PendingDeletion(audit=frozenset({"a"})))
    assert await forgetting.list_pending() == PendingDeletion(audit=frozenset({"a"}))


async def test_a_summary_that_was_being_written_does_not_bring_the_words_back(database: Database) -> None:
    story = await tell(database, "a", "apple")
    await Forgetting(database).forget("a", 300.0)
    await story.turn("a", "a:9", 400.0, UserMessage("anew"))
    await story.transcripts.add_compaction("a", StoredCompaction("apple late", "LLM", 2, 9, 1, at=401.0, pays=1))
    await CheckpointStore(database).add("a", StoredCheckpoint(6, 100, '{"summary": "apple late"}', 402.0))
    assert "apple late" not in await contents(database)


async def test_what_other_sessions_refer_to_is_known(database: Database) -> None:
    story = await tell(database, "a", "apple")
    await story.turn("b", "b:1", 100.0, UserMessage("no picture"))
    forgetting = Forgetting(database)
    assert await forgetting.referred_media() == {PICTURE, FILE}
    await forgetting.forget("a", 300.0)
    assert await forgetting.referred_media() == frozenset()
    await story.turn("c", "c:1", 100.0, *talk("cherry", image=PICTURE))
    assert await forgetting.referred_media() == {PICTURE}


async def test_unsent_answers_and_open_turns_are_seen(database: Database) -> None:
    story = Story(database)
    forgetting = Forgetting(database)
    await story.turn("a", "a:1", 100.0, UserMessage("hello"))
    await story.turn("a:1", "a:12", 100.0, UserMessage("another session with a like name"))
    assert await forgetting.count_open_work("a") == 1
    assert await forgetting.oldest_open_turn() is None
    await story.turn("a", "a:2", 500.0, UserMessage("wait"), ended=False)
    assert await forgetting.oldest_open_turn() == 500.0
    assert await forgetting.count_open_work("a") == 2
    await story.sent()
    assert await forgetting.count_open_work("a") == 1
    assert (await forgetting.extent("a")).rows == 2 and (await forgetting.extent("a")).first_at == 100.0


@pytest.mark.promise("P-history-kept")
@pytest.mark.sqlite("reads the bytes of the file and its log")
async def test_its_words_are_not_in_the_bytes_of_the_file_or_its_log_any_more(tmp_path: Path) -> None:
    path = tmp_path / "goclaw.db"
    async with open_database(path) as database:
        story = Story(database)
        for number in range(120):
            # Long and short ones, in turns with others: rows move between pages, and long ones have pages of their own.
            for session, word in (("a", "apple"), ("b", "berry")):
                text = f"{word}-{number} " + "x" * (number * 67 % 7_000)
                await story.turn(session, f"{session}{number}:1", 100.0 + number, *talk(text), UserMessage(text))
        await story.sent()
        assert b"apple-7 " in read(path)
        forgetting = Forgetting(database)
        await forgetting.forget("a", 300.0)
        assert await forgetting.rewrite()
        assert b"apple" not in read(path)
        assert b"berry-7 " in read(path)


@pytest.mark.sqlite("a reader holds the log of the file")
async def test_a_reader_that_holds_an_old_view_keeps_the_log_and_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "goclaw.db"
    async with open_file(path) as database:
        await tell(database, "a", "apple")
        async with open_file(path) as backup:
            await backup._reader.run(lambda connection: connection.execute("BEGIN"))
            await backup._reader.run(lambda connection: connection.execute("SELECT * FROM messages").fetchall())
            await database._writer.execute("PRAGMA busy_timeout=1")
            await Forgetting(database).forget("a", 300.0)
            assert not await Forgetting(database).rewrite()
        assert await Forgetting(database).rewrite()
        assert b"apple question" not in read(path)


def read(path: Path) -> bytes:
    """The bytes of the database and of its log."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
