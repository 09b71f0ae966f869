"""Serving of an admitted client on any transport: a session, its events, and answers to its frames.

The listeners decide who may come in, and as whom (`servers.terminals`). A client's rights are checked again for each
frame in or out, and twice a second: removing a right ends a stream.

A message that a client sends again gets its first answer (`IdempotencyCache`). The journal drops a message that comes
twice; but a command's answer is in no journal, and one that is being carried out must not be begun a second time
because the client was cut off meanwhile. Not durable: after a restart of the daemon a repeated message is answered as
accepted before.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import Any, Protocol

from aiohttp import WSCloseCode, WSMsgType, web
from pydantic import ValidationError

from goclaw.common.core import wire
from goclaw.common.core.bus import Following
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    LOCAL,
    Acceptance,
    AcceptKind,
    Actor,
    Address,
    GatewayPort,
    Inbound,
    MessageStored,
    Notice,
    Outline,
    QuestionAsked,
    StreamRestarted,
    TranscriptRow,
)
from goclaw.common.core.records import record
from goclaw.common.core.replay_buffer import Numbered, Position
from goclaw.common.core.supervise import background, ends_within
from goclaw.errors import AccessDenied, DiskError, StateError
from goclaw.gateway.servers.event_coalescing import open_gathering
from goclaw.memory.memory_queries import MemoryQuery

log = logging.getLogger(__name__)


PING_SECONDS = 20.0
"""Seconds after which a silent client is pinged."""
GOODBYE_SECONDS = 0.5
"""Seconds for a client to take its queued events, and to acknowledge the end of the connection."""
MAX_REASON = 120
"""Bytes of the reason in a closing frame, which takes 123 (RFC 6455, 5.5)."""
LOOK_SECONDS = 0.5
"""Seconds between two checks whether a client may stay. With those of users.json and the tokens it is below 1.5 s."""
ATTACH_SECONDS = 10.0
"""Seconds for a client's `attach`: until then its connection is of no use, and takes a place."""
ORDER_SECONDS = 1.0
"""Seconds for which a message waits for those before it: what `/queue` or `/model` sets counts for what follows, and
a command that takes longer holds nothing up."""
MAX_AT_ONCE = 32
"""Frames of one client that are answered at once; further ones are read when there are answers."""


@record
class Peer:
    """The user at the other end of a connection."""

    actor_in: Callable[[str], Actor]
    """Returns the actor for the session that the client requests."""
    objection: Callable[[], str]
    """Returns why the person may not stay, whatever the session; empty: they may."""
    home: str = ""
    """The default session; empty: the client has to name one."""
    rows: int = wire.MAX_ROWS
    """Rows that it gets in one frame at most, however many it asks for."""


FrameText = Callable[[wire.ServerFrame], Awaitable[str]]
"""Returns a frame of one visit as the text that is sent. Called in the order of the frames."""
Presenting = Callable[[Sequence[Numbered]], FrameText]
"""Returns the `FrameText` of a new visit, for the events that its client missed."""


@record
class _Visit:
    """One attached client."""

    connection: web.WebSocketResponse
    transport: asyncio.BaseTransport | None
    visitor: Peer
    actor: Actor
    asked: str
    """The requested session."""
    session: str
    """Its name at the gateway."""
    client: str
    """The client's name, as the bus knows it; empty: none. A client cannot reconnect under another's name."""
    write: FrameText | None = None
    """How frames become text; None: as `core.wire` has them."""


class ServingGateway(GatewayPort, Protocol):
    """The gateway as clients need it."""

    def session_for(self, actor: Actor, session: str) -> str:
        """Return the session that `actor` gets for `session`; raise AccessDenied if it may not read that."""

    def oversees(self, actor: Actor) -> bool:
        """Return whether `actor` may see faults of the daemon."""

    def follow(self, session: str, client: str, position: Position) -> AbstractAsyncContextManager[Following]:
        """Yield the session's events from now on, or from `position` on if that is still known (`Bus.follow`)."""

    def acknowledge(self, session: str, client: str, number: int) -> None:
        """Note that `client` has shown everything up to event `number` of the session."""

    async def transcript(self, session: str, after: int) -> Sequence[TranscriptRow]:
        """Return the next rows after `after`, oldest first: as many as suit one frame."""

    async def artifact(self, session: str, blob: str) -> tuple[str, bool]:
        """Return the beginning of a stored artifact of the session, and whether there is more; of a deleted one, the
        reason."""

    async def media_name(self, session: str, blob: str) -> str | None:
        """Return the name of a picture or file that a message of the session has; empty: it has no name; None: none
        has it."""

    async def outline(self, session: str, last: int) -> Outline:
        """Return the session's state without its rows, and where its last `last` messages begin."""

    async def answerable(self, actor: Actor) -> Sequence[QuestionAsked]:
        """Return the open questions that an actor may answer now, in all sessions."""

    async def memory(self, actor: Actor, query: MemoryQuery) -> Mapping[str, Any]:
        """Return the answer to a query about memory; raises AccessDenied or StateError."""


