"""Whatever a crash, a stop or a cut leaves behind, what is sent is a conversation that every provider accepts."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.model_messages import INTERRUPTED, UNANSWERED, valid_messages

IDS = st.sampled_from(["a", "b", "c"])
CALLS = st.lists(IDS, unique=True, max_size=3).map(lambda ids: tuple(ToolCall(each, "look", {}) for each in ids))
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, st.sampled_from(["hello", "go on"])),
    st.builds(AssistantMessage, st.sampled_from(["", "text"]), CALLS, notice=st.booleans()),
    st.builds(ToolResult, IDS, st.just("look"), st.text(max_size=3), st.booleans()),
)


def violations(messages: Sequence[Message]) -> list[str]:
    """What Anthropic (tool results directly after their calls, complete) and OpenAI (in order, none beside) refuse."""
    found = []
    if messages and not isinstance(messages[0], UserMessage):
        found.append("does not begin with a user's message")
    expected: list[str] = []
    for message in messages:
        match message:
            case ToolResult():
                if not expected or expected.pop(0) != message.call_id:
                    found.append(f"a result of {message.call_id} that is not expected here")
            case AssistantMessage():
                found += [f"no result of {call}" for call in expected]
                expected = [call.id for call in message.calls]
                if not message.text and not message.calls:
                    found.append("an empty answer")
            case _:
                found += [f"no result of {call}" for call in expected]
                expected = []
    return found + [f"no result of {call}" for call in expected]


@pytest.mark.promise("P-valid-context")
@given(st.lists(MESSAGES, max_size=12))
def test_any_sequence_becomes_a_valid_one(messages: list[Message]) -> None:
    result = valid_messages(messages)
    assert violations(result) == []
    said = [message for message in messages if isinstance(message, UserMessage)]
    heard = [message for message in result if isinstance(message, UserMessage) and message is not UNANSWERED]
    assert heard == said, "no word of a user is lost"


@given(st.lists(MESSAGES, max_size=12))
def test_repairing_twice_changes_nothing_more(messages: list[Message]) -> None:
    once = valid_messages(messages)
    assert valid_messages(once) == once


@st.composite
def whole_turns(draw: st.DrawFn) -> list[Message]:
    """Turns as they end when nothing goes wrong; parallel results are stored as they came."""
    messages: list[Message] = []
    for number in range(draw(st.integers(1, 4))):
        messages.append(UserMessage(f"question {number}"))
        for step in range(draw(st.integers(0, 2))):
            calls = tuple(ToolCall(f"{number}.{step}.{n}", "look", {}) for n in range(draw(st.integers(1, 3))))
            messages.append(AssistantMessage("", calls))
            messages += draw(st.permutations([ToolResult(call.id, "look", f"saw {call.id}") for call in calls]))
        messages.append(AssistantMessage(f"answer {number}"))
    return messages


@given(whole_turns())
def test_whole_turns_lose_nothing(messages: list[Message]) -> None:
    result = valid_messages(messages)
    assert violations(result) == []
    assert sorted(map(repr, result)) == sorted(map(repr, messages))


@pytest.mark.promise("P-valid-context")
@given(whole_turns(), st.data())
def test_a_crash_anywhere_is_mended_before_the_next_request(messages: list[Message], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(messages)))
    after: list[Message] = [*messages[:cut], UserMessage("are you there?")]
    result = valid_messages(after)
    assert violations(result) == []
    assert result[-1] == UserMessage("are you there?")


def test_a_call_without_result_is_said_to_be_interrupted() -> None:
    call = ToolCall("1", "exec", {"command": "make"})
    assert valid_messages([UserMessage("go"), AssistantMessage("", (call,)), UserMessage("and?")]) == [
        UserMessage("go"),
        AssistantMessage("", (call,)),
        ToolResult("1", "exec", INTERRUPTED, is_error=True),
        UserMessage("and?"),
    ]


def test_ids_that_a_server_uses_again_keep_their_own_results() -> None:
    call = ToolCall("call_0", "look", {})
    turns: list[Message] = [
        UserMessage("go"),
        AssistantMessage("", (call,)),
        ToolResult("call_0", "look", "first"),
        AssistantMessage("", (call,)),
        ToolResult("call_0", "look", "second"),
    ]
    assert valid_messages(turns) == turns


def test_of_two_results_the_first_is_what_really_came_of_the_call() -> None:
    call = ToolCall("1", "exec", {})
    first, second = ToolResult("1", "exec", "done"), ToolResult("1", "exec", "stopped", is_error=True)
    turn: list[Message] = [UserMessage("go"), AssistantMessage("", (call,)), first, second]
    assert valid_messages(turn) == turn[:3]


def test_pictures_stay() -> None:
    picture = UserMessage("", (Image("ab" * 32, "image/png"),))
    assert valid_messages([picture]) == [picture]


def test_no_notice_is_shown_as_what_the_model_said() -> None:
    stopped = AssistantMessage("[Stopped.]", notice=True)
    hi, half, more = UserMessage("hi"), AssistantMessage("Half"), UserMessage("more")
    assert valid_messages([hi, half, stopped, more]) == [hi, half, more], "its own words stay"
    assert valid_messages([hi, stopped, more]) == [hi, UNANSWERED, more], "what got no answer does not wait for one"
    assert valid_messages([hi, stopped, stopped, more])[1:] == [UNANSWERED, UNANSWERED, more]
    assert valid_messages([stopped, hi]) == [hi]
    withheld = AssistantMessage("[A hook keeps this back.]", (ToolCall("c", "look", {}),), notice=True)
    looked = ToolResult("c", "look", "a cat")
    assert valid_messages([hi, withheld, looked]) == [hi, AssistantMessage("", withheld.calls), looked]
