"""Data shared by gateways on one store: their identities, their use of the server, and vectors."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from goclaw.common.core.clock import span
from goclaw.common.core.records import record


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
    """Vectors that other gateways have made, so that none pays for the same text twice."""

    async def find(self, model: str, texts: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the vectors that there are, by the SHA-256 of their texts.

        Raises:
            StateError: the store cannot be reached.
        """
        ...

    async def store(self, model: str, vectors: Sequence[tuple[str, bytes, bytes]]) -> None:
        """Store vectors for the others: of each its session, the SHA-256 of its text, and itself.

        Those of sessions that were forgotten meanwhile are dropped.

        Raises:
            StateError: the store cannot be reached.
        """
        ...


class FolderProbe(Protocol):
    """Whether all gateways see the same folders."""

    async def run(self) -> None:
        """Answer the others, until cancelled."""
        ...

    async def unseen(self) -> Sequence[str]:
        """Ask the others; return in words which of them do not see a folder of ours, or did not answer.

        Raises:
            StateError: the store cannot be reached.
        """
        ...
