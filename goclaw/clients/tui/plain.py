"""A conversation in plain lines, for pipes and for the plain terminal client."""

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TextIO

from goclaw.clients.tui.client import Received, Way, person_at
from goclaw.clients.tui.link import Link, PendingReplies, ReplyDeadline
from goclaw.clients.tui.text import (
    FORGOTTEN,
    artifact_lines,
    describe_decision,
    error_words,
    one_line,
    option_lines,
    text_of,
    time_left,
    title_of,
    ways_to_answer,
)
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.events import (
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
from goclaw.common.core.messages import Artifact, AssistantMessage, ToolResult, UserMessage
from goclaw.common.core.redact import printable
from goclaw.common.core.wire import Accepted, ArtifactFrame, Attached, FilesReply, Older, Refused, SessionsReply, Status
from goclaw.errors import StateError

PROMPT = "› "
LEAVE = ("/quit", "/exit")
RESULT_LINES = 8
"""Lines of a tool's result that are shown; the transcript has the rest."""
INPUT_SHOWN = 120
FIRST_ROWS = 50
"""Rows that are shown at first."""
ENDED = "the daemon ended. Start it again with `goclaw`; the conversation is not lost."
COMPLETE = "complete"
"""Why a stream is void when the answer went out with the history already (servers.serving)."""


class PlainView:
    """Turns events into text. Holds only whether a line has been begun, and the open question."""

    def __init__(self, write: Callable[[str], None], me: str = "", clock: Clock | None = None) -> None:
        """`me`: the actor key of the reader."""
        self._sink = write
        self._me = me
        self._clock = clock or RealClock()
        self._streaming = False
        self._streamed = False
        self._asked: dict[str, Question] = {}

    def history(self, rows: list[MessageStored]) -> None:
        """Print the earlier conversation, shortened."""
        for row in rows:
            match row.message:
                case UserMessage():
                    self.line(f"{PROMPT}{row.message.text}")
                case AssistantMessage() if row.message.text:
                    self.line(row.message.text)
                    self._print_files(row.message.artifacts)
                case ToolResult():
                    self._print_files(each for each in row.message.artifacts if each.is_file or each.text)
                case _:
                    pass

    def _print_files(self, artifacts: Iterable[Artifact]) -> None:
        """Print what an answer or a call has for people."""
        for line in (line for each in artifacts for line in artifact_lines(each, self._me)):
            self.line(f"  {line}")

    def print_backlog(self, rows: list[MessageStored], me: str) -> None:
        """Print the rows added while the daemon was away; those of `me` are on the screen already."""
        if rows or self._streaming:
            self._streamed = False
        for row in rows:
            match row.message:
                case UserMessage() if row.sender != me:
                    self.line(f"{PROMPT}{row.message.text}")
                case AssistantMessage() if row.message.text:
                    self.line(row.message.text)
                    self._print_files(row.message.artifacts)
                    self._streamed = not row.message.calls
                case _:
                    pass
        if self._streaming:
            self.line("[starting again: the daemon was restarted]")

    def partial(self, text: str) -> None:
        """Print the answer streamed so far."""
        if text:
            self._text(text)

    def show(self, happened: TurnEvent | Acceptance) -> None:
        """Print one event."""
        match happened:
            case TextStreamed():
                self._text(happened.text)
            case StreamRestarted() if happened.reason == COMPLETE:
                self._streamed = True  # the history that was shown has the whole answer
            case StreamRestarted():
                self.line(f"[starting again: {happened.reason}]")
                self._streamed = False
            case ToolStarted():
                given = happened.hint or str(dict(happened.input))
                shown = given if len(given) <= INPUT_SHOWN else f"{given[:INPUT_SHOWN]}…"
                self.line(f"⚙ {happened.name} {shown}")
            case ToolFinished():
                self._result(happened)
            case Notice():
                self.line(f"[{happened.text}]")
            case TurnFinished():
                self._print_end(happened)
            case Acceptance() if happened.kind is not AcceptKind.TURN:
                self.line(happened.text or f"[{happened.kind}]")
            case _:
                self._beside(happened)

    def _print_end(self, ended: TurnFinished) -> None:
        if ended.text and not self._streamed:
            self.line(ended.text)
        self._end_line()
        if self._streamed and ended.outcome is not Outcome.ANSWERED:
            self.line(ended.text.rpartition("\n\n")[2])  # why it is not whole
        self._streamed = False

    def print_question(self, question: Question) -> None:
        """Print a question, once, and how to answer it."""
        if question.id in self._asked:
            return
        self._asked[question.id] = question
        left = time_left(question, self._clock.now())
        lines = [f"? {title_of(question)}{f' ({left})' if left else ''}", text_of(question)]
        if question.kind == "question":
            lines += option_lines(question)
        self.line("\n".join([*lines, f"[{ways_to_answer(question, self._me)}]"]))
        self._streamed = False

    def _beside(self, happened: TurnEvent | Acceptance) -> None:
        """Print an event outside the conversation."""
        match happened:
            case QuestionAsked():
                self.print_question(happened.question)
            case QuestionAnswered():
                self._print_decision(happened)
            case AgentProgress():
                self.line(f"  ↳ {one_line(f'{happened.agent} › {happened.doing}', INPUT_SHOWN)}")
            case TodosChanged():
                self._todos(happened.todos)
            case MessageStored(message=AssistantMessage(artifacts=artifacts)):
                self._print_files(artifacts)
            case SessionForgotten():
                self.line(f"[{FORGOTTEN}]")
            case _:
                pass

    def _print_decision(self, answered: QuestionAnswered) -> None:
        if question := self._asked.pop(answered.question_id, None):
            outcome = describe_decision(question, answered, self._me, self._clock.now())
            below = f"\n{outcome.below}" if outcome.below else ""
            self.line(f"[{outcome.sign} {title_of(question)} {outcome.words}]{below}")

    def _todos(self, todos: Sequence[Todo]) -> None:
        done = sum(todo.status == "completed" for todo in todos)
        doing = next((f"; now: {todo.content}" for todo in todos if todo.status == "in_progress"), "")
        if todos:
            self.line(f"[{done} of {len(todos)} done{doing}]")

    def _result(self, finished: ToolFinished) -> None:
        lines = (error_words(finished.content) if finished.is_error else finished.content).splitlines()
        shown = [f"  {line}" for line in lines[:RESULT_LINES]]
        if finished.hint:
            shown = [f"  {one_line(finished.hint, INPUT_SHOWN)}"]
        elif len(lines) > RESULT_LINES:
            shown.append(f"  … {len(lines) - RESULT_LINES} more lines")
        shown += [f"  {line}" for each in finished.artifacts for line in artifact_lines(each, self._me)]
        self.line("\n".join([*shown, f"  ({'failed, ' if finished.is_error else ''}{finished.seconds:.1f} s)"]))
        self._streamed = False

    def _write(self, text: str) -> None:
        self._sink(printable(text))

    def _text(self, text: str) -> None:
        self._write(text)
        self._streaming = not text.endswith("\n")
        self._streamed = True

    def line(self, text: str) -> None:
        """Print a line of its own."""
        self._end_line()
        self._write(f"{text}\n")

    def _end_line(self) -> None:
        if self._streaming:
            self._write("\n")
        self._streaming = False


async def converse(way: Way, session: str, source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> None:
    """Talk in `session` until the input ends; wait for the answers to sent messages.

    Raises:
        StateError: no daemon answers, or it went away and does not come back.
    """

    def write(text: str) -> None:
        sink.write(text)
        sink.flush()

    talk = _Talk(Link(way, session, FIRST_ROWS), PlainView(write, person_at(way, session)), write, source)
    await talk.run()


class _Talk:
    """The two halves of a conversation, and the messages still unanswered. Implements `link.Watcher`."""

    def __init__(self, link: Link, view: PlainView, write: Callable[[str], None], source: TextIO) -> None:
        self._link = link
        self._view = view
        self._write = write
        self._source = source
        self._prompts = source.isatty()
        self._pending = PendingReplies()
        self._commands: set[str] = set()
        """The turns that messages with a slash would have become."""
        self._patience = ReplyDeadline(lambda: self._fail(StateError(ENDED)))
        self._is_new = True
        self._is_away = False
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_ready = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until the input has ended and everything is answered, or the daemon is gone."""
        listening = asyncio.create_task(self._link.run(self), name="listening")
        typing = asyncio.create_task(self._type(), name="typing")
        await asyncio.wait({listening, typing, self._failed}, return_when=asyncio.FIRST_COMPLETED)
        ends = [task for task in (self._failed, listening, typing) if task.done()]
        self._patience.end()
        listening.cancel()
        typing.cancel()
        await asyncio.gather(listening, typing, return_exceptions=True)
        ends[0].result()

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        """At first, and after the daemon was restarted."""
        if self._is_new:
            self._is_new = False
            self._view.history(attached.history)
            self._write(printable(f"{attached.greeting}\n"))
            self._is_ready.set()
        else:
            self._on_connect()
            self._view.print_backlog(attached.history, self._link.person)
            for _ in self._pending.caught_up(attached.history, attached.now):
                self._on_answer()
            if self._pending:
                self._patience.start()
        self._view.partial(attached.now.text)
        for question in attached.now.questions:
            self._view.print_question(question)

    async def went_on(self, attached: Attached) -> None:
        """Nothing was missed."""
        self._on_connect()

    async def on_frame(self, received: Received) -> None:
        """Handle a frame of the daemon."""
        match received:
            case Accepted():
                if ended := self._pending.on_acceptance(received, self._link.taken):
                    self._view.line(ended.text)
                    self._on_answer()
            case Refused():
                self._fail(StateError(f"the daemon refused: {received.reason}"))
            case Status() | Older() | SessionsReply() | FilesReply() | ArtifactFrame():
                pass
            case Notice() if received.turn in self._commands:
                pass  # the answer to the command says it
            case _:
                self._patience.end()
                self._view.show(received)
                ended = self._pending.on_event(received)
                if ended or isinstance(received, TurnFinished):
                    self._on_answer()

    async def on_disconnect(self, reason: str) -> None:
        """Handle a broken connection: the daemon may come back, unless it never was there."""
        if self._is_new:
            self._fail(StateError(reason))
        elif not self._is_away:
            self._is_away = True
            self._patience.start()
            if self._prompts:
                self._view.line("[lost the daemon; reconnecting]")

    async def on_refusal(self, reason: str) -> None:
        """Handle a refusal: the person has no access to the session."""
        self._fail(StateError(reason))

    async def _type(self) -> None:
        await self._is_ready.wait()
        self._show_prompt()
        async with aclosing(_lines(self._source)) as lines:
            async for line in lines:
                if line.strip() in LEAVE:
                    break
                if line.strip():
                    turn = self._link.submit(line)
                    self._pending.on_send(turn)
                    if line.startswith("/"):
                        self._commands.add(turn)
                else:
                    self._show_prompt()
        while self._pending:
            self._changed.clear()
            await self._changed.wait()

    def _on_connect(self) -> None:
        self._patience.end()
        if self._is_away and self._prompts:
            self._view.line("[reconnected]")
        self._is_away = False

    def _on_answer(self) -> None:
        self._changed.set()
        self._show_prompt()

    def _show_prompt(self) -> None:
        if self._prompts and not self._pending:
            self._write(PROMPT)

    def _fail(self, error: StateError) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)


async def _lines(source: TextIO) -> AsyncGenerator[str, None]:
    """Lines as they are typed. Read in a daemon thread: nothing may keep the program from ending while it waits."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        try:
            for line in source:
                loop.call_soon_threadsafe(lines.put_nowait, line.rstrip("\n"))
        except UnicodeDecodeError:
            pass  # what follows is no text: the input ends here
        finally:
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, name="reading the terminal", daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line
