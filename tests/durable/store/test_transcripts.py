"""What is stored of a conversation comes back as the same conversation."""

from dataclasses import replace

import pytest

from goclaw.common.core.messages import AssistantMessage, Image, Message, Native, ToolCall, ToolResult, UserMessage
from goclaw.durable.store.database import Database
from goclaw.durable.store.transcripts import Origin, StoredCompaction, Transcripts, rows_of
from tests.parts import sql

CONVERSATION: list[Message] = [
    UserMessage("look at this", (Image("ab" * 32, "image/png"),)),
    AssistantMessage(
        "I will look",
        (ToolCall("1", "read", {"path": "a.txt"}), ToolCall("2", "exec", {"command": "ls"})),
        Native("anthropic", 1, [{"type": "thinking", "signature": "xyz"}]),
    ),
    ToolResult("2", "exec", "a.txt"),
    ToolResult("1", "read", '{"error": "file not found: a.txt"}', is_error=True),
    AssistantMessage("There is nothing."),
    AssistantMessage("[The answer ends here.]", notice=True),
]


async def store(database: Database, messages: list[Message], session: str = "s", turn: str = "t") -> list[int]:
    rows = []
    await database.write(Transcripts(database).ensure_session(session, 99.0))
    for number, message in enumerate(messages):
        origin = Origin(session, turn, f"step {number}", 100.0 + number, "telegram:1", "<context/>")
        rows.append((await database.write(*rows_of(message, origin)))[0].lastrowid)
    return rows


async def test_a_conversation_survives_the_store(database: Database) -> None:
    await store(database, CONVERSATION)
    _, stored = await Transcripts(database).context("s")
    assert [item.message for item in stored] == CONVERSATION


async def test_a_denial_is_a_field_and_the_text_counts_in_rows_of_former_versions_only(database: Database) -> None:
    text = '{"result": "denied: no"}'
    results: list[Message] = [ToolResult("1", "x", text), ToolResult("2", "x", "no", denied=True)]
    await store(database, results)
    for call, content in (("3", text), ("4", f"page: {text}")):
        (row,) = rows_of(ToolResult(call, "x", content), Origin("s", "t", call, 200.0))
        await database.write(replace(row, values={**row.values, "denied": None}))
    stored = [item.message for item in await Transcripts(database).history("s", 0, 9)]
    found = {message.call_id: message.denied for message in stored if isinstance(message, ToolResult)}
    assert found == {"1": False, "2": True, "3": True, "4": False}


async def test_history_gives_the_last_rows_oldest_first(database: Database) -> None:
    rows = await store(database, [UserMessage(str(number)) for number in range(10)])
    history = await Transcripts(database).history("s", after=rows[2], limit=3)
    assert [(item.row, item.message) for item in history] == [
        (rows[number], UserMessage(str(number))) for number in (7, 8, 9)
    ]


@pytest.mark.promise("P-history-kept")
async def test_clear_hides_what_was_said_and_deletes_nothing(database: Database) -> None:
    transcripts = Transcripts(database)
    await store(database, CONVERSATION)
    await transcripts.clear("s", at=1.0)
    assert (await transcripts.context("s"))[1] == []
    assert await transcripts.count("s") == 8


async def test_clear_spares_turns_that_have_not_ended(database: Database) -> None:
    transcripts = Transcripts(database)
    states = {"old": "done", "now": "stopping", "next": "new"}
    for turn, state in states.items():
        values = "(:id, 's', 'message', '{}', :state, 0)"
        into = "INSERT INTO inbox (id, session, kind, body, state, received_at) VALUES "
        await database.write(sql(into + values, id=turn, state=state))
        await store(database, [UserMessage(turn)], turn=turn)
    await transcripts.clear("s", at=1.0)
    assert [item.message for item in (await transcripts.context("s"))[1]] == [UserMessage("now"), UserMessage("next")]


async def test_a_compaction_stands_for_what_came_before_it(database: Database) -> None:
    transcripts = Transcripts(database)
    rows = await store(database, CONVERSATION)
    compaction = StoredCompaction("a summary", "LLM", rows[4], 1000, 10, at=5.0)
    await transcripts.add_compaction("s", compaction)
    stored = (await transcripts.context("s"))[0]
    assert stored == replace(compaction, id=1)
    assert [item.message for item in (await transcripts.context("s"))[1]] == CONVERSATION[4:]
    assert await transcripts.compactions("s") == 1


async def test_clear_hides_the_summary_too(database: Database) -> None:
    transcripts = Transcripts(database)
    rows = await store(database, CONVERSATION)
    await transcripts.add_compaction("s", StoredCompaction("a summary", "LLM", rows[4], 1000, 10, at=5.0))
    await transcripts.clear("s", at=6.0)
    assert await transcripts.context("s") == (None, [])


async def test_sessions_do_not_see_each_other(database: Database) -> None:
    await store(database, [UserMessage("mine")], session="a")
    await store(database, [UserMessage("yours")], session="b")
    transcripts = Transcripts(database)
    assert [item.message for item in (await transcripts.context("a"))[1]] == [UserMessage("mine")]
    assert {info.key for info in await transcripts.sessions()} == {"a", "b"}


async def test_sessions_are_listed_latest_first_with_their_size_and_last_words(database: Database) -> None:
    await store(database, [UserMessage("old")], session="a")
    await store(database, [UserMessage("hello " * 40), AssistantMessage("hi"), UserMessage("bye")], session="b")
    found = await Transcripts(database).sessions()
    assert [(info.key, info.messages, info.last_at, info.title) for info in found] == [
        ("b", 3, 102.0, "bye"),
        ("a", 1, 100.0, "old"),
    ]


async def test_older_rows_are_found_before_a_row(database: Database) -> None:
    rows = await store(database, [UserMessage(str(number)) for number in range(10)])
    older = await Transcripts(database).history("s", 0, 3, before=rows[5])
    assert [row.row for row in older] == rows[2:5]
