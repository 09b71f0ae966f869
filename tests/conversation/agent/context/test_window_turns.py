"""Turns of a window: found, kept whole, and valid for every provider whatever was left out."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.model_messages import repair
from goclaw.conversation.agent.context.window import ContextEntry, PrunedView, Window


def turn(name: str, answers: Sequence[int], joins: bool) -> list[tuple[str, Message]]:
    """A person's message, answers with so many calls and their results, maybe one that joined, and the last word."""
    said: list[Message] = [UserMessage(f"question {name}")]
    for number, calls in enumerate(answers):
        ids = [f"{name}-{number}-{call}" for call in range(calls)]
        said.append(AssistantMessage("looking", tuple(ToolCall(each, "read", {}) for each in ids)))
        said += [ToolResult(each, "read", "text") for each in ids]
        if joins:
            said.append(UserMessage("and another thing"))
    return [(name, message) for message in (*said, AssistantMessage(f"answer {name}"))]


TURNS = st.lists(st.tuples(st.lists(st.integers(1, 3), max_size=3), st.booleans()), min_size=1, max_size=8)


def window_of(turns: Sequence[tuple[Sequence[int], bool]]) -> Window:
    said = [each for number, (answers, joins) in enumerate(turns) for each in turn(str(number), answers, joins)]
    entries = [ContextEntry(row, message, name) for row, (name, message) in enumerate(said, 1)]
    return Window(entries=entries)


@settings(max_examples=60, deadline=None)
@given(TURNS, st.integers(1, 10), st.booleans())
def test_the_last_turns_are_shown_whole_and_need_no_repair(
    turns: list[tuple[list[int], bool]], count: int, summarised: bool
) -> None:
    window, whole = window_of(turns), window_of(turns)
    window.summary = "what was before" if summarised else ""
    window.limit_turns(count)
    kept = [str(number) for number in range(len(turns))][-count:]
    assert window.entries == [entry for entry in whole.entries if entry.turn in kept]
    assert len(window.turns()) == len(kept)
    assert window.summary == ("what was before" if summarised else "")
    assert not repair(window.messages())[1]


@settings(max_examples=30, deadline=None)
@given(TURNS)
def test_a_turn_is_still_one_when_its_tools_are_not_shown_any_more(turns: list[tuple[list[int], bool]]) -> None:
    window = window_of(turns)
    window.reduce(PrunedView(no_tools_to=window.entries[-1].row))
    assert len(window.turns()) == len(turns)


def test_where_few_turns_are_nothing_changes_and_the_providers_count_stands() -> None:
    window = window_of([([1], False), ([], False)])
    before = list(window.entries)
    window.limit_turns(2)
    assert window.entries == before
    assert window.turns() == [1, 5]


def test_there_are_no_turns_where_nothing_was_said() -> None:
    window = Window()
    window.limit_turns(1)
    assert window.turns() == []
