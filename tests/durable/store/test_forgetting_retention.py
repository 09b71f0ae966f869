"""What is older than wanted goes in whole turns, and what stays is a conversation that every model takes."""

import pytest

from goclaw.common.core.messages import AssistantMessage, ToolResult, UserMessage
from goclaw.conversation.agent.context.model_messages import valid_messages
from goclaw.durable.store.database import Database
from goclaw.durable.store.forgetting import Forgetting, PendingDeletion, Pruned, Retention
from goclaw.durable.store.settings import Settings
from goclaw.durable.store.transcripts import StoredCompaction
from tests.durable.store.saying import CALL, Story, talk
from tests.parts import sql

PICTURE = "ab" * 32


@pytest.fixture
def retention(database: Database) -> Retention:
    return Retention(database, Forgetting(database))


async def words(story: Story, session: str = "a") -> list[object]:
    query = "SELECT text FROM messages WHERE session = :session AND role = 'user' ORDER BY id"
    return await story.column(query, session=session)


async def test_turns_that_ended_before_go_and_younger_ones_stay(database: Database, retention: Retention) -> None:
    story = Story(database)
    rows = [await story.turn("a", f"a:{number}", 100.0 * number, *talk(str(number))) for number in range(4)]
    await story.turn("b", "b:1", 350.0, UserMessage("young"))
    assert await retention.sessions(before=250.0) == ["a"]
    pruned = await retention.prune("a", 250.0, at=400.0)
    assert pruned == Pruned(rows=15, first_kept=rows[3][0], whole=False)
    assert await words(story) == ["3 question"] and await words(story, "b") == ["young"]
    assert (await Forgetting(database).list_pending()).memory, "the memory index has them, too"
    assert await retention.sessions(before=250.0) == []


async def test_a_turn_that_lasts_from_before_till_after_stays_whole(database: Database, retention: Retention) -> None:
    """A turn that waited for a person for days: its call must not lose its result, nor its result the call."""
    story = Story(database)
    await story.turn("a", "a:1", 50.0, UserMessage("old"))
    await story.turn("a", "a:2", 98.0, *talk("long"))
    assert (await retention.prune("a", 100.0, at=200.0)).rows == 1
    _, kept = await story.transcripts.context("a")
    assert [each.message for each in kept] == [
        UserMessage("long question"),
        AssistantMessage("long thought", (CALL,)),
        ToolResult("c1", "exec", "long result"),
        AssistantMessage("long answer"),
    ]


async def test_a_turn_that_still_runs_stays_however_old_it_is(database: Database, retention: Retention) -> None:
    story = Story(database)
    await story.turn("a", "a:1", 10.0, UserMessage("old"))
    await story.turn("a", "a:2", 20.0, UserMessage("parked"), ended=False)
    await retention.prune("a", 1_000.0, at=2_000.0)
    assert await words(story) == ["parked"]
    await Forgetting(database).replace_pending(PendingDeletion())
    assert (await retention.prune("a", 1_000.0, at=2_000.0)).rows == 0
    assert not await Forgetting(database).list_pending(), "an index that has nothing to forget is not written anew"


@pytest.mark.promise("P-valid-context")
@pytest.mark.parametrize("before", [float(moment) for moment in range(95, 320, 7)])
async def test_whatever_the_moment_what_stays_needs_no_repair(
    database: Database, retention: Retention, before: float
) -> None:
    story = Story(database)
    rows = [await story.turn("a", f"a:{number}", 100.0 + 70.0 * number, *talk(str(number))) for number in range(4)]
    await story.transcripts.add_compaction("a", StoredCompaction("told", "LLM", rows[2][0], 9, 1, at=350.0))
    await retention.prune("a", before, at=400.0)
    compaction, kept = await story.transcripts.context("a")
    messages = [each.message for each in kept]
    assert compaction is not None and compaction.summary == "told"
    assert valid_messages(messages) == messages


async def test_the_summary_in_force_outlives_its_rows_and_older_ones_go(
    database: Database, retention: Retention
) -> None:
    story = Story(database)
    rows = await story.turn("a", "a:1", 10.0, *talk("old"))
    for at, text in ((11.0, "first"), (12.0, "in force")):
        await story.transcripts.add_compaction("a", StoredCompaction(text, "LLM", rows[3], 9, 1, at, retry_owed=True))
    await story.turn("a", "a:2", 200.0, UserMessage("young"))
    await retention.prune("a", 100.0, at=300.0)
    assert await story.column("SELECT summary FROM compactions ORDER BY id") == ["in force"]
    assert await story.column("SELECT retry_owed FROM compactions") == [0], "nothing is left to make it of"
    compaction, kept = await story.transcripts.context("a")
    assert compaction is not None and [each.message for each in kept] == [UserMessage("young")]


