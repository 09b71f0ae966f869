"""A daemon without an agent: the real socket server before a gateway that tests speak for."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from goclaw.clients.tui.app import DaemonPlace, Terminal
from goclaw.common.core.bus import Bus, Following
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.events import (
    ALLOW,
    DENY,
    LOCAL,
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    CommandInfo,
    Inbound,
    MessageStored,
    Outcome,
    Outline,
    Question,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    SessionInfo,
    SessionNow,
    SessionPlace,
    TextStreamed,
    ThinkingStreamed,
    Todo,
    TodosChanged,
    TranscriptRow,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, UserMessage
from goclaw.common.core.replay_buffer import Position
from goclaw.conversation.questions.question_messages import NO_QUESTION, answered
from goclaw.errors import AccessDenied, StateError
from goclaw.gateway.servers.socket_file import open_socket
from goclaw.memory.memory_queries import MemoryQuery
from tests.clients.tui.screen import PATIENCE as PATIENCE
from tests.clients.tui.screen import Screen as Screen
from tests.clients.tui.unseen import Unseen, open_unseen

SESSION = "tui:me"
COMMANDS = [
    CommandInfo("help", "Show available commands"),
    CommandInfo("status", "Show session status and compaction health"),
    CommandInfo("stop", "Stop the current turn"),
]


class FakeGateway:
    """Keeps rows, takes every message, answers nothing by itself."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.bus = Bus(clock)
        self.rows: list[MessageStored] = []
        self._stored = 0
        self.heard: list[Inbound] = []
        """What was accepted, each once."""
        self.questions: list[Question] = []
        self.refuses: set[str] = set()
        """Texts that are not taken."""
        self.replies: dict[str, str] = {}
        """Answers to commands."""
        self.late = False
        """Whether messages are taken as answers to a question that is gone."""
        self.todos: tuple[Todo, ...] = ()
        self.known_sessions: list[SessionInfo] = []
        self.closed: set[str] = set()
        """Sessions that the person may not read."""
        self.artifacts: dict[str, str] = {}
        """What calls kept for people, by key."""
        self.wanted: list[str] = []
        """Keys of those that were asked for."""
        self.workspace: list[str] = []
        """Paths that `@` finds."""
        self.decided: list[tuple[str, str]] = []
        """Answers to questions, by their id."""
        self.numbers: dict[str, Any] = {
            "model": "scripted:model",
            "tokens": 12_345,
            "context_window": 200_000,
            "reserve": 30_000,
        }

    # What the server asks

    async def answerable(self, actor: Actor) -> list[QuestionAsked]:
        return []

    async def accept(self, inbound: Inbound) -> Acceptance:
        if inbound.text in self.refuses:
            raise StateError("no room for more")
        if any(heard.id == inbound.id for heard in self.heard):
            return Acceptance(AcceptKind.DUPLICATE, inbound.id)
        self.heard.append(inbound)
        if inbound.text.startswith("/"):
            reply = self.replies.get(inbound.text, f"Answer to {inbound.text}")
            return Acceptance(AcceptKind.REPLY, text=reply, markdown=reply.startswith("**"))
        if self.late:
            return NO_QUESTION
        for question in self.questions:
            if question.kind == "question" and question.asker == inbound.actor.key:
                self.close(question.id, inbound.text, inbound.actor.key)
                return Acceptance(AcceptKind.ANSWER, text="Thank you.")
        return Acceptance(AcceptKind.TURN, inbound.id)

    def session_for(self, actor: Actor, session: str) -> str:
        if session in self.closed:
            raise AccessDenied(f"{session} is not a session of {actor.key}")
        return session

    async def media_name(self, session: str, blob: str) -> str | None:
        return None

    def oversees(self, actor: Actor) -> bool:
        return actor.owner

    def commands(self, actor: Actor | None) -> Sequence[CommandInfo]:
        return COMMANDS

    def subscribe(self, session: str | None) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        return self.bus.subscribe(session)

    def follow(self, session: str, client: str, position: Position) -> AbstractAsyncContextManager[Following]:
        return self.bus.follow(session, client, position)

    def acknowledge(self, session: str, client: str, number: int) -> None:
        self.bus.acknowledge(session, client, number)

    async def history(
        self, session: str, after: int = 0, limit: int = 200, before: int | None = None
    ) -> Sequence[MessageStored]:
        rows = [row for row in self.rows if row.session == session]
        return [row for row in rows if row.row > after and (before is None or row.row < before)][-limit:]

    async def transcript(self, session: str, after: int) -> Sequence[TranscriptRow]:
        return ()

    async def artifact(self, session: str, blob: str) -> tuple[str, bool]:
        self.wanted.append(blob)
        text = self.artifacts.get(blob, "it is no longer stored")
        return text[:2_000], len(text) > 2_000

    async def memory(self, actor: Actor, query: MemoryQuery) -> Mapping[str, Any]:
        return {"order": query.order}

    async def outline(self, session: str, last: int) -> Outline:
        return Outline(session, len(self.rows), shown_from=1)

    async def now(self, session: str) -> SessionNow:
        return replace(self.bus.now(session), questions=tuple(self.questions), todos=self.todos)

    async def sessions(
        self, actor: Actor, *, agents: bool = False, after: SessionPlace | None = None, limit: int | None = None
    ) -> Sequence[SessionInfo]:
        return self.known_sessions

    async def files(self, actor: Actor, begun: str) -> Sequence[str]:
        return [path for path in self.workspace if begun in path]

    async def status(self, session: str, actor: Actor) -> Mapping[str, Any]:
        return self.numbers

    async def decide(self, actor: Actor, question: str, answer: str, chat: Address | None = None) -> Acceptance:
        self.decided.append((question, answer))
        if all(open_one.id != question for open_one in self.questions):
            return NO_QUESTION
        self.close(question, answer, actor.key)
        return answered("Allowed." if answer == ALLOW else "Denied." if answer == DENY else "Thank you.")

    async def choose(self, actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance:
        return NO_QUESTION

    def restart(self) -> None:
        """Forget what a daemon forgets with its end; what was streamed stands for what is streamed anew."""
        views = self.bus._views
        self.bus = Bus(self.clock)
        self.bus._views = views

    # What tests say for the agent

    def store(self, turn: str, message: Message, sender: str = "", session: str = SESSION) -> MessageStored:
        """Put a row into the transcript without telling anybody."""
        self._stored += 1
        row = MessageStored(turn, session, self._stored, message, self.clock.now(), sender)
        self.rows.append(row)
        return row

    def tell(self, turn: str, message: Message, sender: str = "", session: str = SESSION) -> None:
        """Put a row into the transcript and tell the clients."""
        self.bus.publish(self.store(turn, message, sender, session))

    def begin(self, turn: str, text: str, sender: str = "tui:me") -> None:
        """A turn begins."""
        self.bus.publish(TurnStarted(turn, SESSION, Address(LOCAL, SESSION)))
        self.tell(turn, UserMessage(text), sender)

    def stream(self, turn: str, *texts: str) -> None:
        """The agent writes."""
        for text in texts:
            self.bus.publish(TextStreamed(turn, SESSION, text))

    def answer(self, turn: str, text: str, *calls: ToolCall) -> None:
        """The answer is whole; without calls the turn ends."""
        self.tell(turn, AssistantMessage(text, calls))
        if not calls:
            self.bus.publish(TurnFinished(turn, SESSION, Outcome.ANSWERED, text))

    def forget(self) -> None:
        """The transcript is deleted; numbers of rows are never used again."""
        self.rows.clear()
        self.bus.publish(SessionForgotten(SESSION))

    def think(self, turn: str, *texts: str) -> None:
        """The agent thinks."""
        for text in texts:
            self.bus.publish(ThinkingStreamed(turn, SESSION, text))

    def ask(self, turn: str, question: Question) -> None:
        """The turn waits for a person."""
        self.questions.append(question)
        self.bus.publish(QuestionAsked(turn, SESSION, question))

    def close(self, question_id: str, answer: str, by: str) -> None:
        """End a question: it was answered, or its time is over."""
        self.questions = [question for question in self.questions if question.id != question_id]
        self.bus.publish(QuestionAnswered("", SESSION, question_id, answer, by))

    def plan(self, turn: str, *todos: Todo) -> None:
        """What is to be done."""
        self.todos = todos
        self.bus.publish(TodosChanged(turn, SESSION, todos))


class Stage:
    """A terminal of some size before a daemon that can be taken away."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        """`clock`: of daemon and client alike; not given: the machine's own."""
        self.clock = clock or RealClock()
        self.gateway = FakeGateway(self.clock)
        self.place = DaemonPlace(folder / "s", folder / "goclaw.log", folder)

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[FakeGateway]:
        """Listen; the transcript outlives the block, the daemon does not."""
        async with open_socket(self.place.socket, self.gateway, self.clock, lambda: "Model: scripted."):
            yield self.gateway
        self.gateway.restart()

    @asynccontextmanager
    async def terminal(
        self, size: tuple[int, int] = (80, 24), *, ready: str = "12.3k of 200k tokens", pick: bool = False
    ) -> AsyncIterator[Screen]:
        """The client, attached and at rest: the bar has the numbers."""
        terminal = Terminal(self.place, SESSION, self.clock, pick=pick)
        async with terminal.run_test(size=size, notifications=True):
            screen = Screen(terminal)
            if self.place.socket.exists():
                await screen.until(ready)
            yield screen

    @asynccontextmanager
    async def unseen(self, *, ready: str = "12.3k of 200k tokens") -> AsyncIterator[Unseen]:
        """The client without a screen, attached and at rest."""
        async with open_unseen(self.place, SESSION, self.clock) as client:
            if self.place.socket.exists():
                await client.until(ready)
            yield client
