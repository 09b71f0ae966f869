"""Conversations row by row: in pages that suit one frame, and in outline."""

import pytest

from goclaw.common.core.events import CompactionRecord, TranscriptRow
from goclaw.common.core.messages import Image, UserMessage
from goclaw.durable.store import reading
from goclaw.durable.store.database import Database
from goclaw.durable.store.reading import TranscriptReader
from goclaw.durable.store.transcripts import StoredCompaction
from tests.durable.store.saying import ANNA, Story, talk


async def test_every_row_comes_as_it_is_stored(database: Database) -> None:
    await Story(database).turn("a", "a:1", 100.0, *talk("see", image="ab" * 32))
    await Story(database).turn("b", "b:1", 100.0, UserMessage("of another session"))
    question, thought, call, result, answer = await TranscriptReader(database).page("a", 0)
    image = Image("ab" * 32, "image/png")
    assert question == TranscriptRow(
        1, "a", "a:1", "step 0", "user", "see question", 100.0, sender=ANNA, images=(image,)
    )
    assert (thought.role, thought.text) == ("assistant", "see thought")
    assert (call.role, call.name, call.call_id, call.input) == ("tool_use", "exec", "c1", {"command": "ls"})
    assert (result.role, result.call_id, result.text, result.is_error) == ("tool_result", "c1", "see result", False)
    assert answer.row == 5


async def test_a_page_ends_after_some_rows_or_much_text(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE_SIZE", 1_000)
    await Story(database).turn("a", "a:1", 0.0, *(UserMessage("x" * 400) for _ in range(4)), UserMessage("y" * 5_000))
    reader, sizes, after = TranscriptReader(database), [], 0
    while page := await reader.page("a", after):
        sizes.append(len(page))
        after = page[-1].row
    assert sizes == [2, 2, 1]


async def test_the_outline_says_what_the_model_is_shown(database: Database) -> None:
    story, reader = Story(database), TranscriptReader(database)
    assert (await reader.outline("a")).rows == 0
    rows = await story.turn("a", "a:1", 0.0, *talk("one"))
    assert (await reader.outline("a")).shown_from == 1
    await story.transcripts.add_compaction("a", StoredCompaction("told", "LLM", rows[3], 90, 9, at=5.0))
    told = CompactionRecord(rows[3], "told", "LLM", 90, 9, 5.0)
    outline = await reader.outline("a")
    assert (outline.shown_from, outline.summary, outline.compactions) == (rows[3], told, (told,))
    await story.transcripts.clear("a", at=6.0)
    await story.turn("a", "a:2", 7.0, UserMessage("anew"))
    outline = await reader.outline("a")
    assert (outline.shown_from, outline.cleared_to, outline.summary, outline.rows) == (6, 5, None, 6)
    assert outline.compactions == (told,)


@pytest.mark.parametrize(("last", "begins"), [(0, 0), (1, 5), (2, 4), (3, 2), (4, 1), (5, 0)])
async def test_the_last_messages_begin_at_a_row_and_no_answer_loses_its_calls(
    database: Database, last: int, begins: int
) -> None:
    await Story(database).turn("a", "a:1", 0.0, *talk("one"))
    assert (await TranscriptReader(database).outline("a", last)).begins == begins
