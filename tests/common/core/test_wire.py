"""Frames survive the way over the socket, and what is no frame is refused."""

import pytest
from pydantic import ValidationError

from goclaw.common.core.events import (
    Acceptance,
    AcceptKind,
    Address,
    CommandInfo,
    CompactionRecord,
    MessageStored,
    Notice,
    Outcome,
    Outline,
    Question,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    SessionInfo,
    SessionNow,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    TranscriptRow,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.messages import AssistantMessage, Image, Native, ToolCall, ToolResult, UserMessage
from goclaw.common.core.wire import (
    CLIENT_FRAME,
    SERVER_FRAME,
    Accepted,
    Ack,
    AskFiles,
    AskOlder,
    AskOutline,
    AskRows,
    AskSessions,
    AskStatus,
    Attach,
    Attached,
    ClientFrame,
    Decide,
    FilesReply,
    Happened,
    Older,
    OutlineFrame,
    Refused,
    Rows,
    Send,
    ServerFrame,
    SessionsReply,
    Status,
    event_frame,
    event_of,
    frame_of,
)

ROW = MessageStored("t", "s", 7, UserMessage("hi", (Image("ab" * 32, "image/png"),)), 1.5, "telegram:5")
QUESTION = Question(
    "ab12", "approval", "tui:me", "May exec run?", "{}", ("allow", "deny"), False, True, 1.0, 2.0, "exec"
)
TRANSCRIPT_ROW = TranscriptRow(
    7, "s", "t", "tool:1:c", "tool_use", "", 1.5, "", "", (), "read", "c", {"path": "a", "deep": [None]}, False
)
COMPACTION = CompactionRecord(5, "what was said", "LLM", 900, 90, 2.5)
EVENTS: list[TurnEvent] = [
    TurnStarted("t", "s", Address("telegram", "5", "7", "8")),
    TextStreamed("t", "s", "zwölf\n\x00"),
    ThinkingStreamed("t", "s", "hm"),
    StreamRestarted("t", "s", "truncated"),
    ToolStarted("t", "s", "c", "read", {"path": "a", "deep": [1, None, {"x": 0.5}]}),
    ToolFinished("t", "s", "c", "read", "text", True, 1.25),
    ROW,
    MessageStored("t", "s", 8, AssistantMessage("", (ToolCall("c", "read", {}),), Native("anthropic", 1, [{}])), 2.0),
    MessageStored("t", "s", 9, ToolResult("c", "read", "x", is_error=True), 2.0),
    Notice("s", "compacting"),
    QuestionAsked("t", "s", QUESTION),
    QuestionAnswered("t", "s", "ab12", "allow", "tui:me"),
    TodosChanged("t", "s", (Todo("Look", "completed"), Todo("Write"))),
    SessionForgotten("s"),
    TurnFinished("t", "s", Outcome.LIMITED, "I stopped."),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was(event: TurnEvent) -> None:
    frame = SERVER_FRAME.from_json(SERVER_FRAME.to_json(event_frame(event)))
    assert isinstance(frame, Happened)
    assert event_of(frame) == event


@pytest.mark.parametrize(
    "frame",
    [
        Attach("tui:me", 7, 3),
        Attach("tui:me", 7, 3, 1, "me", "ab" * 16, 12),
        Ack(12),
        Send("id", "text"),
        Decide("id", "ab12", "allow"),
        AskStatus(),
        AskOlder(7, 40),
        AskSessions(agents=True),
        AskSessions(after=(7.5, "tui:me"), limit=40),
        AskFiles("src/"),
        AskRows(7),
        AskOutline(40),
    ],
)
def test_a_clients_frame_comes_back_as_it_was(frame: ClientFrame) -> None:
    assert CLIENT_FRAME.from_json(CLIENT_FRAME.to_json(frame)) == frame


@pytest.mark.parametrize(
    "frame",
    [
        Attached(
            "s",
            [ROW],
            SessionNow("t", 1.0, "half an ans", "", (QUESTION,), (Todo("x"),)),
            [CommandInfo("help", "Show")],
            "Model: demo.",
        ),
        Attached("s", [], SessionNow(), [], "", protocol=1, epoch="ab" * 16, seen=12, goes_on=True),
        event_frame(Notice("s", "making room"), 13, 2.5),
        Accepted("id", Acceptance(AcceptKind.REPLY, text="Stopped.")),
        Status({"messages": 5, "ollama": {"degraded": False}}),
        Older(7, [ROW]),
        SessionsReply([SessionInfo("tui:me", 5, 1.0, 2.0, "Hello")]),
        FilesReply("sr", ["src/a.py"]),
        Rows([TRANSCRIPT_ROW]),
        OutlineFrame(Outline("s", 9, 5, 4, 7, (COMPACTION,), COMPACTION)),
        Refused("attached already", "id"),
    ],
)
def test_a_daemons_frame_comes_back_as_it_was(frame: ServerFrame) -> None:
    assert SERVER_FRAME.from_json(SERVER_FRAME.to_json(frame)) == frame


def test_what_only_a_newer_daemon_says_is_passed_over() -> None:
    assert event_of(Happened("SomethingNew", {"x": 1})) is None
    assert event_of(Happened("Notice", {"words": "in another shape"})) is None
    assert event_of(Happened("Notice", {"session": "s", "text": "x", "colour": "red"})) == Notice("s", "x")
    assert frame_of('{"type": "dance", "step": 1}') is None
    assert frame_of('{"type": "accepted", "id": "1", "acceptance": {"kind": "reply"}, "mood": "good"}') is not None
    with pytest.raises(ValidationError):
        frame_of('{"type": "attached"}')


def test_a_client_without_numbers_is_understood_and_so_is_a_daemon_without() -> None:
    old = '{"type": "attach", "session": "tui:me", "after": 7, "limit": 3}'
    assert CLIENT_FRAME.from_json(old) == Attach("tui:me", 7, 3, protocol=0, client="", epoch="", seen=0)
    attached = '{"type": "attached", "session": "s", "history": [], "now": {}, "commands": [], "greeting": ""}'
    assert frame_of(attached) == Attached("s", [], SessionNow(), [], "", goes_on=False)
    assert frame_of('{"type": "happened", "name": "Notice", "event": {}}') == Happened("Notice", number=0)


@pytest.mark.parametrize(
    "text",
    ["", "hello", "null", "[]", "{}", '{"type": "dance"}', '{"type": "send", "id": "1"}', '{"type": "attach"}'],
)
def test_what_is_no_frame_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        CLIENT_FRAME.from_json(text)
