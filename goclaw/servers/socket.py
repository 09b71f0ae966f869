"""The Unix socket in the state folder, for the terminal clients of the user who runs the daemon.

Whoever connects must have the daemon's own uid: the kernel says so, the client cannot. That person is the owner.
"""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from aiohttp import WSCloseCode, WSMsgType, web
from pydantic import ValidationError

from goclaw.clock import Clock
from goclaw.errors import AccessDenied, StateError
from goclaw.events import (
    LOCAL,
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    GatewayPort,
    Inbound,
    MessageStored,
    Outline,
    StreamRestarted,
    TranscriptRow,
    TurnEvent,
)
from goclaw.servers.gathering import open_gathering
from goclaw.users import login_name
from goclaw.wire import (
    CLIENT_FRAME,
    MAX_FRAME,
    PATH,
    SERVER_FRAME,
    Accepted,
    AskFiles,
    AskOlder,
    AskOutline,
    AskRows,
    AskSessions,
    AskStatus,
    Attach,
    Attached,
    ClientFrame,
    Decide,
    Files,
    Older,
    OutlineFrame,
    Refused,
    Rows,
    Send,
    ServerFrame,
    Sessions,
    Status,
    happened,
)

log = logging.getLogger(__name__)

PING_SECONDS = 20.0
"""How often a silent client is asked whether it is still there."""
GOODBYE_SECONDS = 0.5
"""What a client gets to answer that it has heard the end of the connection."""


def owner_key(session: str) -> str:
    """Whom the owner speaks as: `tui:<name>` of that session, or of his login in a session of another channel."""
    return session if session.startswith("tui:") else f"tui:{login_name()}"


class SocketGateway(GatewayPort, Protocol):
    """What this server asks of the gateway."""

    def session_for(self, actor: Actor, session: str) -> str:
        """Which session `actor` gets for `session`; AccessDenied when it may not read that."""
        ...

    async def transcript(self, session: str, after: int) -> Sequence[TranscriptRow]:
        """The next rows after `after`, oldest first: as many as suit one frame."""
        ...

    async def outline(self, session: str, last: int) -> Outline:
        """The session beside its rows, and where its last `last` messages begin."""
        ...


