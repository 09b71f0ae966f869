"""Conversations for tests about what is deleted: whole turns with their inbox rows, answers and costs."""

from collections.abc import Sequence
from dataclasses import replace

from goclaw.channels.base import Channel
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import Database
from goclaw.durable.store.ownership import SoleOwner
from goclaw.durable.store.spending import Spending
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from tests.parts import sql

ANNA = "telegram:5"
CALL = ToolCall("c1", "exec", {"command": "ls"})


class Story:
    """Writes turns as the daemon does, at times of the test's choice."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.transcripts = Transcripts(database)
        self._clock = SteppedClock(0.0)
        self._journal = Journal(database)
        channels: dict[str, Channel] = {}
        self._outbox = Outbox(database, channels, self._clock, SoleOwner())

    async def turn(
        self, session: str, turn: str, at: float, *messages: Message, media: str | None = None, ended: bool = True
    ) -> list[int]:
        """One turn, its messages a second apart; returns the rows that they begin at."""
        inbound = Inbound(turn, Actor(ANNA, "telegram"), session, f"text of {turn}", Address("telegram", "5"), at)
        await self._journal.submit(inbound, "message")
        await self.database.write(self.transcripts.ensure_session(session, at))
        rows = []
        for number, message in enumerate(messages):
            sender = ANNA if isinstance(message, UserMessage) else ""
            origin = Origin(session, turn, f"step {number}", at + number, sender)
            rows.append((await self.database.write(*rows_of(message, origin)))[0].lastrowid)
        tokens = (100, 10, 0, 0)
        await self.database.write(
            Spending.row(session, turn, "answer", "acme:best", tokens=tokens, cost=0.5, at=at),
        )
        if ended:
            self._clock.advance(at - self._clock.now())
            delivery = Delivery(f"{turn}:deliver:1", inbound.address, f"answer of {turn}", media=media, turn=turn)
            await self._journal.end(turn, at, [self._outbox.row(replace(delivery, session=session))])
        return rows

    async def sent(self) -> None:
        """Every answer has arrived."""
        await self.database.write(sql("UPDATE deliveries SET state = 'sent'"))

    async def column(self, query: str, **values: str) -> list[object]:
        """The first column of a query."""
        return [row[0] for row in await self.database.read(sql(query, **values))]


def talk(word: str, *, image: str = "", output: str = "") -> Sequence[Message]:
    """A question, a tool call with its result, and an answer: four rows and one for the call."""
    images = (Image(image, "image/png"),) if image else ()
    result = f"[kept as output:{output}]" if output else f"{word} result"
    return (
        UserMessage(f"{word} question", images),
        AssistantMessage(f"{word} thought", (CALL,)),
        ToolResult("c1", "exec", result),
        AssistantMessage(f"{word} answer"),
    )
