"""Texts that come close together, as one: a reader sees no difference, and both ends wake up a tenth as often.

A quick model sends a hundred pieces a second. As a frame each they cost a client and the daemon as much as everything
else that is done with them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from goclaw.events import TextStreamed, ThinkingStreamed
from goclaw.replay_buffer import Numbered
from goclaw.supervise import background

MOMENT_SECONDS = 0.04
"""How long a text may wait for the next one: less than a screen takes to show it. Nothing else ever waits."""
MAX_WAITING = 1_000
"""Events that are taken from the source before they are asked for; beyond that the source notices that we are slow."""


@asynccontextmanager
async def open_gathering(events: AsyncIterator[Numbered]) -> AsyncIterator[AsyncIterator[Numbered]]:
    """The same events in the same order, but that texts of one turn which follow each other within a moment are one.

    That one has the number of the last of them, and the time of the first.
    """
    waiting: asyncio.Queue[Numbered | None] = asyncio.Queue(MAX_WAITING)
    urgent = asyncio.Event()
    async with background(_read(events, waiting, urgent), "gathering events"):
        yield _gathered(waiting, urgent)


async def _read(
    events: AsyncIterator[Numbered], waiting: asyncio.Queue[Numbered | None], urgent: asyncio.Event
) -> None:
    async for numbered in events:
        await waiting.put(numbered)
        if not isinstance(numbered.event, TextStreamed | ThinkingStreamed):
            urgent.set()
    await waiting.put(None)
    urgent.set()


async def _gathered(waiting: asyncio.Queue[Numbered | None], urgent: asyncio.Event) -> AsyncIterator[Numbered]:
    while True:
        batch = [await waiting.get()]
        while not waiting.empty():
            batch.append(waiting.get_nowait())
        for numbered in joined(numbered for numbered in batch if numbered is not None):
            yield numbered
        if batch[-1] is None:
            return
        try:
            async with asyncio.timeout(MOMENT_SECONDS):
                await urgent.wait()
        except TimeoutError:
            pass  # what has come meanwhile goes out together
        urgent.clear()


def joined(events: Iterable[Numbered]) -> Iterator[Numbered]:
    """Texts of the same kind and turn that follow each other, as one event."""
    held: TextStreamed | ThinkingStreamed | None = None
    number, at = 0, 0.0
    for numbered in events:
        event = numbered.event
        if held is not None and type(event) is type(held) and event.turn == held.turn:
            held, number = replace(held, text=held.text + event.text), numbered.number
            continue
        if held is not None:
            yield Numbered(number, held, at)
        held, number, at = None, numbered.number, numbered.at
        if isinstance(event, TextStreamed | ThinkingStreamed):
            held = event
        else:
            yield numbered
    if held is not None:
        yield Numbered(number, held, at)
