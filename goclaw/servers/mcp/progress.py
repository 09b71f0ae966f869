"""Progress of a call, for clients that request it: the tool's activity, and signs of life."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import ServerRequestContext

from goclaw.clock import Clock
from goclaw.events import AgentProgress, ToolStarted, TurnEvent
from goclaw.redact import mask
from goclaw.supervise import background

BEAT_SECONDS = 5.0
"""Seconds between two signs of life: some clients give up after thirty seconds without one."""


class Progress:
    """The unsent progress of one call."""

    def __init__(self) -> None:
        self._line = ""
        self._news = asyncio.Event()

    def tell(self, event: TurnEvent) -> None:
        """Add an event of the call."""
        match event:
            case ToolStarted(name=name, hint=hint):
                self._line = hint or name
            case AgentProgress(agent=agent, doing=doing):
                self._line = f"{agent}: {doing}"
            case _:
                return
        self._news.set()

    async def report(self, ctx: ServerRequestContext[Any, Any], clock: Clock) -> None:
        """Send progress to the client, until cancelled. The number counts signs of life: the total is unknown."""
        told = 0
        while True:
            beat = asyncio.ensure_future(clock.sleep(BEAT_SECONDS))
            news = asyncio.ensure_future(self._news.wait())
            try:
                await asyncio.wait({beat, news}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                beat.cancel()
                news.cancel()
            self._news.clear()
            told += 1
            await ctx.session.report_progress(told, None, mask(self._line) or None)


@asynccontextmanager
async def open_progress(ctx: ServerRequestContext[Any, Any], clock: Clock) -> AsyncIterator[Progress]:
    """Report the progress of the call that is made in the block."""
    progress = Progress()
    if not (ctx.meta and ctx.meta.get("progress_token") is not None):
        yield progress
        return
    async with background(progress.report(ctx, clock), "progress of a call over MCP"):
        yield progress
