"""The authority of the current task: for which session it may write and send.

With Postgres, a process that was paused cannot know that another one has taken its sessions over. Taking a session
raises its epoch; each transaction for the session checks the epoch under which it was begun.

This is the one variable that tasks carry. An argument would have to pass through all 95 writes of 26 files and their
callers, and through libraries that send requests for us; one that is forgotten would be a write without a check.
`program` and `durable` set it where work for a session begins; the store reads it at each write, the outbox at each
promise, and the HTTP client before each request.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from goclaw.common.core.records import record


@record
class Fence:
    """The right of one process to write for a session."""

    session: str
    epoch: int
    """Unique to each time that a process takes the session over."""


@record
class Authority:
    """The right of a task to act for a session. Tasks inherit it from the task that creates them."""

    fence: Fence | None = None
    """Of the session that this process owns, checked by each transaction; None: the task works for no session, or for
    several, or this process owns the whole store."""
    alongside: Fence | None = None
    """Of work for a session that this process need not own (an agent for an MCP client), checked by each transaction
    where there is no `fence`. What such work promises or publishes is not the owner's."""
    before_sending: Callable[[], Awaitable[None]] | None = None
    """Called by each HTTP request when it has its connection, right before it is sent; an error refuses the request. A
    new connection takes a while, in which the process may be paused."""


AUTHORITY: ContextVar[Authority] = ContextVar("authority", default=Authority())  # noqa: B039  # it is frozen
"""The authority of the current task. Read directly: it is on the way of every write."""


@contextmanager
def under_fence(fence: Fence | None) -> Iterator[None]:
    """Check every transaction of the block, and of tasks that begin in it, by the fence of a session's owner."""
    token = AUTHORITY.set(replace(AUTHORITY.get(), fence=fence, alongside=None))
    try:
        yield
    finally:
        AUTHORITY.reset(token)


@contextmanager
def alongside_owner(fence: Fence | None) -> Iterator[None]:
    """Do the same for work alongside the session's owner (`Ownership.beside`)."""
    token = AUTHORITY.set(replace(AUTHORITY.get(), alongside=fence))
    try:
        yield
    finally:
        AUTHORITY.reset(token)
