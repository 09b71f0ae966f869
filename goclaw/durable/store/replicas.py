"""The common data of gateways on one store: identities, use of the server, vectors, folders and messages."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from goclaw.common.core.clock import span
from goclaw.common.core.records import record

EVERYONE = ""
"""Stands for all processes where one is named, the sender included."""


@record
class Replica:
    """A gateway that uses a store, as the others see it."""

    id: str
    """A random name; another one at each start."""
    name: str
    version: str
    workspaces: str
    """`shared` or `own`, as `replica.workspaces` says."""
    age: float
    """Seconds since it began."""
    silent: float
    """Seconds since it was seen."""
    lives: bool
    """Whether it counts as alive."""
    sessions: int
    """Conversations that it works on."""
    is_own: bool
    """Whether it is this process."""

    def __str__(self) -> str:
        here = ", this one" if self.is_own else ""
        if not self.lives:
            return f"{self.name} (gone, silent for {self.silent:.0f} s{here})"
        at_work = f"{self.sessions} conversation{'' if self.sessions == 1 else 's'}"
        return f"{self.name} ({self.version}, for {span(self.age)}, {at_work}{here})"


@record
class StoreUse:
    """The use of a store by gateways, at one moment."""

    replicas: Sequence[Replica]
    """Oldest first."""
    notices: float
    """Part of the queue of notices that is full, 0 to 1. A full one makes transactions fail."""
    connections: int
    """Connections of these gateways."""
    all_connections: int
    """Connections of all programs, of `max_connections`."""
    max_connections: int


class SharedVectors(Protocol):
    """Vectors that other gateways have made, so that none pays for the same text twice.

    All methods raise `StateError` when the store cannot be reached.
    """

    async def find(self, model: str, texts: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the vectors that there are, by the SHA-256 of their texts."""

    async def store(self, model: str, vectors: Sequence[tuple[str, bytes, bytes]]) -> None:
        """Store vectors for the others: of each its session, the SHA-256 of its text, and itself.

        Those of sessions that were forgotten meanwhile are dropped.
        """


class FolderProbe(Protocol):
    """Whether all gateways see the same folders. Both methods raise `StateError` when the store cannot be reached."""

    async def run(self) -> None:
        """Answer the others, until cancelled."""

    async def unseen(self) -> Sequence[str]:
        """Ask the others; return in words which of them do not see a folder of ours, or did not answer."""


@record
class Watch:
    """A session that a process has readers for."""

    session: str
    replica: str


class Exchange(Protocol):
    """The messages of one process to others.

    A message is a text, sent and gone: a process that was not connected has missed it, and learns so. Only the watches
    are kept: which process has readers for which session, until it says otherwise. All methods that wait raise
    `DiskError` when the store cannot be reached.
    """

    @property
    def replica(self) -> str:
        """The name of this process; another one at each start."""

    def subscribe(self, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        """Call `heard` with the messages for this process or for everyone, in the order they were sent.

        Args:
            heard: called with each message. It must not wait.
            missed: called when messages may have been missed: at the beginning, and after a break.
        """

    async def send(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send messages, each with the name of a process or `EVERYONE`: all or none, in this order.

        A message may come twice where the connection was lost at that moment.
        """

    async def watch(self, sessions: Collection[str], seconds: float) -> None:
        """Note that this process has readers of sessions, for so many seconds."""

    async def unwatch(self, sessions: Collection[str]) -> None:
        """Note that it has readers of these no more."""

    async def watches(self) -> Sequence[Watch]:
        """Return what other processes watch."""
