"""What is seen of a store that several gateways use: who they are, and how much of the server they take."""

from collections.abc import Sequence

from goclaw.core.clock import span
from goclaw.core.records import record


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
            return f"{self.name} (gone: silent for {self.silent:.0f} s{here})"
        return f"{self.name} ({self.version}, for {span(self.age)}, {self.sessions} conversations{here})"


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
