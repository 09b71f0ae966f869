"""The daemon's listener for MCP clients. Its library is loaded in a thread, and only if configured.

A port that is taken ends nothing: it is logged, shown in the status, and retried.
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from goclaw.common.auth.access import own_session
from goclaw.common.auth.tokens import open_tokens
from goclaw.common.core import catalog
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    AGENT_MARK,
    Actor,
    MessageStored,
    Outline,
    SessionForgotten,
    SessionInfo,
    TranscriptRow,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.durable.store.schema import MATERIAL_KEY
from goclaw.durable.store.transcripts import Transcripts
from goclaw.errors import ConfigError, StateError
from goclaw.gateway.intake.gateway import Gateway
from goclaw.gateway.servers.mcp.backend import Changed, McpBackend, McpPart
from goclaw.gateway.servers.mcp.declarations import declarations
from goclaw.gateway.servers.mcp.uris import STATUS, transcript_uri
from goclaw.program.app.parts import App
from goclaw.tools.mcp.declared import together

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Seconds between two checks for changes without events."""
LOOK_ELSEWHERE_SECONDS = 1.0
"""Seconds between two looks for messages that other processes have stored, while there is a subscriber."""
AGAIN_SECONDS = 30.0
"""Seconds until a port that was taken is tried again."""


async def serve_mcp(app: App, gateway: Gateway) -> None:
    """Serve MCP clients until cancelled."""
    foundation, state, settings = app.foundation, app.mcp_server, app.foundation.config.mcp.server
    state.line = "starting"
    try:
        part = await asyncio.to_thread(load, catalog.SERVERS["mcp"], McpPart)
    except ConfigError as error:
        log.error("MCP clients cannot come in: %s", error)
        state.line = f"does not work: {error}"
        return
    backend = await _backend(app, gateway)
    async with open_tokens(foundation.config.tokens_path, foundation.clock) as tokens:
        if foundation.storage.files is not None:
            foundation.storage.files.on_copy(tokens.refresh)
            tokens.fetch = partial(foundation.storage.files.copy, foundation.config.tokens_path.name)
        if not tokens.any():
            log.warning(
                "there is no access token yet, so no MCP client can connect: `goclaw token add NAME --user KEY`"
            )
        while True:
            try:
                async with part.open(backend, tokens) as listening:
                    state.line, state.port = f"{settings.host} port {listening.port}", listening.port
                    await asyncio.Event().wait()
            except StateError as error:
                if state.line != (line := f"does not listen: {error}"):
                    log.error("%s", error)
                state.line, state.port = line, 0
            await foundation.clock.sleep(AGAIN_SECONDS)


async def _backend(app: App, gateway: Gateway) -> McpBackend:
    foundation, facts = app.foundation, app.sessions.ports.store.settings
    seed = str(await facts.fact(MATERIAL_KEY)).encode()
    return McpBackend(
        environment=foundation.environment,
        access=foundation.access,
        dispatcher=app.sessions.ports.dispatcher,
        conversations=DaemonConversations(
            foundation.bus,
            gateway,
            Transcripts(foundation.storage.database),
            foundation.clock,
            partial(_standing, app),
            foundation.storage.owned.feed,
        ),
        people=foundation.users.all,
        declared=together([*await asyncio.to_thread(declarations), *foundation.parts.served]),
        published=[each.word for each in foundation.config.publications],
        external_runs=app.sessions.external_runs,
        facts=facts,
        state_key=hmac.digest(seed, b"what clients of MCP send back", "sha256"),
    )


def _standing(app: App) -> object:
    """Return the part of the status that changes without a turn: faults, channels, queues."""
    foundation = app.foundation
    return (
        dict(foundation.alerts.open()),
        foundation.users.problem,
        app.stuck.now(),
        app.sessions.ports.dispatcher.unresponsive.names(),
        {name: channel.health() for name, channel in app.channels.items()},
        app.outbox.waiting(),
        foundation.environment.tasks.count(),
    )


