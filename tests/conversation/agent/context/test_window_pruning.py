"""Older results of tools are shown in short; the latest ones and every word of a person stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.core.messages import AssistantMessage, Message, Native, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.model_messages import valid_messages
from goclaw.conversation.agent.context.window import (
    HEAD,
    LATEST_RESULTS,
    ContextEntry,
    PrunedView,
    Window,
    cut_to_window,
    thinnable_before,
)
from goclaw.llm.base import Usage
from goclaw.llm.token_counts import estimate_message


def working(calls: int, size: int = 4_000) -> list[ContextEntry]:
    """A question, then so many answers with a call and its result."""
    made: list[Message] = [UserMessage("Look at everything. " * 100)]
    for number in range(calls):
        native = Native("anthropic", 1, [{"type": "tool_use", "id": str(number)}])
        made.append(AssistantMessage(f"step {number}", (ToolCall(str(number), "look", {}),), native))
        made.append(ToolResult(str(number), "look", "x" * size))
    return [ContextEntry(row, message) for row, message in enumerate(made, 1)]


def results(entries: list[ContextEntry]) -> list[ToolResult]:
    return [entry.message for entry in entries if isinstance(entry.message, ToolResult)]


def test_the_latest_results_stay_whole_and_older_ones_say_what_was_there() -> None:
    entries = working(10)
    seen = PrunedView(thinned_before=thinnable_before(entries)).of(entries)
    contents = [result.content for result in results(seen)]
    assert [len(content) == 4_000 for content in contents] == [False] * (10 - LATEST_RESULTS) + [True] * LATEST_RESULTS
    assert contents[0] == "x" * HEAD + "\n[thinned: 3,600 more characters were here. Call look again if you need them.]"
    assert [entry for entry in seen if not isinstance(entry.message, ToolResult)] == [
        entry for entry in entries if not isinstance(entry.message, ToolResult)
    ]


def test_every_result_of_the_latest_answer_stays_whole() -> None:
    calls = tuple(ToolCall(str(number), "look", {}) for number in range(LATEST_RESULTS + 4))
    made: list[Message] = [UserMessage("go"), AssistantMessage("", calls)]
    made += [ToolResult(call.id, "look", "x" * 4_000) for call in calls]
    entries = [ContextEntry(row, message) for row, message in enumerate(made, 1)]
    assert PrunedView(thinned_before=thinnable_before(entries)).of(entries) == entries


def test_few_results_are_left_alone() -> None:
    assert thinnable_before(working(LATEST_RESULTS)) == 0
    assert thinnable_before([]) == 0


@given(st.integers(0, 20), st.integers(0, 45))
def test_seeing_twice_is_seeing_once_and_what_is_seen_can_be_sent(calls: int, row: int) -> None:
    view = PrunedView(thinned_before=row, no_tools_to=row // 2)
    once = view.of(working(calls))
    assert view.of(once) == once
    messages = [entry.message for entry in once]
    assert not [message for message in valid_messages(messages) if message not in messages]


def test_without_tools_the_words_stay_and_nothing_is_replayed() -> None:
    entries = working(2)
    seen = PrunedView(no_tools_to=3).of(entries)
    assert [entry.row for entry in seen] == [1, 2, 4, 5]
    assert seen[1].message == AssistantMessage("step 0")


def test_a_cut_result_fits_even_if_its_ends_are_the_densest_part() -> None:
    content = "7" * 4_000 + "word " * 40_000 + "猫" * 4_000
    cut = cut_to_window(ContextEntry(3, ToolResult("1", "look", content)), 16_000)
    assert 3_000 < cut.tokens <= 4_000
    assert cut_to_window(cut, 16_000) is cut


@pytest.mark.parametrize("filler", ["x", "ü", "猫"])
def test_a_result_that_does_not_fit_the_window_loses_its_middle(filler: str) -> None:
    entry = ContextEntry(3, ToolResult("1", "look", "first " + filler * 100_000 + " last"))
    message = cut_to_window(entry, 16_000).message
    assert isinstance(message, ToolResult)
    assert message.content.startswith("first ") and message.content.endswith(" last")
    assert "characters are left out here" in message.content
    assert 3_000 < estimate_message(message) <= 4_000
    cut = ContextEntry(3, message)
    assert cut_to_window(cut, 16_000) is cut, "cut once, not with every request"
    assert cut_to_window(entry, 10_000_000) == entry


def test_the_provider_s_count_shrinks_with_what_is_seen() -> None:
    window = Window(entries=working(10))
    window.count(Usage(input=20_000, output=100))
    view = PrunedView(thinned_before=thinnable_before(window.entries))
    assert window.reduce(view, at_least=1_000_000) == 0 and window.tokens(overhead=0) == 20_100
    freed = window.reduce(view, at_least=3_000)
    assert freed > 3_000
    assert window.tokens(overhead=0) == 20_100 - freed
    assert window.reduce(PrunedView(view.thinned_before, no_tools_to=99)) > 0
    assert window.tokens(overhead=50) == 50 + sum(estimate_message(entry.message) for entry in window.entries)


def test_a_large_result_is_cut_wherever_it_comes_into_a_window_that_fits() -> None:
    def is_cut(window: Window, at: int) -> bool:
        message = window.entries[at].message
        assert isinstance(message, ToolResult)
        return "are left out here" in message.content

    large = [ContextEntry(row, ToolResult(str(row), "look", "word " * 40_000)) for row in (1, 5, 9)]
    window = Window(entries=[ContextEntry(3, UserMessage("hello")), ContextEntry(4, UserMessage("there"))])
    window.fit_results(16_000)
    window.entries[:0] = [large[0]]  # as `/clear` in a running turn does
    window.fit_results(16_000)
    assert is_cut(window, 0)
    window.entries.append(large[1])
    window.fit_results(16_000)
    assert is_cut(window, 3)
    window.entries[0] = large[2]
    window.fit_results(16_000)
    assert is_cut(window, 0)
    window.fit_results(8_000)
    assert window.entries[3].tokens <= 2_000, "a smaller model's window"
