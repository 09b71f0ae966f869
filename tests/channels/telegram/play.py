"""One turn as Telegram sees it, event by event, on a clock that stands still."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    Address,
    Outcome,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from tests.channels.telegram.support import POLLER, Stage, eventually, open_stage

PRIVATE = Address("telegram", "5")
GROUP = Address("telegram", "-100", "7", "1")


class Play:
    """One turn, as a test lets it happen on a clock that stands still."""

    def __init__(self, stage: Stage, clock: SteppedClock, address: Address) -> None:
        self.stage = stage
        self.clock = clock
        self.address = address
        self.chat = int(address.chat)

    async def begin(self, text: str = "") -> None:
        """The turn begins; the words that it streams at once are old enough to be shown."""
        self.stage.telegram.world.meet(self.chat)
        await self.stage.gateway.publish(TurnStarted("t1", "s", self.address))
        await eventually(lambda: self.clock.sleepers >= 2 + POLLER)
        if text:
            await self.stream(text)
            await self.past_the_quick_answers()

    async def shown(self, *texts: str) -> None:
        """Wait until the drafts were these."""
        await wait_calls(self.stage, "sendMessageDraft", list(texts))

    async def grown(self, text: str) -> None:
        """Wait until the one message in the chat says this."""
        await self.stage.telegram.wait_for(lambda: self.stage.texts(self.chat) == [text] or None)

    async def stream(self, text: str) -> None:
        await self.stage.gateway.publish(TextStreamed("t1", "s", text))

    async def types(self) -> None:
        """Let the time pass in which nothing is shown, until the typing sign is."""
        await self.past_the_quick_answers()
        await self.stage.telegram.wait_called("sendChatAction")

    async def past_the_quick_answers(self) -> None:
        """Let the time pass in which neither the typing sign nor a preview is shown."""
        await eventually(lambda: self.clock.sleepers >= 2 + POLLER)
        self.clock.advance(0.3)

    async def later(self, seconds: float) -> None:
        """Let time pass, once the view waits for it."""
        await eventually(lambda: self.clock.sleepers >= 2 + POLLER)
        self.clock.advance(seconds)

    async def tried(self) -> None:
        """Wait until the view has shown what it may."""
        await eventually(lambda: self.clock.sleepers >= 2 + POLLER)

    async def use(self, name: str, arguments: dict[str, Any], call: str = "c1") -> None:
        """A tool begins to run."""
        await self.stage.gateway.publish(ToolStarted("t1", "s", call, name, arguments))

    async def used(self, call: str = "c1") -> None:
        """And ends, in trouble."""
        await self.stage.gateway.publish(ToolFinished("t1", "s", call, "exec", '{"error": "raw"}', True, 1.0))

    async def finish(self, text: str, outcome: Outcome = Outcome.ANSWERED, *, silent: bool = False) -> None:
        await self.stage.gateway.publish(TurnFinished("t1", "s", outcome, text, silent))

    async def answer(self, text: str, number: str = "final") -> str:
        address = self.address
        return await self.stage.deliver(
            text, chat=self.chat, number=number, thread=address.thread, reply_to=address.reply_to, turn="t1"
        )


@asynccontextmanager
async def playing(address: Address) -> AsyncIterator[tuple[Play, Stage]]:
    """A turn that has not begun, on a stage of its own."""
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        yield Play(stage, clock, address), stage


async def meanwhile(stage: Stage, number: str) -> None:
    """Time enough for a preview that should not be: other work on the same connection to the end."""
    stage.telegram.world.meet(9)
    for step in range(3):
        await stage.deliver("meanwhile", chat=9, number=f"{number}.{step}")


async def wait_calls(stage: Stage, method: str, texts: list[str]) -> None:
    """Wait until `method` was called with these texts, one after the other."""
    await stage.telegram.wait_for(lambda: [call["text"] for call in stage.telegram.called(method)] == texts or None)
