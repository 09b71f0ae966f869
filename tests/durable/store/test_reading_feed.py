"""What was said, row by row over all sessions, for whoever keeps a copy."""

import asyncio

from goclaw.common.core.messages import AssistantMessage, Foreign, ToolCall, ToolResult, UserMessage
from goclaw.durable.store.database import Database
from goclaw.durable.store.forgetting import Forgetting
from goclaw.durable.store.reading import FEED_SIZE, RESULT_CHARACTERS, TranscriptFeed
from tests.durable.store.saying import ANNA, Story, talk


async def test_rows_of_all_sessions_come_in_order_and_calls_are_none(database: Database) -> None:
    story, feed = Story(database), TranscriptFeed(database)
    await story.turn("a", "a:1", 100.0, *talk("apple"))
    await story.turn("b", "b:1", 200.0, UserMessage("berry"))
    rows = await feed.after(0)
    assert [(row.row, row.session, row.role, row.text) for row in rows] == [
        (1, "a", "user", "apple question"),
        (2, "a", "assistant", "apple thought"),
        (4, "a", "tool_result", "apple result"),
        (5, "a", "assistant", "apple answer"),
        (6, "b", "user", "berry"),
    ]
    assert (rows[0].turn, rows[0].sender, rows[0].at, rows[2].name) == ("a:1", ANNA, 100.0, "exec")
    assert await feed.after(4) == rows[3:] and not await feed.after(6)


async def test_a_page_ends_after_so_many_characters_but_has_a_row_at_least(database: Database) -> None:
    story, feed = Story(database), TranscriptFeed(database)
    texts = ["x" * FEED_SIZE * 2, "y" * (FEED_SIZE - 10), "z" * 20]
    await story.turn("a", "a:1", 100.0, *map(UserMessage, texts))
    assert [[row.row for row in await feed.after(after)] for after in (0, 1, 2)] == [[1], [2], [3]]


async def test_of_a_result_the_beginning_is_given_and_what_came_of_the_call(database: Database) -> None:
    story, feed = Story(database), TranscriptFeed(database)
    result = ToolResult("c1", "exec", "é" * 9_000, hint="exit 1", call_hint="Ran make")
    await story.turn("a", "a:1", 100.0, AssistantMessage("", (ToolCall("c1", "exec", {}),)), result)
    [_, row] = await feed.after(0)
    assert row.text == "é" * RESULT_CHARACTERS and row.heading == "Ran make: exit 1"


async def test_whose_words_a_person_passes_on_is_told_once(database: Database) -> None:
    story, feed = Story(database), TranscriptFeed(database)
    pieces = (Foreign(0, 3, "forwarded from Bob"), Foreign(4, 7, "forwarded from Bob"), Foreign(8, 9, "notes.txt"))
    await story.turn("a", "a:1", 100.0, UserMessage("one two 3", foreign=pieces))
    [row] = await feed.after(0)
    assert row.heading == "forwarded from Bob; notes.txt"


async def test_the_ends_of_each_session_are_known_and_move_with_what_is_forgotten(database: Database) -> None:
    story, feed = Story(database), TranscriptFeed(database)
    assert await feed.extents() == {}
    for number, session in enumerate(("a", "b", "a", "c")):
        await story.turn(session, f"{session}:{number}", 100.0 + number, *talk("word"))
    assert await feed.extents() == {"a": (1, 15), "b": (6, 10), "c": (16, 20)}
    await Forgetting(database).forget("b", 300.0)
    assert await feed.extents() == {"a": (1, 15), "c": (16, 20)}, "the row that a deletion leaves is of no session"
    assert all(row.session for row in await feed.after(0))


async def test_whoever_waits_hears_of_a_commit_and_of_none_twice(database: Database) -> None:
    story, feed = Story(database), TranscriptFeed(database)
    database.written = feed.wake
    feed.wake()
    feed.wake()
    async with asyncio.timeout(20):
        await feed.news()
        waiting = asyncio.create_task(feed.news())
        await asyncio.sleep(0)
        assert not waiting.done()
        await story.turn("a", "a:1", 100.0, UserMessage("hello"))
        await waiting
