"""A conversation in plain lines: what a terminal gets for now, and what pipes always get."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TextIO

from goclaw.clock import Clock, RealClock
from goclaw.errors import StateError
from goclaw.events import (
    Acceptance,
    AcceptKind,
    MessageStored,
    Notice,
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
from goclaw.messages import AssistantMessage, UserMessage
from goclaw.redact import printable
from goclaw.tui.client import Client, attach
from goclaw.tui.link import person_in
from goclaw.tui.questions import decided, text_of, time_left, title_of, ways
from goclaw.tui.text import FORGOTTEN, one_line

PROMPT = "› "
LEAVE = ("/quit", "/exit")
RESULT_LINES = 8
"""Lines of a tool's result that are shown; the transcript has the rest."""
INPUT_SHOWN = 120
COMPLETE = "complete"
"""Why a stream is void when the answer went out with the history already (servers.socket)."""


class PlainView:
    """Turns events into text. Holds only whether a line has been begun, and what was asked."""

    def __init__(self, write: Callable[[str], None], me: str = "", clock: Clock | None = None) -> None:
        """`me`: the actor key of the person who reads."""
        self._sink = write
        self._me = me
        self._clock = clock or RealClock()
        self._streaming = False
        self._streamed = False
        self._asked: dict[str, Question] = {}

    def history(self, rows: list[MessageStored]) -> None:
        """What was said before, shortly."""
        for row in rows:
            match row.message:
                case UserMessage():
                    self._line(f"{PROMPT}{row.message.text}")
                case AssistantMessage() if row.message.text:
                    self._line(row.message.text)
                case _:
                    pass

    def partial(self, text: str) -> None:
        """The answer that is being written."""
        if text:
            self._text(text)

    def show(self, happened: TurnEvent | Acceptance) -> None:
        """One event."""
        match happened:
            case TextStreamed():
                self._text(happened.text)
            case StreamRestarted() if happened.reason == COMPLETE:
                self._streamed = True  # the history that was shown has the whole answer
            case StreamRestarted():
                self._line(f"[starting again: {happened.reason}]")
                self._streamed = False
            case ToolStarted():
                given = str(dict(happened.input))
                shown = given if len(given) <= INPUT_SHOWN else f"{given[:INPUT_SHOWN]}…"
                self._line(f"⚙ {happened.name} {shown}")
            case ToolFinished():
                self._result(happened)
            case Notice():
                self._line(f"[{happened.text}]")
            case TurnFinished():
                if not self._streamed:
                    self._line(happened.text)
                self._end_line()
                self._streamed = False
            case Acceptance() if happened.kind is not AcceptKind.TURN:
                self._line(happened.text or f"[{happened.kind}]")
            case _:
                self._beside(happened)

    def asked(self, question: Question) -> None:
        """A question, once, and how to answer it."""
        if question.id in self._asked:
            return
        self._asked[question.id] = question
        left = time_left(question, self._clock.now())
        lines = [f"? {title_of(question)}{f' ({left})' if left else ''}", text_of(question)]
        if question.kind == "question":
            lines += [f"  {number}. {one_line(option, 200)}" for number, option in enumerate(question.options, 1)]
        self._line("\n".join([*lines, f"[{ways(question, self._me)}]"]))
        self._streamed = False

    def _beside(self, happened: TurnEvent | Acceptance) -> None:
        """What happens beside the conversation."""
        match happened:
            case QuestionAsked():
                self.asked(happened.question)
            case QuestionAnswered():
                self._answered(happened)
            case TodosChanged():
                self._todos(happened.todos)
            case SessionForgotten():
                self._line(f"[{FORGOTTEN}]")
            case _:
                pass

    def _answered(self, answered: QuestionAnswered) -> None:
        if question := self._asked.pop(answered.question_id, None):
            outcome = decided(question, answered, self._me, self._clock.now())
            below = f"\n{outcome.below}" if outcome.below else ""
            self._line(f"[{outcome.sign} {title_of(question)} {outcome.words}]{below}")

    def _todos(self, todos: Sequence[Todo]) -> None:
        done = sum(todo.status == "completed" for todo in todos)
        doing = next((f"; now: {todo.content}" for todo in todos if todo.status == "in_progress"), "")
        if todos:
            self._line(f"[{done} of {len(todos)} done{doing}]")

    def _result(self, finished: ToolFinished) -> None:
        lines = finished.content.splitlines()
        shown = [f"  {line}" for line in lines[:RESULT_LINES]]
        if len(lines) > RESULT_LINES:
            shown.append(f"  … {len(lines) - RESULT_LINES} more lines")
        self._line("\n".join([*shown, f"  ({'failed, ' if finished.is_error else ''}{finished.seconds:.1f} s)"]))
        self._streamed = False

    def _write(self, text: str) -> None:
        self._sink(printable(text))

    def _text(self, text: str) -> None:
        self._write(text)
        self._streaming = not text.endswith("\n")
        self._streamed = True

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(f"{text}\n")

    def _end_line(self) -> None:
        if self._streaming:
            self._write("\n")
        self._streaming = False


async def converse(socket: Path, session: str, source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> None:
    """Talk in `session` until the input ends; the answers of what was sent are waited for.

    Raises:
        StateError: no daemon answers, or it went away.
    """

    def write(text: str) -> None:
        sink.write(text)
        sink.flush()

    async with attach(socket, session) as client:
        view = PlainView(write, person_in(session))
        view.history(client.attached.history)
        write(printable(f"{client.attached.greeting}\n"))
        view.partial(client.attached.now.text)
        for question in client.attached.now.questions:
            view.asked(question)
        talk = _Talk(client, view, prompt=source.isatty(), write=write)
        await talk.run(_lines(source))


class _Talk:
    """The two halves of a conversation, and what is still unanswered."""

    def __init__(self, client: Client, view: PlainView, *, prompt: bool, write: Callable[[str], None]) -> None:
        self._client = client
        self._view = view
        self._prompt = prompt
        self._write = write
        self._unanswered = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, lines: AsyncIterator[str]) -> None:
        listening = asyncio.create_task(self._listen())
        typing = asyncio.create_task(self._type(lines))
        done, _ = await asyncio.wait({listening, typing}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        typing.cancel()
        await asyncio.gather(listening, typing, return_exceptions=True)
        for task in done:
            task.result()
        if typing not in done:
            raise StateError("the daemon ended. Start it again with `goclaw`; nothing that was said is lost.")

    async def _type(self, lines: AsyncIterator[str]) -> None:
        self._show_prompt()
        async for line in lines:
            if line.strip() in LEAVE:
                break
            if line.strip():
                self._unanswered += 1
                self._idle.clear()
                await self._client.submit(line)
            else:
                self._show_prompt()
        await self._idle.wait()

    async def _listen(self) -> None:
        async for happened in self._client.frames():
            self._view.show(happened)
            if isinstance(happened, MessageStored) and happened.joined and self._unanswered > 1:
                self._unanswered -= 1  # one answer for it and the message whose turn it joined
            answered = isinstance(happened, TurnFinished) or (
                isinstance(happened, Acceptance) and happened.kind is not AcceptKind.TURN
            )
            if answered:
                self._unanswered = max(0, self._unanswered - 1)
                if self._unanswered == 0:
                    self._idle.set()
                self._show_prompt()

    def _show_prompt(self, *, waited_for: bool = False) -> None:
        if self._prompt and (self._unanswered == 0 or waited_for):
            self._write(PROMPT)


async def _lines(source: TextIO) -> AsyncIterator[str]:
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
