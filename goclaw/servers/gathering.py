"""Texts that come close together, as one: a reader sees no difference, and both ends wake up a tenth as often.

A quick model sends a hundred pieces a second. As a frame each they cost a client and the daemon as much as everything
else that is done with them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from goclaw.events import TextStreamed, ThinkingStreamed, TurnEvent
from goclaw.supervise import background

MOMENT_SECONDS = 0.04
"""How long a text may wait for the next one: less than a screen takes to show it. Nothing else ever waits."""
MOST_WAITING = 1_000
"""Events that are taken from the source before they are asked for; beyond that the source notices that we are slow."""


@asynccontextmanager
async def open_gathering(events: AsyncIterator[TurnEvent]) -> AsyncIterator[AsyncIterator[TurnEvent]]:
    """The same events in the same order, but that texts of one turn which follow each other within a moment are one."""
    waiting: asyncio.Queue[TurnEvent | None] = asyncio.Queue(MOST_WAITING)
    urgent = asyncio.Event()
    async with background(_read(events, waiting, urgent), "gathering events"):
        yield _gathered(waiting, urgent)


async def _read(
    events: AsyncIterator[TurnEvent], waiting: asyncio.Queue[TurnEvent | None], urgent: asyncio.Event
) -> None:
    async for event in events:
        await waiting.put(event)
        if not isinstance(event, TextStreamed | ThinkingStreamed):
            urgent.set()
    await waiting.put(None)
    urgent.set()


async def _gathered(waiting: asyncio.Queue[TurnEvent | None], urgent: asyncio.Event) -> AsyncIterator[TurnEvent]:
    while True:
        batch = [await waiting.get()]
        while not waiting.empty():
            batch.append(waiting.get_nowait())
        for event in joined(event for event in batch if event is not None):
            yield event
        if batch[-1] is None:
            return
        try:
            async with asyncio.timeout(MOMENT_SECONDS):
                await urgent.wait()
        except TimeoutError:
            pass  # what has come meanwhile goes out together
        urgent.clear()


def joined(events: Iterable[TurnEvent]) -> Iterator[TurnEvent]:
    """Texts of the same kind and turn that follow each other, as one event."""
    held: TextStreamed | ThinkingStreamed | None = None
    for event in events:
        if not isinstance(event, TextStreamed | ThinkingStreamed):
            if held is not None:
                yield held
            held = None
            yield event
        elif held is not None and type(event) is type(held) and event.turn == held.turn:
            held = replace(held, text=held.text + event.text)
        else:
            if held is not None:
                yield held
            held = event
    if held is not None:
        yield held
