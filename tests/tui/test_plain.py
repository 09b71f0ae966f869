"""How a conversation reads in plain lines."""

from goclaw.events import (
    Acceptance,
    AcceptKind,
    MessageStored,
    Notice,
    Outcome,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from goclaw.messages import AssistantMessage, UserMessage
from goclaw.tui.plain import PlainView


def shown(*events: TurnEvent | Acceptance) -> str:
    written: list[str] = []
    view = PlainView(written.append)
    for event in events:
        view.show(event)
    return "".join(written)


def test_a_streamed_answer_is_shown_once_and_ends_its_line() -> None:
    text = shown(
        TextStreamed("t", "s", "Hel"),
        TextStreamed("t", "s", "lo"),
        TurnFinished("t", "s", Outcome.ANSWERED, "Hello"),
    )
    assert text == "Hello\n"


def test_an_answer_that_was_not_streamed_is_shown_at_the_end() -> None:
    assert shown(TurnFinished("t", "s", Outcome.LIMITED, "I stopped.")) == "I stopped.\n"


def test_an_answer_after_a_tool_is_shown_although_text_came_before_it() -> None:
    text = shown(
        TextStreamed("t", "s", "Let me look."),
        ToolStarted("t", "s", "1", "read", {"path": "a.txt"}),
        ToolFinished("t", "s", "1", "read", "line 1\nline 2", False, 0.25),
        TurnFinished("t", "s", Outcome.FAILED, "The model is away."),
    )
    assert text.splitlines() == [
        "Let me look.",
        "⚙ read {'path': 'a.txt'}",
        "  line 1",
        "  line 2",
        "  (0.2 s)",
        "The model is away.",
    ]


def test_a_long_result_is_cut_and_says_by_how_much() -> None:
    content = "\n".join(str(number) for number in range(20))
    assert "… 12 more lines" in shown(ToolFinished("t", "s", "1", "exec", content, False, 1.0))


def test_a_failed_tool_says_so() -> None:
    assert "(failed, 0.1 s)" in shown(ToolFinished("t", "s", "1", "exec", '{"error": "no"}', True, 0.1))


def test_a_restarted_stream_begins_a_new_line() -> None:
    text = shown(TextStreamed("t", "s", "Hal"), StreamRestarted("t", "s", "the connection broke"))
    assert text == "Hal\n[starting again: the connection broke]\n"


def test_a_commands_answer_and_a_notice_are_lines() -> None:
    text = shown(Acceptance(AcceptKind.REPLY, text="Stopped."), Notice("s", "compacting the context"))
    assert text == "Stopped.\n[compacting the context]\n"


def test_history_shows_what_was_said() -> None:
    written: list[str] = []
    PlainView(written.append).history(
        [
            MessageStored("t", "s", 1, UserMessage("hi"), 0.0),
            MessageStored("t", "s", 2, AssistantMessage("hello"), 0.0),
        ]
    )
    assert "".join(written) == "› hi\nhello\n"