class Serving:
    """The connections of clients, until `end`."""

    def __init__(
        self, gateway: ServingGateway, clock: Clock, greeting: Callable[[], str], presenting: Presenting | None = None
    ) -> None:
        """`presenting`: how frames are written; None: as `core.wire` has them."""
        self._presenting = presenting
        self._gateway = gateway
        self._clock = clock
        self._greeting = greeting
        self._receipts = IdempotencyCache()
        self._connections: set[web.WebSocketResponse] = set()
        self._followings: dict[Following, asyncio.Task[None]] = {}
        """Followed sessions, with the tasks that send their events."""

    async def serve(self, request: web.Request, visitor: Peer) -> web.WebSocketResponse:
        """Serve one client's connection, from its first frame to its last."""
        connection = web.WebSocketResponse(heartbeat=PING_SECONDS, max_msg_size=wire.MAX_FRAME, timeout=GOODBYE_SECONDS)
        await connection.prepare(request)
        self._connections.add(connection)
        try:
            attach = await self._first_frame(connection, request.transport, visitor)
            if connection.closed:
                return connection
            if not isinstance(attach, wire.Attach):
                await _send(connection, wire.Refused("the first frame must be `attach`"))
            elif not attach.session.isprintable():
                await _send(connection, wire.Refused("a session key may not contain control characters"))
            else:
                await self._admit(connection, request.transport, attach, visitor)
            await connection.close()
        finally:
            self._connections.discard(connection)
        return connection

    async def _first_frame(
        self, connection: web.WebSocketResponse, transport: asyncio.BaseTransport | None, visitor: Peer
    ) -> wire.ClientFrame | None:
        """Return a client's first frame; None when it is gone, was too slow, or may not stay any more."""
        until = self._clock.monotonic() + ATTACH_SECONDS
        async with background(_receive(connection), "the first frame of a client") as receiving:
            while not await ends_within(receiving, self._clock, LOOK_SECONDS):
                if reason := visitor.objection():
                    await _dismiss(connection, transport, reason, _denial(reason))
                    return None
                if self._clock.monotonic() >= until:
                    reason = f"no `attach` within {ATTACH_SECONDS:g} s"
                    await _dismiss(connection, transport, reason, wire.Refused(reason))
                    return None
            return receiving.result()

    async def end(self) -> None:
        """Send every client its queued events, then the end of the daemon."""
        for following in self._followings:
            following.end()
        if self._followings:
            await asyncio.wait(self._followings.values(), timeout=GOODBYE_SECONDS)
        await asyncio.gather(*(connection.close(code=WSCloseCode.GOING_AWAY) for connection in self._connections))

    async def _admit(
        self,
        connection: web.WebSocketResponse,
        transport: asyncio.BaseTransport | None,
        attach: wire.Attach,
        visitor: Peer,
    ) -> None:
        actor = visitor.actor_in(attach.session)
        asked = attach.session or visitor.home
        try:
            session = self._gateway.session_for(actor, asked)
        except AccessDenied as error:
            await _send(connection, _denial(str(error)))
            return
        client = f"{actor.key} {attach.client}" if attach.client else ""
        visit = _Visit(connection, transport, visitor, actor, asked, session, client)
        if not await self._turned_away(visit):
            try:
                await self._attend(visit, attach)
            except DiskError as error:
                # Its conversation cannot be read now; a terminal tries again by itself.
                await _send(connection, wire.Refused(error.fault.value))

    async def _attend(self, visit: _Visit, attach: wire.Attach) -> None:
        session = visit.session
        now = await self._gateway.now(session)
        # No event can come between these two lines: later ones are followed.
        async with self._gateway.follow(session, visit.client, Position(attach.epoch, attach.seen)) as following:
            attach = replace(attach, limit=min(attach.limit, visit.visitor.rows))
            anew, history = await self._find_missing(session, attach, following)
            position = following.position
            if self._presenting is not None:
                visit = replace(visit, write=self._presenting(following.missed))
            attached = wire.Attached(
                session,
                history,
                now,
                list(self._gateway.commands(visit.actor)),
                self._greeting(),
                anew,
                protocol=wire.PROTOCOL,
                epoch=position.epoch,
                seen=position.number,
                goes_on=following.goes_on,
                clock=self._clock.monotonic(),
                person=visit.actor.key,
            )
            await _send(visit.connection, attached, visit.write)
            last = history[-1].row if history else 0 if anew or following.goes_on else attach.after
            async with asyncio.TaskGroup() as tasks:
                showing = tasks.create_task(self._show(visit, following.events, last))
                looking = tasks.create_task(self._watch_visit(visit))
                self._followings[following] = showing
                try:
                    await self._listen(visit, tasks)
                finally:
                    del self._followings[following]
                    showing.cancel()
                    looking.cancel()

    async def _listen(self, visit: _Visit, tasks: asyncio.TaskGroup) -> None:
        """Read frames until the client goes, or has to."""
        room = asyncio.Semaphore(MAX_AT_ONCE)
        sends: set[asyncio.Task[None]] = set()
        while (frame := await _receive(visit.connection)) is not None:
            if await self._turned_away(visit):
                return
            if isinstance(frame, wire.Ack):
                self._gateway.acknowledge(visit.session, visit.client, frame.seen)
                continue
            await room.acquire()
            # Beside the loop: a slow command must not delay /stop.
            answering = tasks.create_task(self._answer(visit, frame, tuple(sends)))
            answering.add_done_callback(lambda _: room.release())
            if isinstance(frame, wire.Send):
                sends.add(answering)
                answering.add_done_callback(sends.discard)

    async def _watch_visit(self, visit: _Visit) -> None:
        """Disconnect a silent client, too, when it may not stay."""
        while not await self._turned_away(visit):
            await self._clock.sleep(LOOK_SECONDS)

    async def _turned_away(self, visit: _Visit) -> bool:
        """Close the connection of a client that may not stay any more."""
        reason = visit.visitor.objection()
        try:
            session = self._gateway.session_for(visit.actor, visit.asked)
        except AccessDenied as error:
            reason = reason or str(error)
        else:
            if not reason and session == visit.session:
                return False
        log.info("disconnecting a client of %s: %s", visit.actor.key, reason or "its session has another name now")
        refused = _denial(reason) if reason else None
        await _dismiss(visit.connection, visit.transport, reason, refused)
        return True

    async def _find_missing(
        self, session: str, attach: wire.Attach, following: Following
    ) -> tuple[bool, list[MessageStored]]:
        """Return whether the rows that a client has were deleted, and those that it lacks."""
        if following.goes_on:
            return False, []
        last = attach.after
        anew = last > 0 and not await self._gateway.history(session, last - 1, 1, before=last + 1)
        return anew, list(await self._gateway.history(session, 0 if anew else attach.after, attach.limit))

    async def _show(self, visit: _Visit, events: AsyncIterator[Numbered], last: int) -> None:
        """Send events; a row already sent with the history is not sent twice, but ends its streamed text."""
        async with open_gathering(events) as gathered:
            async for number, event, at in gathered:
                if await self._turned_away(visit):
                    return
                if isinstance(event, Notice) and event.for_admins and not self._gateway.oversees(visit.actor):
                    continue
                if isinstance(event, MessageStored) and event.row <= last:
                    event = StreamRestarted(event.turn, event.session, "complete")
                await _send(visit.connection, wire.event_frame(event, number, round(at, 2)), visit.write)
        await visit.connection.close()  # lagged too far behind: the client attaches anew; or the daemon ends

    async def _answer(self, visit: _Visit, frame: wire.ClientFrame, sends: Sequence[asyncio.Task[None]]) -> None:
        """Answer a frame; `sends` answer the client's messages before it."""
        if sends and isinstance(frame, wire.Send) and not frame.text.lstrip().startswith("/"):
            await ends_within(asyncio.gather(*sends, return_exceptions=True), self._clock, ORDER_SECONDS)
        try:
            answer = await self._answer_to(frame, visit)
        except (StateError, AccessDenied) as error:
            answer = wire.Refused(str(error), frame.id if isinstance(frame, wire.Send | wire.Decide) else "")
        await _send(visit.connection, answer, visit.write)

    async def _answer_to(self, frame: wire.ClientFrame, visit: _Visit) -> wire.ServerFrame:
        actor, session = visit.actor, visit.session
        match frame:
            case wire.Send():
                key = (actor.key, session, frame.id)
                return wire.Accepted(
                    frame.id, await self._receipts.once(key, lambda: self._accept(frame, session, actor))
                )
            case wire.Decide():
                answer = await self._gateway.decide(actor, frame.question, frame.answer)
                return wire.Accepted(frame.id, replace(answer, kind=AcceptKind.REPLY))
            case wire.AskSessions(agents=agents, after=after, limit=limit):
                found = await self._gateway.sessions(actor, agents=agents, after=after, limit=limit + 1)
                return wire.SessionsReply(list(found[:limit]), more=len(found) > limit)
            case wire.AskFiles():
                return wire.FilesReply(frame.begun, list(await self._gateway.files(actor, frame.begun)))
            case wire.AskStatus():
                return wire.Status(dict(await self._gateway.status(self._gateway.session_for(actor, session), actor)))
            case wire.AskMemory():
                question = MemoryQuery(frame.order, frame.query, frame.user, frame.everybody, frame.limit, frame.wanted)
                return wire.MemoryFrame(dict(await self._gateway.memory(actor, question)))
            case wire.Attach() | wire.Ack():
                return wire.Refused("already attached; open another connection")
            case wire.AskOlder():
                older = replace(frame, limit=min(frame.limit, visit.visitor.rows))
                return await self._answer_query(older, self._gateway.session_for(actor, session))
            case _:
                return await self._answer_query(frame, self._gateway.session_for(actor, session))

    async def _answer_query(
        self, frame: wire.AskOlder | wire.AskRows | wire.AskOutline | wire.AskArtifact, session: str
    ) -> wire.ServerFrame:
        match frame:
            case wire.AskOlder():
                return wire.Older(
                    frame.before, list(await self._gateway.history(session, 0, frame.limit, frame.before))
                )
            case wire.AskRows():
                return wire.Rows(list(await self._gateway.transcript(session, frame.after)))
            case wire.AskOutline():
                return wire.OutlineFrame(await self._gateway.outline(session, frame.last))
            case wire.AskArtifact():
                return wire.ArtifactFrame(frame.blob, *await self._gateway.artifact(session, frame.blob))

    async def _accept(self, frame: wire.Send, session: str, actor: Actor) -> Acceptance:
        identity, address = f"socket:{frame.id}", Address(LOCAL, session)
        return await self._gateway.accept(Inbound(identity, actor, session, frame.text, address, self._clock.now()))


