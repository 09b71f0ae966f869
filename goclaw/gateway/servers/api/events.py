"""Events of a session as a stream that a client which was cut off goes on with (`Last-Event-ID`).

The bus keeps the latest events of followed sessions (`core.replay_buffer`); it does so by readers with a name, and here
each connection has a name of its own: a program with one token may read in several windows. A reader that lags too
far, or comes back too late, must read the messages (`reset`).
"""

import uuid
from contextlib import aclosing
from http import HTTPStatus
from typing import ClassVar, Literal

from aiohttp import web
from pydantic import Field

from goclaw.common.core.bus import Following
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import MessageStored, Notice, SessionNow
from goclaw.common.core.replay_buffer import NOWHERE, Position
from goclaw.common.core.supervise import background, ends_within
from goclaw.common.core.wire import Happened, event_frame
from goclaw.errors import AccessDenied
from goclaw.gateway.servers.api.messages import for_people, latest
from goclaw.gateway.servers.api.operations import Call, Operations, Reply, Response
from goclaw.gateway.servers.api.problems import bad_request
from goclaw.gateway.servers.api.sessions import SessionAsked, readable
from goclaw.gateway.servers.event_coalescing import open_gathering
from goclaw.gateway.servers.event_stream import MEDIA_TYPE, EventStream, StreamEvent, with_pauses
from goclaw.gateway.servers.http import ENDING
from goclaw.gateway.servers.serving import GOODBYE_SECONDS, LOOK_SECONDS

LAST_EVENT = "Last-Event-ID"
STALLED_SECONDS = 20.0
"""Maximum seconds without reading before a reader's connection is closed."""
MAX_ID = 100
_HAPPENED: Codec[Happened] = Codec(Happened)


class Reset(Response):
    """The first event of a reader that does not go on where it was: the session as it is where the stream begins."""

    type: Literal["reset"] = "reset"
    session: str
    row: int = Field(
        description="The row of the last message; 0: none. Read the messages after your last row; if your row is "
        "greater, the session was deleted."
    )
    now: SessionNow


_RESET: Codec[Reset] = Codec(Reset)


class FollowAsked(SessionAsked):
    """The fields of `followSession`."""

    headers: ClassVar = {LAST_EVENT: "The id of the last event that you have."}


OPERATIONS = Operations()


@OPERATIONS.add(
    "GET",
    "/sessions/{session}/events",
    "events",
    Reply(
        body=Happened | Reset,
        statuses={HTTPStatus.OK: "The stream; the schema describes the data of each event."},
        media_type=MEDIA_TYPE,
    ),
    refusals=(HTTPStatus.NOT_FOUND,),
)
async def follow_session(call: Call, asked: FollowAsked) -> web.StreamResponse:
    """Follow a session: messages, tool calls and questions

    A stream of server-sent events. Each event has a name (`TextStreamed`, `MessageStored`, `QuestionAsked`,
    `TurnFinished` …), an id, and as data the frame that terminals get. After a break, send the last id as
    `Last-Event-ID` to continue from there. If that is impossible, or without the header, the stream starts with the
    event `reset`: the state of the session and the row of its last message. Two messages with the same row are the same
    message. Comments keep an idle stream open. The stream ends when the token or the right ends, when the daemon stops,
    and when the reader stops reading.
    """
    position = _position(call.request)
    return await _Feed(call, asked.session, await readable(call, asked.session)).run(position)


class _Feed:
    """One connection."""

    def __init__(self, call: Call, asked: str, session: str) -> None:
        self._call = call
        self._clock = call.ports.clock
        self._asked = asked
        self._session = session
        self._stream = EventStream(call.request, {})
        self._writing_since: float | None = None

    async def run(self, position: Position) -> web.StreamResponse:
        """Send events from `position` on. Raises ConnectionResetError when the reader is gone."""
        call, gateway = self._call, self._call.ports.gateway
        now = await gateway.now(self._session)
        # No event can come between these two lines: later ones are followed.
        async with gateway.follow(self._session, f"api {uuid.uuid4().hex}", position) as following:
            ending = self._end_with_daemon(following)
            async with (
                background(ending, "the end of a reader of events"),
                background(self._send(following, now), "a reader of events") as sending,
            ):
                while not await ends_within(sending, self._clock, LOOK_SECONDS):
                    if self._is_over():
                        following.end()
                        # The written data get a moment.
                        if not await ends_within(sending, self._clock, GOODBYE_SECONDS) and call.request.transport:
                            call.request.transport.abort()
                        break
        return self._stream.response

    def _is_over(self) -> bool:
        transport, since = self._call.request.transport, self._writing_since
        is_gone = transport is None or transport.is_closing()
        is_stalled = since is not None and self._clock.monotonic() - since >= STALLED_SECONDS
        return is_gone or is_stalled or self._must_end()

    async def _end_with_daemon(self, following: Following) -> None:
        await self._call.request.app[ENDING].wait()
        following.end()

    def _must_end(self) -> bool:
        """Whether the reader's token or right has ended, or its session has another name now."""
        if self._call.services.programs.objection(self._call.program):
            return True
        try:
            return self._call.ports.gateway.session_for(self._call.actor, self._asked) != self._session
        except AccessDenied:
            return True

    async def _send(self, following: Following, now: SessionNow) -> None:
        gateway = self._call.ports.gateway
        if following.goes_on:
            await self._stream.wait()
        else:
            await self._write(await self._reset(following, now))
        epoch = following.position.epoch
        async with open_gathering(following.events) as gathered, aclosing(with_pauses(gathered, self._clock)) as pieces:
            async for piece in pieces:
                if self._must_end():
                    break
                if piece is None:
                    await self._write(None)
                    continue
                number, event, at = piece
                if isinstance(event, Notice) and event.for_admins and not gateway.oversees(self._call.actor):
                    continue
                if isinstance(event, MessageStored):
                    event = for_people(event)
                frame = event_frame(event, number, round(at, 2))
                await self._write(StreamEvent(frame.name, _HAPPENED.to_json(frame), f"{epoch}:{number}"))
        await self._stream.response.write_eof()

    async def _reset(self, following: Following, now: SessionNow) -> StreamEvent:
        rows = await latest(self._call, self._session, 1)
        reset = Reset(session=self._session, row=rows[-1].row if rows else 0, now=now)
        place = following.position
        return StreamEvent(reset.type, _RESET.to_json(reset), f"{place.epoch}:{place.number}")

    async def _write(self, event: StreamEvent | None) -> None:
        """Send an event, or a comment."""
        self._writing_since = self._clock.monotonic()
        await (self._stream.send([event]) if event else self._stream.wait())
        self._writing_since = None


def _position(request: web.Request) -> Position:
    """Return where a reader was; one that cannot be read is as good as none, for the reader cannot mend it."""
    given = request.headers.getall(LAST_EVENT, [])
    if len(given) > 1:
        raise bad_request(f"{LAST_EVENT} should occur once", LAST_EVENT)
    epoch, _, number = (given[0] if given else "").partition(":")
    if len(given) != 1 or len(given[0]) > MAX_ID or not (number.isascii() and number.isdigit()):
        return NOWHERE
    return Position(epoch, int(number))
