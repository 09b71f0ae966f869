"""The epoch under which a process works on a session, checked by every transaction that it writes for that session.

Only for a store that several processes share: a process that was paused cannot know that another one has taken its
sessions over. The epoch is a variable of the task that runs a session, and of every task that begins there: what writes
for the session names it without knowing of it, and what works for several sessions says so (`HELD.set(None)`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from goclaw.common.core.records import record


@record
class Fence:
    """The right of one process to write for a session."""

    session: str
    epoch: int
    """A new value each time a process takes over the session; never reused."""


HELD: ContextVar[Fence | None] = ContextVar("fence", default=None)
"""The fence of the current task; None: it works for no session, or for several. Read as it is: on every write's way."""


BESIDE: ContextVar[Fence | None] = ContextVar("fence beside the owner", default=None)
"""The fence of work for a session that this process need not own: an agent for a program. Nothing reads it but writes,
which it checks where `HELD` has none: what is promised or published there is not the owner's."""


@contextmanager
def fenced(fence: Fence | None) -> Iterator[None]:
    """Have every transaction that is written in the block, and by tasks that begin in it, checked by this fence."""
    token, beside = HELD.set(fence), BESIDE.set(None)
    try:
        yield
    finally:
        BESIDE.reset(beside)
        HELD.reset(token)


@contextmanager
def fenced_beside(fence: Fence | None) -> Iterator[None]:
    """Do the same for work alongside the session's owner (`Ownership.beside`)."""
    token = BESIDE.set(fence)
    try:
        yield
    finally:
        BESIDE.reset(token)