def _denial(rule: str) -> wire.Refused:
    return wire.Refused(f"denied: {rule}", rule=rule)


async def _send(connection: web.WebSocketResponse, frame: wire.ServerFrame, write: FrameText | None = None) -> None:
    if not connection.closed:
        with suppress(ConnectionError):  # a client that went away in mid-frame; its reader notices
            await connection.send_str(wire.SERVER_FRAME.to_json(frame) if write is None else await write(frame))


async def _dismiss(
    connection: web.WebSocketResponse,
    transport: asyncio.BaseTransport | None,
    reason: str,
    refused: wire.Refused | None,
) -> None:
    """Close a connection against its client's will."""
    try:
        async with asyncio.timeout(GOODBYE_SECONDS):
            if refused:
                await _send(connection, refused)
            await connection.close(code=WSCloseCode.POLICY_VIOLATION, message=reason.encode()[:MAX_REASON])
    except TimeoutError:
        if isinstance(transport, asyncio.Transport):
            transport.abort()  # it does not read what we say


async def _receive(connection: web.WebSocketResponse) -> wire.ClientFrame | None:
    """Return the next frame; None when the client is gone."""
    async for message in connection:
        if message.type is not WSMsgType.TEXT:
            continue
        try:
            return wire.CLIENT_FRAME.from_json(message.data)
        except ValidationError as error:
            await _send(connection, wire.Refused(f"not a frame: {error.errors()[0]['msg']}"))
    return None


MAX_RECEIPTS = 200
"""Answers that are kept. A client that reconnects repeats its last messages only."""


class IdempotencyCache:
    """The latest answers, by the sender of the message and its id."""

    def __init__(self) -> None:
        self._given: dict[Hashable, asyncio.Future[Acceptance]] = {}

    async def once(self, key: Hashable, take: Callable[[], Awaitable[Acceptance]]) -> Acceptance:
        """Accept the message, or wait for and return the answer to its first copy.

        Raises:
            Exception: the error of `take`; the message was not accepted then, and is tried again when it comes again.
        """
        while given := self._given.get(key):
            await asyncio.wait({given})
            if not given.cancelled():  # else the first call was cancelled half-way
                return given.result()
        self._given[key] = asyncio.get_running_loop().create_future()
        try:
            acceptance = await take()
        except Exception as error:
            failed = self._given.pop(key)
            failed.set_exception(error)
            failed.exception()  # the task may end without a waiter
            raise
        except BaseException:
            self._given.pop(key).cancel()
            raise
        self._given[key].set_result(acceptance)
        for old in [old for old, given in self._given.items() if given.done()][:-MAX_RECEIPTS]:
            del self._given[old]
        return acceptance
