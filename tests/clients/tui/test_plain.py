"""How a conversation reads in plain lines."""

import asyncio
import io
import os
from pathlib import Path

import pytest

from goclaw.clients.tui import link
from goclaw.clients.tui import link as link_module
from goclaw.clients.tui.app import DaemonPlace
from goclaw.clients.tui.plain import PlainView, converse
from goclaw.common.core.events import (
    ALLOW,
    DENY,
    Acceptance,
    AcceptKind,
    AgentProgress,
    MessageStored,
    Notice,
    Outcome,
    Question,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    StreamRestarted,
    TextStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from goclaw.common.core.messages import Artifact, AssistantMessage, UserMessage
from goclaw.errors import StateError
from tests.clients.tui.bad_line import open_bad_line
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Stage


def shown(*events: TurnEvent | Acceptance) -> str:
    written: list[str] = []
    view = PlainView(written.append, "tui:me")
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


def test_what_a_tool_says_itself_stands_in_place_of_its_input_and_result() -> None:
    kept = (Artifact("chart", "c" * 64, "application/json", "chart.json", 1_234_567),)
    text = shown(
        ToolStarted("t", "s", "1", "chart", {"of": "boats"}, "Counting boats"),
        ToolFinished("t", "s", "1", "chart", "1\n2\n3", False, 0.25, "3 boats", kept),
    )
    assert text.splitlines() == ["⚙ chart Counting boats", "  3 boats", "  ▸ chart.json · 1.2 MB", "  (0.2 s)"]


def test_what_an_agent_does_that_a_call_has_started_is_a_line_below_the_call() -> None:
    text = shown(
        ToolStarted("t", "s", "1", "agent", {}, "reader: Find the tests"),
        AgentProgress("t", "s", "1", "reader: Find the tests", "Searching for \x1b[31mtests"),
    )
    assert text.splitlines()[1] == "  ↳ reader: Find the tests › Searching for tests"


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
    assert "  no such file\n  (failed, 0.1 s)" in shown(
        ToolFinished("t", "s", "1", "exec", '{"error": "no such file"}', True, 0.1)
    )


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


def approval(expires_at: float | None = None) -> Question:
    return Question(
        "q1", "approval", "tui:me", "May exec run?", "It has network.", (ALLOW, DENY), expires_at=expires_at
    )


def test_an_approval_is_shown_with_the_commands_that_answer_it_and_its_end() -> None:
    text = shown(
        TextStreamed("t", "s", "I go."),
        QuestionAsked("t", "s", approval(expires_at=0.0)),
        QuestionAsked("t", "s", approval(expires_at=0.0)),
        QuestionAnswered("t", "s", "q1", ALLOW, "telegram:5"),
        QuestionAnswered("t", "s", "q1", ALLOW, "telegram:5"),
    )
    assert text.splitlines() == [
        "I go.",
        "? May exec run? (0 s left)",
        "It has network.",
        "[/approve q1 or /deny q1]",
        "[✓ May exec run? allowed by telegram:5]",
    ]


def test_a_question_is_shown_with_its_options_and_its_answer() -> None:
    text = shown(
        QuestionAsked("t", "s", Question("q2", "question", "tui:me", "Colour", "Which?", ("red", "blue"))),
        QuestionAnswered("t", "s", "q2", "one\ntwo", "tui:me"),
    )
    assert text.splitlines() == [
        "? Colour",
        "Which?",
        "  1. red",
        "  2. blue",
        "[answer with a number or in your own words; /deny q2 skips it]",
        "[✓ Colour answered by you]",
        "one",
        "two",
    ]


def test_what_is_to_be_done_is_a_line() -> None:
    todos = (Todo("read", "completed"), Todo("write", "in_progress"), Todo("test"))
    assert shown(TodosChanged("t", "s", todos), TodosChanged("t", "s", ())) == "[1 of 3 done; now: write]\n"


def test_a_session_that_was_forgotten_says_so() -> None:
    assert "was deleted" in shown(SessionForgotten("s"))


class Sink(io.StringIO):
    """Where the lines go; tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self._grown = asyncio.Event()

    def write(self, text: str) -> int:
        self._grown.set()
        return super().write(text)

    async def until(self, words: str) -> None:
        while words not in self.getvalue():
            self._grown.clear()
            await self._grown.wait()


async def test_a_conversation_in_plain_lines_asks_and_takes_the_answer(tmp_path: Path) -> None:
    stage, written = Stage(tmp_path), Sink()
    source, typed = os.pipe()
    async with asyncio.timeout(PATIENCE), stage.daemon() as daemon:
        daemon.begin("t1", "paint it")
        daemon.ask("t1", Question("q2", "question", SESSION, "Colour", "Which?", ("red", "blue")))
        with os.fdopen(source) as lines, os.fdopen(typed, "w", buffering=1) as keyboard:
            talking = asyncio.create_task(converse(stage.place.socket, SESSION, lines, written))
            await written.until("1. red")
            keyboard.write("red\n")
            await written.until("red (you)")
            keyboard.write("/quit\n")
            await talking
    assert "? Colour" in written.getvalue() and daemon.questions == []


async def heard(daemon: FakeGateway) -> str:
    """The turn of the first message, as soon as the daemon has it."""
    while True:
        if daemon.heard:
            return daemon.heard[0].id
        await asyncio.sleep(0)


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_break_in_a_pipe_ends_in_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    monkeypatch.setattr(link_module, "RETRY_SECONDS", 0.01)
    stage, written = Stage(tmp_path), Sink()
    stage.place = DaemonPlace(tmp_path / "d", tmp_path / "log", tmp_path)
    async with (
        asyncio.timeout(PATIENCE),
        stage.daemon() as daemon,
        open_bad_line(tmp_path / "s", tmp_path / "d") as line,
    ):
        talking = asyncio.create_task(converse(tmp_path / "s", SESSION, io.StringIO("hello\n"), written))
        turn = await heard(daemon)
        daemon.begin(turn, "hello")
        daemon.stream(turn, "Good ")
        await written.until("Good")
        line.hang_up()
        daemon.stream(turn, "morning.")
        daemon.answer(turn, "Good morning.")
        if is_restarted:
            daemon.restart()
        line.up.set()
        await talking
    begun = "Good \n" if is_restarted else ""
    assert written.getvalue() == f"Model: scripted.\n{begun}Good morning.\n"


async def test_a_daemon_that_does_not_come_back_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "RETURN_SECONDS", 0.05)
    stage, written = Stage(tmp_path), Sink()
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            talking = asyncio.create_task(converse(stage.place.socket, SESSION, io.StringIO("hello\n"), written))
            await heard(daemon)
        with pytest.raises(StateError, match="the daemon ended"):
            await talking


async def test_without_a_daemon_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no GoClaw daemon answers"):
        async with asyncio.timeout(PATIENCE):
            await converse(tmp_path / "nobody", SESSION, io.StringIO("hello\n"), io.StringIO())