@record
class DaemonConversations:
    """Implements `Conversations` on the running daemon."""

    bus: Bus
    gateway: Gateway
    transcripts: Transcripts
    clock: Clock
    standing: Callable[[], object]
    """Returns the part of the status that changes without events; compared with its earlier value."""
    feed: TranscriptFeed | None = None
    """Has the rows that other processes store, without events; None: there are no others."""

    async def sessions(self) -> Sequence[SessionInfo]:
        return [info for info in await self.transcripts.sessions() if AGENT_MARK not in info.key]

    async def outline(self, session: str, last: int) -> Outline:
        return await self.gateway.outline(session, last)

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        return await self.gateway.transcript(session, after)

    async def status(self, actor: Actor) -> Mapping[str, Any]:
        session = self.gateway.session_for(actor, own_session(actor.key))
        return {"running": True, **await self.gateway.status(session, actor)}

    @asynccontextmanager
    async def changes(self, wanted: Callable[[], bool]) -> AsyncIterator[AsyncIterator[Changed]]:
        standing = self.standing()  # before the first wait: what begins meanwhile is a change
        seen = _Seen({info.key: 0 for info in await self.transcripts.sessions()})
        async with AsyncExitStack() as stack:
            events = await stack.enter_async_context(self.bus.subscribe(None))
            if self.feed is not None:
                elsewhere = self._follow_elsewhere(self.feed, await self.feed.end(), seen, wanted)
                await stack.enter_async_context(background(elsewhere, "conversations elsewhere for MCP clients"))
            await stack.enter_async_context(background(seen.follow(events), "conversations for MCP clients"))
            await stack.enter_async_context(background(self._poll(seen, standing), "status for MCP clients"))
            yield seen.changes()

    async def _follow_elsewhere(
        self, feed: TranscriptFeed, after: int, seen: "_Seen", wanted: Callable[[], bool]
    ) -> None:
        """Queue the transcripts that other processes add rows to, after row `after`; until cancelled."""
        looked_at = self.clock.monotonic()
        while True:
            await self.clock.sleep(LOOK_ELSEWHERE_SECONDS)
            try:
                if wanted():
                    after = await seen.read(feed, after)
                elif self.clock.monotonic() - looked_at >= LOOK_SECONDS:
                    after, looked_at = await feed.end(), self.clock.monotonic()
            except StateError as error:
                log.debug("what others store cannot be read: %s", error)

    async def _poll(self, seen: "_Seen", before: object) -> None:
        while True:
            await self.clock.sleep(LOOK_SECONDS)
            now = self.standing()
            if now != before:
                seen.queue.put_nowait(Changed(STATUS, "updated"))
            before = now


class _Seen:
    """The changes that one follower has yet to hear of."""

    def __init__(self, rows: dict[str, int]) -> None:
        """`rows`: the sessions that it knows, each with the last row that it was told of; 0: of none."""
        self.queue: asyncio.Queue[Changed | None] = asyncio.Queue()
        self._rows = rows
        self._deletions = 0

    async def changes(self) -> AsyncIterator[Changed]:
        """Yield them."""
        while (change := await self.queue.get()) is not None:
            yield change

    async def follow(self, events: AsyncIterator[TurnEvent]) -> None:
        """Queue the changes of readable resources from the events of turns, until the bus disconnects."""
        async for event in events:
            match event:
                case MessageStored(session=session, row=row):
                    self._on_row(session, row)
                case SessionForgotten(session=session):
                    self._rows.pop(session, None)
                    self._deletions += 1
                    self.queue.put_nowait(Changed(transcript_uri(session), "deleted"))
                case TurnStarted() | TurnFinished():
                    self.queue.put_nowait(Changed(STATUS, "updated"))
                case _:
                    pass
        self.queue.put_nowait(None)

    async def read(self, feed: TranscriptFeed, after: int) -> int:
        """Queue the sessions with rows after `after` that had no event; return the last row.

        Raises:
            StateError: the store cannot be read.
        """
        while True:
            deletions = self._deletions
            rows = await feed.after(after)
            if deletions != self._deletions:
                continue  # some may have been deleted meanwhile
            if not rows:
                return after
            for session, row in {each.session: each.row for each in rows}.items():
                if row > self._rows.get(session, 0):
                    self._on_row(session, row)
            after = rows[-1].row

    def _on_row(self, session: str, row: int) -> None:
        self.queue.put_nowait(Changed(transcript_uri(session), "updated" if session in self._rows else "created"))
        self._rows[session] = max(row, self._rows.get(session, 0))
