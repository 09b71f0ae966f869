"""A gateway for channels to talk to: remembers what it was given and publishes what a test says."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import (
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    CommandInfo,
    Inbound,
    MessageStored,
    SessionInfo,
    SessionNow,
    SessionPlace,
    TurnEvent,
)
from goclaw.conversation.questions.question_messages import answered
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.open import open_database


@asynccontextmanager
async def open_state(folder: Path | None = None) -> AsyncIterator[ChannelRows]:
    """What a channel keeps in the store of this state folder; None: of one that is nowhere afterwards."""
    with nullcontext(folder) if folder else TemporaryDirectory() as found:
        async with open_database(Path(found) / "goclaw.db") as database:
            yield ChannelRows(database)


class RecordingGateway:
    """The `GatewayPort` of channel tests."""

    def __init__(self) -> None:
        self.accepted: list[Inbound] = []
        self.errors: list[Exception] = []
        """Raised by the next calls of `accept`, one each."""
        self.taken_as = AcceptKind.TURN
        """What becomes of messages that are not known yet."""
        self.gates: dict[str, asyncio.Event] = {}
        """Messages with this text are not durable until the event is set."""
        self.late_errors: dict[str, Exception] = {}
        """Raised once for the message with this text, after its gate."""
        self.chosen: list[tuple[str, str, int]] = []
        """Presses of buttons: who, which question, which option."""
        self.own_commands: dict[str, Sequence[CommandInfo]] = {}
        """By actor key, what these people may run besides what everybody may."""
        self.begun: list[str] = []
        """Texts in the order in which they were handed over."""
        self._bus = Bus(RealClock())
        self._changed = asyncio.Condition()
        self._subscribed = asyncio.Event()

    async def accept(self, inbound: Inbound) -> Acceptance:
        self.begun.append(inbound.text)
        await self._notify()
        if self.errors:
            raise self.errors.pop(0)
        if gate := self.gates.get(inbound.text):
            await gate.wait()
        if error := self.late_errors.pop(inbound.text, None):
            raise error
        known = any(inbound.id == other.id for other in self.accepted)
        self.accepted.append(inbound)
        await self._notify()
        return Acceptance(AcceptKind.DUPLICATE if known else self.taken_as, inbound.id)

    def commands(self, actor: Actor | None) -> Sequence[CommandInfo]:
        return [
            CommandInfo("status", "How it is going"),
            CommandInfo("not-a-menu-name", "x"),
            CommandInfo("stop", "Stop"),
            *self.own_commands.get(actor.key if actor else "", ()),
        ]

    @asynccontextmanager
    async def subscribe(self, session: str | None) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        async with self._bus.subscribe(session) as events:
            self._subscribed.set()
            yield events

    async def publish(self, *events: TurnEvent) -> None:
        """Let events happen, once there is a listener."""
        await self._subscribed.wait()
        for event in events:
            self._bus.publish(event)

    async def wait_accepted(self, count: int) -> list[Inbound]:
        """The messages, when there are `count`."""
        await self._wait(lambda: len(self.accepted) >= count)
        return self.accepted

    async def wait_begun(self, count: int) -> list[str]:
        """The texts that were handed over, when there are `count`."""
        await self._wait(lambda: len(self.begun) >= count)
        return self.begun

    async def history(
        self, session: str, after: int = 0, limit: int = 200, before: int | None = None
    ) -> Sequence[MessageStored]:
        return []

    async def now(self, session: str) -> SessionNow:
        return SessionNow()

    async def sessions(
        self, actor: Actor, *, agents: bool = False, after: SessionPlace | None = None, limit: int | None = None
    ) -> Sequence[SessionInfo]:
        return []

    async def files(self, actor: Actor, begun: str) -> Sequence[str]:
        return []

    async def status(self, session: str, actor: Actor) -> Mapping[str, Any]:
        return {}

    async def decide(self, actor: Actor, question: str, answer: str, chat: Address | None = None) -> Acceptance:
        return answered(f"{actor.key} answered {question}: {answer}")

    async def choose(self, actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance:
        self.chosen.append((actor.key, question, index))
        await self._notify()
        return answered(f"You chose {index}.")

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _wait(self, is_so: Any) -> None:
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(is_so)
