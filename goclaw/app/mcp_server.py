"""The daemon's listener for MCP clients. Its library is loaded in a thread, and only if configured.

A port that is taken ends nothing: it is logged, shown in the status, and retried.
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from goclaw import __version__
from goclaw.app.parts import App
from goclaw.auth.access import own_session
from goclaw.auth.tokens import open_tokens
from goclaw.core import catalog
from goclaw.core.bus import Bus
from goclaw.core.clock import Clock
from goclaw.core.events import (
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
from goclaw.core.plugins import load
from goclaw.core.supervise import background
from goclaw.errors import ConfigError, StateError
from goclaw.gateway.gateway import Gateway
from goclaw.mcp.declared import together
from goclaw.servers.mcp.backend import Changed, McpBackend, McpPart
from goclaw.servers.mcp.declarations import declarations
from goclaw.servers.mcp.uris import STATUS, transcript_uri
from goclaw.store.schema import MATERIAL_KEY
from goclaw.store.transcripts import Transcripts

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Seconds between two checks for changes without events."""
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
        if foundation.files is not None:
            foundation.files.on_fetch(tokens.refresh)
            tokens.together = partial(foundation.files.settle_file, foundation.config.tokens_path.name)
        if not tokens.any():
            log.warning(
                "there is no access token yet, so no MCP client can come in: `goclaw token add NAME --user KEY`"
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
    foundation, facts = app.foundation, app.sessions.ports.settings
    state_key = b""
    if foundation.sharing:
        seed = str(await facts.fact(MATERIAL_KEY)).encode()
        state_key = hmac.digest(seed, b"what clients of MCP send back", "sha256")
    return McpBackend(
        config=foundation.config,
        clock=foundation.clock,
        access=foundation.access,
        dispatcher=app.sessions.ports.dispatcher,
        blobs=foundation.environment.blobs,
        workspace=foundation.environment.workspace,
        audit=foundation.environment.audit,
        conversations=DaemonConversations(
            foundation.bus, gateway, Transcripts(foundation.database), foundation.clock, partial(_standing, app)
        ),
        people=foundation.users.all,
        version=__version__,
        declared=together(await asyncio.to_thread(declarations)),
        published=[each.word for each in foundation.config.publications],
        external_runs=app.sessions.external_runs,
        facts=facts if foundation.sharing else None,
        state_key=state_key,
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


class DaemonConversations:
    """Implements `Conversations` on the running daemon."""

    def __init__(
        self, bus: Bus, gateway: Gateway, transcripts: Transcripts, clock: Clock, standing: Callable[[], object]
    ) -> None:
        """`standing`: returns the part of the status that changes without events; compared with its earlier value."""
        self._bus = bus
        self._gateway = gateway
        self._transcripts = transcripts
        self._clock = clock
        self._standing = standing

    async def sessions(self) -> Sequence[SessionInfo]:
        return [info for info in await self._transcripts.sessions() if AGENT_MARK not in info.key]

    async def outline(self, session: str, last: int) -> Outline:
        return await self._gateway.outline(session, last)

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        return await self._gateway.transcript(session, after)

    async def status(self, actor: Actor) -> Mapping[str, Any]:
        session = self._gateway.session_for(actor, own_session(actor.key))
        return {"running": True, **await self._gateway.status(session, actor)}

    @asynccontextmanager
    async def changes(self, wanted: Callable[[], bool]) -> AsyncIterator[AsyncIterator[Changed]]:
        standing = self._standing()  # before the first wait: what begins meanwhile is a change
        known = {info.key for info in await self._transcripts.sessions()}
        seen: asyncio.Queue[Changed | None] = asyncio.Queue()
        async with self._bus.subscribe(None) as events:
            async with (
                background(_follow(events, known, seen), "conversations for MCP clients"),
                background(self._look(seen, standing), "status for MCP clients"),
            ):
                yield _until_the_end(seen)

    async def _look(self, seen: "asyncio.Queue[Changed | None]", before: object) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now = self._standing()
            if now != before:
                seen.put_nowait(Changed(STATUS, "updated"))
            before = now


async def _until_the_end(seen: "asyncio.Queue[Changed | None]") -> AsyncIterator[Changed]:
    while (change := await seen.get()) is not None:
        yield change


async def _follow(events: AsyncIterator[TurnEvent], known: set[str], seen: "asyncio.Queue[Changed | None]") -> None:
    """Queue the changes of readable resources from the events of turns, until the bus disconnects."""
    async for event in events:
        match event:
            case MessageStored(session=session):
                seen.put_nowait(Changed(transcript_uri(session), "updated" if session in known else "created"))
                known.add(session)
            case SessionForgotten(session=session):
                known.discard(session)
                seen.put_nowait(Changed(transcript_uri(session), "deleted"))
            case TurnStarted() | TurnFinished():
                seen.put_nowait(Changed(STATUS, "updated"))
            case _:
                pass
    seen.put_nowait(None)