async def test_a_stub_keeps_what_its_summary_will_be_made_of(database: Database, retention: Retention) -> None:
    story = Story(database)
    old = await story.turn("a", "a:1", 10.0, *talk("old"))
    young = await story.turn("a", "a:2", 200.0, *talk("young"))
    for at, row, text, owed in (
        (9.0, old[0], "first", False),
        (11.0, old[3], "real", False),
        (12.0, young[2], "stub", True),
    ):
        await story.transcripts.add_compaction("a", StoredCompaction(text, "LLM", row, 9, 1, at, retry_owed=owed))
    await retention.prune("a", 100.0, at=300.0)
    assert await story.column("SELECT summary FROM compactions ORDER BY id") == ["real", "stub"]
    ((session, stub),) = await story.transcripts.list_missing_summaries()
    summary, messages = await story.transcripts.originals(session, stub.first_kept)
    assert summary == "real" and [each.message for each in messages][:1] == [UserMessage("young question")]


async def test_what_clear_hid_stays_hidden(database: Database, retention: Retention) -> None:
    story = Story(database)
    await story.turn("a", "a:1", 10.0, UserMessage("old"))
    await story.turn("a", "a:2", 200.0, UserMessage("hidden"))
    await story.transcripts.clear("a", at=250.0)
    await retention.prune("a", 100.0, at=300.0)
    assert await story.transcripts.context("a") == (None, [])
    assert await words(story) == ["hidden"]


async def test_of_a_session_that_is_old_as_a_whole_only_its_model_stays(
    database: Database, retention: Retention
) -> None:
    story, settings = Story(database), Settings(database)
    rows = await story.turn("a", "a:1", 10.0, *talk("old"))
    await story.transcripts.add_compaction("a", StoredCompaction("told", "LLM", rows[0], 9, 1, at=11.0))
    await settings.set("a", "model", "acme:best")
    await settings.set("a", "todos", [{"content": "old"}])
    assert (await retention.prune("a", 100.0, at=300.0)).whole
    assert await story.column("SELECT summary FROM compactions ORDER BY id") == []
    assert await settings.of_session("a") == {"model": "acme:best"}
    assert await story.transcripts.sessions() == []


async def test_a_fresh_summary_of_old_words_stays(database: Database, retention: Retention) -> None:
    story = Story(database)
    rows = await story.turn("a", "a:1", 10.0, *talk("old"))
    await story.transcripts.add_compaction("a", StoredCompaction("told", "LLM", rows[0], 9, 1, at=150.0))
    assert not (await retention.prune("a", 100.0, at=300.0)).whole
    compaction, kept = await story.transcripts.context("a")
    assert compaction is not None and compaction.summary == "told" and kept == []


async def test_pictures_of_what_went_are_owed_and_receipts_keep_their_ids_alone(
    database: Database, retention: Retention
) -> None:
    story = Story(database)
    await story.turn("a", "a:1", 10.0, *talk("old", image=PICTURE), media="cd" * 32)
    await story.turn("a", "a:2", 200.0, UserMessage("young"))
    await story.sent()
    await retention.prune("a", 100.0, at=300.0)
    await retention.empty_receipts(100.0)
    owed = await Forgetting(database).list_pending()
    assert owed.media == {PICTURE, "cd" * 32} and not owed.rewrite
    bodies = "SELECT id || '=' || CASE body WHEN '' THEN '1' ELSE '0' END FROM {} ORDER BY id"
    assert await story.column(bodies.format("inbox")) == ["a:1=1", "a:2=0"]
    assert await story.column(bodies.format("deliveries")) == ["a:1:deliver:1=1", "a:2:deliver:1=0"]


@pytest.mark.sqlite("a trigger of SQLite refuses")
async def test_a_deletion_that_fails_changes_nothing(database: Database, retention: Retention) -> None:
    story = Story(database)
    await story.turn("a", "a:1", 10.0, *talk("old"))
    await story.turn("a", "a:2", 200.0, UserMessage("young"))
    refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON compactions BEGIN SELECT RAISE(ABORT, 'no'); END"
    await story.transcripts.add_compaction("a", StoredCompaction("told", "LLM", 1, 9, 1, at=150.0))
    await database.write(sql(refuse))
    with pytest.raises(Exception, match="no"):
        await retention.prune("a", 100.0, at=300.0)
    assert await words(story) == ["old question", "young"]
    assert not await Forgetting(database).list_pending()
