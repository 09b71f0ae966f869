"""Joining of streamed texts that come close together, so that both ends wake up a tenth as often.

A quick model sends a hundred pieces a second. A frame for each costs a client and the daemon as much as all their other
work on them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from goclaw.common.core.events import TextStreamed, ThinkingStreamed
from goclaw.common.core.replay_buffer import Numbered
from goclaw.common.core.supervise import background

MOMENT_SECONDS = 0.04
"""Seconds a text may wait for the next one: less than a screen takes to show it. No other event waits."""
MAX_WAITING = 1_000
"""Events read ahead from the source; beyond that the source sees a slow reader."""


@asynccontextmanager
async def open_gathering(events: AsyncIterator[Numbered]) -> AsyncIterator[AsyncIterator[Numbered]]:
    """Yield the same events in the same order, with consecutive texts of one turn joined.

    A joined text has the number of its last part, and the time of the first.
    """
    waiting: asyncio.Queue[Numbered | None] = asyncio.Queue(MAX_WAITING)
    urgent = asyncio.Event()
    async with background(_enqueue_events(events, waiting, urgent), "gathering events"):
        yield _gather(waiting, urgent)


async def _enqueue_events(
    events: AsyncIterator[Numbered], waiting: asyncio.Queue[Numbered | None], urgent: asyncio.Event
) -> None:
    async for numbered in events:
        await waiting.put(numbered)
        if not isinstance(numbered.event, TextStreamed | ThinkingStreamed):
            urgent.set()
    await waiting.put(None)
    urgent.set()


async def _gather(waiting: asyncio.Queue[Numbered | None], urgent: asyncio.Event) -> AsyncIterator[Numbered]:
    while True:
        batch = [await waiting.get()]
        while not waiting.empty():
            batch.append(waiting.get_nowait())
        for numbered in join(numbered for numbered in batch if numbered is not None):
            yield numbered
        if batch[-1] is None:
            return
        try:
            async with asyncio.timeout(MOMENT_SECONDS):
                await urgent.wait()
        except TimeoutError:
            pass  # what has come meanwhile goes out together
        urgent.clear()


def join(events: Iterable[Numbered]) -> Iterator[Numbered]:
    """Join consecutive texts of the same kind and turn to one event."""
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
