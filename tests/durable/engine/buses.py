"""Buses of several processes on one schema of Postgres, and readers that put together what they see."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.bus import Bus
from goclaw.common.core.events import (
    LOCAL,
    Address,
    MessageStored,
    Outcome,
    Question,
    SessionNow,
    StreamRestarted,
    TextStreamed,
    Todo,
    TodosChanged,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.fencing import Fence
from goclaw.common.core.messages import AssistantMessage
from goclaw.common.core.replay_buffer import NOWHERE, Position
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.engine.views.remote_sessions import RemoteSessions
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.exchange import PostgresExchange
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from tests.acceptance.waiting import clock
from tests.parts import sql

EVERYTHING = 10_000


class Process:
    """One of the processes: its bus, and the sessions that it owns."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.exchange = PostgresExchange(database)
        self.transcripts = Transcripts(database)
        ownership = PostgresOwnership(database, clock)
        self.bus = Bus(clock)
        self.remote = RemoteSessions(self.bus, database, self.exchange, ownership.wanted_if_idle, clock)
        self.questions: tuple[Question, ...] = ()
        self.todos: tuple[Todo, ...] = ()
        self.turn = ""

    async def inspect(self, session: str) -> SessionNow:
        return replace(self.bus.now(session), questions=self.questions, todos=self.todos)

    async def take(self, session: str = "s") -> Fence:
        """Own a session from here on; the owner before hears of it later, or never."""
        self.remote.on_release(session)
        fence = await self.database.acquire(session)
        await self.remote.on_acquire(fence)
        return fence

    async def begin(self, turn: str = "t", session: str = "s") -> None:
        """Begin a turn, or take it up again."""
        body = "INSERT INTO inbox (id, session, kind, body, state, received_at) VALUES "
        await self.database.write(
            sql(f"{body} (:id, :session, 'message', '{{}}', 'new', 0) ON CONFLICT DO NOTHING", id=turn, session=session)
        )
        self.turn = turn
        self.bus.publish(TurnStarted(turn, session, Address(LOCAL, session)))

    def stream(self, text: str, session: str = "s") -> None:
        self.bus.publish(TextStreamed(self.turn, session, text))

    async def store(self, text: str, session: str = "s", *, told: bool = True) -> MessageStored:
        """Store what was streamed. `told`: the process lives long enough to publish it."""
        origin = Origin(session, self.turn, "model", 1.0)
        message = AssistantMessage(text)
        statements = rows_of(message, origin)
        results = await self.database.write(*statements, self.transcripts.ensure_session(session, 1.0))
        event = MessageStored(self.turn, session, results[0].lastrowid, message, 1.0)
        if told:
            self.bus.publish(event)
        return event

    async def end(self, text: str = "", session: str = "s", *, told: bool = True) -> None:
        await self.database.write(sql("UPDATE inbox SET state = 'done' WHERE id = :id", id=self.turn))
        if told:
            self.bus.publish(TurnFinished(self.turn, session, Outcome.ANSWERED, text))


@asynccontextmanager
async def processes(place: PostgresPlace, count: int = 2) -> AsyncIterator[Sequence[Process]]:
    """Processes that hear each other for as long as the block lasts."""
    async with AsyncExitStack() as stack, asyncio.timeout(50):
        made = list[Process]()
        for _ in range(count):
            database = await stack.enter_async_context(open_schema(place, clock))
            process = Process(database)
            await stack.enter_async_context(process.remote.open(process.inspect))
            listening = run_with_restarts("notices", database.notices.run, clock)
            await stack.enter_async_context(background(listening, "notices"))
            made.append(process)
        yield made


class Reader:
    """A client of a process, as terminals and pages are: the state, the rows, and then every event."""

    def __init__(self, process: Process, session: str = "s") -> None:
        self.process = process
        self.session = session
        self.turn = ""
        self.text = ""
        """What is streamed and not stored, as it stands on its screen."""
        self.rows: list[MessageStored] = []
        self.events: list[TurnEvent] = []
        self.at: list[float] = []
        self.questions: list[str] = []
        self.position = NOWHERE
        self.went_on = False
        self.check: Callable[[Reader], None] = lambda reader: None

    @property
    def texts(self) -> list[str]:
        return [row.message.text for row in self.rows if isinstance(row.message, AssistantMessage)]

    @asynccontextmanager
    async def reading(self, client: str = "", position: Position = NOWHERE) -> AsyncIterator["Reader"]:
        """Read for as long as the block lasts, exactly as `servers.serving` does."""
        now = await self.process.bus.state(self.session)
        assert now is not None
        async with self.process.bus.follow(self.session, client, position) as following:
            self.went_on = following.goes_on
            if not following.goes_on:
                after = self.rows[-1].row if self.rows else 0
                self.rows += await self.process.transcripts.history(self.session, after, EVERYTHING)
                self.turn, self.text = now.turn, now.text
                self.questions = [each.id for each in now.questions]
            self.position = following.position
            last = self.rows[-1].row if self.rows else 0

            async def read() -> None:
                async for number, event, at in following.events:
                    self.position = Position(self.position.epoch, number)
                    self._take(event, last)
                    self.at.append(at)

            async with background(read(), "a reader"):
                yield self

    def _take(self, event: TurnEvent, last: int) -> None:
        self.events.append(event)
        match event:
            case TurnStarted():
                self.turn, self.text = event.turn, ""
            case TurnFinished():
                self.turn = self.text = ""
            case StreamRestarted():
                self.text = ""
            case TextStreamed():
                self.text += event.text
            case MessageStored():
                self.text = ""
                if event.row > last:
                    self.rows.append(event)
            case TodosChanged():
                pass
            case _:
                pass
        self.check(self)


def owner_of(made: Sequence[Process], session: str = "s") -> Process | None:
    for process in made:
        if process.remote._remote.owns(session):
            return process
    return None


async def cut_listener(process: Process) -> None:
    """End the connection on which a process hears the others."""
    with suppress(Exception):
        await process.database.read(
            sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = :name AND query LIKE 'LISTEN%'",
                name=process.database.application_name,
            )
        )