class SocketServer:
    """Serves clients. Made by `open_socket`."""

    def __init__(self, gateway: SocketGateway, clock: Clock, greeting: Callable[[], str]) -> None:
        self._gateway = gateway
        self._clock = clock
        self._greeting = greeting
        self._connections: set[web.WebSocketResponse] = set()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """One client's connection, from its first frame to its last."""
        if _peer_uid(request) != os.getuid():
            raise web.HTTPForbidden(text="this socket belongs to another user")
        connection = web.WebSocketResponse(heartbeat=PING_SECONDS, max_msg_size=MAX_FRAME, timeout=GOODBYE_SECONDS)
        await connection.prepare(request)
        self._connections.add(connection)
        try:
            attach = await _receive(connection)
            if not isinstance(attach, Attach):
                await _send(connection, Refused("the first frame must be `attach`"))
            elif not attach.session.isprintable():
                await _send(connection, Refused("the key of a session has no control characters"))
            else:
                await self._admit(connection, attach)
            await connection.close()
        finally:
            self._connections.discard(connection)
        return connection

    async def end(self, _: web.Application) -> None:
        """Tell every client that the daemon ends."""
        closing = [connection.close(code=WSCloseCode.GOING_AWAY) for connection in self._connections]
        await asyncio.gather(*closing)

    async def _admit(self, connection: web.WebSocketResponse, attach: Attach) -> None:
        actor = Actor(owner_key(attach.session), "socket", owner=True, name=login_name())
        try:
            session = self._gateway.session_for(actor, attach.session)
        except AccessDenied as error:
            await _send(connection, Refused(f"denied: {error}"))
        else:
            await self._attend(connection, attach, actor, session)

    async def _attend(self, connection: web.WebSocketResponse, attach: Attach, actor: Actor, session: str) -> None:
        now = await self._gateway.now(session)
        # Nothing can happen between these two lines: what comes from now on comes as events.
        async with self._gateway.subscribe(session) as events:
            anew = attach.after > 0 and not await self._has(session, attach.after)
            after = 0 if anew else attach.after
            history = list(await self._gateway.history(session, after, attach.limit))
            commands = list(self._gateway.commands(actor))
            await _send(connection, Attached(session, history, now, commands, self._greeting(), anew))
            last = history[-1].row if history else after
            async with asyncio.TaskGroup() as tasks:
                showing = tasks.create_task(_show(connection, events, last))
                while (frame := await _receive(connection)) is not None:
                    # Beside the loop: a command that takes its time must not keep /stop from being heard.
                    tasks.create_task(self._answer(connection, frame, session, actor))
                showing.cancel()

    async def _has(self, session: str, row: int) -> bool:
        return bool(await self._gateway.history(session, row - 1, 1, before=row + 1))

    async def _answer(self, connection: web.WebSocketResponse, frame: ClientFrame, session: str, actor: Actor) -> None:
        try:
            answer = await self._answer_to(frame, session, actor)
        except (StateError, AccessDenied) as error:
            answer = Refused(str(error), frame.id if isinstance(frame, Send | Decide) else "")
        await _send(connection, answer)

    async def _answer_to(self, frame: ClientFrame, session: str, actor: Actor) -> ServerFrame:
        match frame:
            case Send():
                inbound = Inbound(
                    id=f"socket:{frame.id}",
                    actor=actor,
                    session=session,
                    text=frame.text,
                    address=Address(LOCAL, session),
                    received_at=self._clock.now(),
                )
                return Accepted(frame.id, await self._gateway.accept(inbound))
            case Decide():
                sentence = await self._gateway.decide(actor, frame.question, frame.answer)
                return Accepted(frame.id, Acceptance(AcceptKind.REPLY, text=sentence))
            case AskOlder():
                session = self._gateway.session_for(actor, session)
                return Older(frame.before, list(await self._gateway.history(session, 0, frame.limit, frame.before)))
            case AskSessions():
                return Sessions(list(await self._gateway.sessions(actor)))
            case AskRows():
                session = self._gateway.session_for(actor, session)
                return Rows(list(await self._gateway.transcript(session, frame.after)))
            case AskOutline():
                session = self._gateway.session_for(actor, session)
                return OutlineFrame(await self._gateway.outline(session, frame.last))
            case AskFiles():
                return Files(frame.begun, list(await self._gateway.files(actor, frame.begun)))
            case AskStatus():
                return Status(dict(await self._gateway.status(self._gateway.session_for(actor, session))))
            case Attach():
                return Refused("attached already; open another connection")


async def _show(connection: web.WebSocketResponse, events: AsyncIterator[TurnEvent], last: int) -> None:
    """Pass events on; a row that went out with the history is not sent twice, but ends what was streamed of it."""
    async with open_gathering(events) as gathered:
        async for event in gathered:
            if isinstance(event, MessageStored) and event.row <= last:
                event = StreamRestarted(event.turn, event.session, "complete")
            await _send(connection, happened(event))
    await connection.close()  # lagged too far behind: the client attaches anew


async def _send(connection: web.WebSocketResponse, frame: ServerFrame) -> None:
    if not connection.closed:
        try:
            await connection.send_str(SERVER_FRAME.to_json(frame))
        except ConnectionError:
            log.debug("a client went away in mid-frame")


async def _receive(connection: web.WebSocketResponse) -> ClientFrame | None:
    """The next frame; None when the client is gone."""
    async for message in connection:
        if message.type is not WSMsgType.TEXT:
            continue
        try:
            return CLIENT_FRAME.from_json(message.data)
        except ValidationError as error:
            await _send(connection, Refused(f"not a frame: {error.errors()[0]['msg']}"))
    return None


def _peer_uid(request: web.Request) -> int:
    """The uid of the process at the other end, from the kernel (unix(7), SO_PEERCRED)."""
    transport = request.transport
    if transport is None:
        return -1
    peer: socket.socket = transport.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


@asynccontextmanager
async def open_socket(
    path: Path, gateway: SocketGateway, clock: Clock, greeting: Callable[[], str]
) -> AsyncIterator[SocketServer]:
    """Listen at `path` while the block runs. A socket that an earlier run left behind is replaced."""
    server = SocketServer(gateway, clock, greeting)
    application = web.Application()
    application.router.add_get(PATH, server.serve)
    application.on_shutdown.append(server.end)
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, _bind(path)).start()
        yield server
    finally:
        await runner.cleanup()
        _unlink(path)


def _bind(path: Path) -> socket.socket:
    _unlink(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    path.chmod(0o600)
    return listening


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
