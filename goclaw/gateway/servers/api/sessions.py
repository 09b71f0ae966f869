"""Sessions: the list, and the state of one. Also the check that a caller may see a session, for other operations."""

import base64
import binascii
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from goclaw.common.core.events import Outline, SessionInfo, SessionNow, SessionPlace
from goclaw.errors import AccessDenied
from goclaw.gateway.servers.api.operations import Call, Key, Operations, Request, Response
from goclaw.gateway.servers.api.problems import Problem, bad_request

MAX_PAGE = 200


class SessionsAsked(Request):
    """The fields of `listSessions`."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Maximum number of sessions.")] = 50
    cursor: Annotated[str, Field(max_length=600, description="`next` of the previous page.")] = ""
    agents: Annotated[bool, Field(description="Whether to include sessions of agents, which are read-only.")] = False


class SessionPage(Response):
    """A page of the sessions that the user may read, the latest first."""

    sessions: Sequence[SessionInfo]
    next: str = Field("", description="`cursor` of the next page; empty: this is the last one.")


class SessionAsked(Request):
    """The fields of an operation on a session alone."""

    session: Key


class SessionState(Response):
    """A session without its messages."""

    session: str = Field(description="Its key.")
    writable: bool = Field(description="Whether the user may write there.")
    waiting: int = Field(description="Messages waiting for the running turn.")
    now: SessionNow
    outline: Outline


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/sessions", "sessions")
async def list_sessions(call: Call, asked: SessionsAsked) -> SessionPage:
    """List the sessions that you may read, latest first"""
    after = _decode(asked.cursor) if asked.cursor else None
    found = await call.ports.gateway.sessions(call.actor, agents=asked.agents, after=after, limit=asked.limit + 1)
    page = found[: asked.limit]
    return SessionPage(sessions=page, next=_encode(page[-1].place) if len(found) > len(page) else "")


@OPERATIONS.add("GET", "/sessions/{session}", "sessions", refusals=(HTTPStatus.NOT_FOUND,))
async def get_session(call: Call, asked: SessionAsked) -> SessionState:
    """Read the state of a session: running turn, open questions, waiting messages"""
    session = await readable(call, asked.session)
    gateway = call.ports.gateway
    return SessionState(
        session=session,
        writable=is_writable(call, session),
        waiting=(await call.ports.engine.queue(session)).waiting,
        now=await gateway.now(session),
        outline=await gateway.outline(session, 0),
    )


async def readable(call: Call, session: str) -> str:
    """Return the name at the gateway of a session that the caller may read.

    Raises:
        Problem: 404, the session does not exist or is another user's: one answer for both.
    """
    try:
        name = call.ports.gateway.session_for(call.actor, session)
    except AccessDenied:
        raise unknown(session) from None
    if name != call.services.programs.home(call.actor):
        queue = await call.ports.engine.queue(name)
        if not (queue.running or queue.waiting or (await call.ports.gateway.outline(name, 0)).rows):
            raise unknown(session)
    return name


async def writable(call: Call, asked: str) -> str:
    """Return the name at the gateway of a session that the caller may write in.

    Raises:
        Problem: 404 if the caller may not even read it, else 403.
    """
    session = await readable(call, asked)
    if not is_writable(call, session):
        raise Problem(HTTPStatus.FORBIDDEN, "you may read this session but not write to it", field="session")
    return session


def is_writable(call: Call, session: str) -> bool:
    """Whether the caller may write in a session, by its name at the gateway."""
    return call.ports.access.authorize(call.actor, "session.write", session).allowed


def unknown(session: str) -> Problem:
    """Return the refusal for a session that is not there for the caller."""
    return Problem(HTTPStatus.NOT_FOUND, f"you have no access to a session {session[:200]!r}", field="session")


def _encode(place: SessionPlace) -> str:
    return base64.urlsafe_b64encode(f"{-place[0]!r} {place[1]}".encode()).decode().rstrip("=")


def _decode(cursor: str) -> SessionPlace:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        at, _, key = base64.b64decode(padded, altchars=b"-_", validate=True).decode().partition(" ")
        return -float(at), key
    except (binascii.Error, ValueError):
        raise bad_request("`cursor` should be `next` of the previous page", "cursor") from None
