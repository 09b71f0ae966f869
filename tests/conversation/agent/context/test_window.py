"""A window mirrors the store: one that grew equals one that is loaded anew."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.model_messages import ContentMarkers
from goclaw.conversation.agent.context.window import SUMMARY_HEAD, ContextEntry, Window, context_entry
from goclaw.durable.store.transcripts import StoredCompaction, StoredMessage
from goclaw.llm.base import Usage
from goclaw.llm.token_counts import estimate_message, estimate_text
from tests.conversation.agent.context.test_model_messages_repair import MESSAGES
from tests.harness import Answer, Core, World
from tests.parts import Trail, acting


def entries(*texts: str) -> list[ContextEntry]:
    return [ContextEntry(row, UserMessage(text)) for row, text in enumerate(texts, 1)]


async def assert_mirrors(core: Core, session: str = "memory:here") -> None:
    grown = (await core.sessions.contexts.session(session)).window
    loaded = Window.of(*await core.transcripts.context(session))
    assert (grown.summary, grown.entries) == (loaded.summary, loaded.entries)


async def test_a_window_that_grew_equals_one_loaded_anew(tmp_path: Path) -> None:
    calls = (ToolCall("c1", "look", {}), ToolCall("c2", "look", {}))
    script = [
        Answer("I will look", calls=calls),
        Answer("Two cats."),
        *(Answer(f"answer {number}") for number in range(8)),
        Answer("A summary that is long enough to be taken for one."),
        *(Answer(f"answer {number}") for number in range(3)),
    ]
    world = World(tmp_path, script, tools=[acting("look", Trail("a cat").leave)])
    async with world.running() as core:
        for number in range(9):
            await core.say(f"question {number}", pictures={"image/png": b"png"} if number == 1 else None)
            await core.settled()
            await assert_mirrors(core)
        await core.say("/compact")
        await core.settled()
        assert await core.transcripts.compactions("memory:here") == 1
        await assert_mirrors(core)
        await core.say("after the compaction")
        await core.settled()
        await assert_mirrors(core)
        await core.command("/clear")
        await assert_mirrors(core)
        await core.say("after the clearing")
        await core.settled()
        await assert_mirrors(core)
    assert [message.text.split("\n")[-1] for message in world.script.requests[-1].messages] == ["after the clearing"]  # type: ignore[union-attr]  # only users speak here


@given(
    st.lists(MESSAGES, max_size=12),
    st.lists(
        st.tuples(st.sampled_from(["append", "append", "drop", "shorten", "summary", "mark"]), MESSAGES), max_size=12
    ),
)
def test_however_a_window_changes_its_request_is_the_one_of_a_window_loaded_anew(
    first: list[Message], changes: list[tuple[str, Message]]
) -> None:
    window = Window(entries=[ContextEntry(row, message) for row, message in enumerate(first, 1)])
    for row, (change, message) in enumerate(changes, 100):
        window.messages()
        match change:
            case "append":
                window.append(ContextEntry(row, message))
            case "drop" if window.entries:
                window.drop_before(window.entries[len(window.entries) // 2].row, window.summary)
            case "shorten" if window.entries:
                window.entries[0] = ContextEntry(window.entries[0].row, UserMessage("shorter"))
            case "summary":
                window.cut_summary(f"a summary of {row}")
            case _:
                window.markers = ContentMarkers(f"key {row}".encode())
        fresh = Window(window.summary, entries=list(window.entries), markers=window.markers)
        assert window.messages() == fresh.messages()


def test_the_messages_of_before_are_the_same_objects_and_only_new_ones_are_looked_at() -> None:
    """Models keep their encoding of a message by its identity."""
    window = Window(summary="what was before", entries=entries("one"))
    window.append(ContextEntry(2, AssistantMessage("first answer")))
    before = window.messages()
    window.append(ContextEntry(3, UserMessage("two")))
    after = window.messages()
    assert all(old is new for old, new in zip(before, after, strict=False)) and len(after) == len(before) + 1


def test_a_row_is_not_added_twice() -> None:
    window = Window(entries=entries("one", "two"))
    window.append(ContextEntry(2, UserMessage("two")))
    assert len(window.entries) == 2


def test_a_users_text_begins_with_the_line_about_it() -> None:
    stored = StoredMessage(1, "t", UserMessage("hi"), 0.0, "telegram:5", "<context>Monday</context>")
    assert context_entry(stored).message == UserMessage("<context>Monday</context>\nhi")


def test_the_summary_comes_first() -> None:
    stored = [StoredMessage(7, "t", UserMessage("now"), 0.0)]
    window = Window.of(StoredCompaction("what was", "LLM", 7, 100, 10, 0.0), stored)
    assert window.messages() == [UserMessage(f"{SUMMARY_HEAD}\n\nwhat was"), UserMessage("now")]


def test_without_a_count_everything_is_estimated() -> None:
    window = Window("a summary", entries=entries("one", "two"))
    messages = sum(entry.tokens for entry in window.entries)
    assert window.tokens(overhead=100) == 100 + estimate_text("a summary") + messages


def test_the_providers_count_replaces_the_estimate_of_what_it_counted() -> None:
    window = Window(entries=entries("one", "two"))
    window.count(Usage(input=500, output=50))
    assert window.tokens(overhead=100) == 550
    window.append(ContextEntry(3, UserMessage("three")))
    assert window.tokens(overhead=100) == 550 + estimate_message(UserMessage("three"))


def test_what_a_model_thought_counts_only_where_it_is_sent_back() -> None:
    window = Window(entries=entries("one", "two"))
    window.count(Usage(input=500, output=9_050, reasoning=9_000), thought=False)
    assert window.tokens(overhead=100) == 550
    window.count(Usage(input=500, output=9_050, reasoning=9_000))
    assert window.tokens(overhead=100) == 9_550


@pytest.mark.parametrize("usage", [Usage(), Usage(output=5)])
def test_a_provider_that_counts_nothing_does_not_make_a_context_empty(usage: Usage) -> None:
    window = Window(entries=entries("x" * 4_000))
    window.count(usage)
    assert window.tokens(overhead=0) > 1_000


def test_a_count_is_void_when_the_beginning_is_cut_off() -> None:
    window = Window(entries=entries("x" * 4_000, "two"))
    window.count(Usage(input=1_000_000, output=1))
    window.drop_before(2, "short")
    assert window.tokens(overhead=0) < 100
    assert window.holds(2) and not window.holds(1)


def test_results_and_calls_have_a_length() -> None:
    call = AssistantMessage("", (ToolCall("1", "write", {"content": "x" * 4_000}),))
    result = ToolResult("1", "read", "x" * 4_000)
    assert min(estimate_message(call), estimate_message(result)) > 1_000
