"""Conversations and the status for `goclaw mcp serve`: from the daemon that runs, else from the state folder.

A process that lives as long as its client holds neither the socket nor the lock: it reaches for them when it is asked.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from goclaw.cli.process import listens
from goclaw.cli.transcripts.source import open_source
from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.errors import GoclawError
from goclaw.events import AGENT_MARK, Actor, Outline, SessionInfo, TranscriptRow
from goclaw.servers.mcp.backend import Changed
from goclaw.servers.mcp.uris import STATUS, transcript_uri
from goclaw.state import running_pid
from goclaw.tui.client import attach
from goclaw.users import login_name

LOOK_SECONDS = 5.0
"""Seconds between two polls for changes: a process that is not attached gets no events."""


class Reached:
    """Implements `Conversations`."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock

    async def sessions(self) -> Sequence[SessionInfo]:
        async with open_source(self._config) as source:
            return [info for info in await source.sessions() if AGENT_MARK not in info.key]

    async def outline(self, session: str, last: int) -> Outline:
        async with open_source(self._config, session) as source:
            return await source.outline(last)

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        async with open_source(self._config, session) as source:
            return await source.page(after)

    async def status(self, actor: Actor) -> Mapping[str, Any]:
        """Return whether a daemon runs; its full status only to the owner, whom the socket admits."""
        if not await asyncio.to_thread(listens, self._config):
            return {"running": False}
        if not actor.owner:
            return {"running": True}
        async with attach(self._config.socket_path, f"tui:{login_name()}", limit=0) as client:
            return {"running": True, "pid": running_pid(self._config), **await client.status()}

    @asynccontextmanager
    async def changes(self, wanted: Callable[[], bool]) -> AsyncIterator[AsyncIterator[Changed]]:
        yield self._seen(wanted)

    async def _seen(self, wanted: Callable[[], bool]) -> AsyncIterator[Changed]:
        """Yield the differences between polls; while `wanted` is false nothing is polled."""
        before = None
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now = await self._look() if wanted() else None
            if before is None or now is None:
                before = now
                continue
            for uri in before.keys() | now.keys():
                if uri not in now:
                    yield Changed(uri, "deleted")
                elif before.get(uri) != now[uri]:
                    yield Changed(uri, "updated" if uri in before else "created")
            before = now

    async def _look(self) -> dict[str, object]:
        """Return a comparable state per URI. Without a daemon only its status can change."""
        if not await asyncio.to_thread(listens, self._config):
            return {STATUS: False}
        try:
            found = {transcript_uri(info.key): (info.messages, info.last_at) for info in await self.sessions()}
        except GoclawError:  # it has just ended
            return {STATUS: False}
        return {STATUS: True, **found}
