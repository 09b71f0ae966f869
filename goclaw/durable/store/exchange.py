"""Messages between the processes that share a store: the seam between their buses and the store.

A message is a text, sent and gone: a process that was not connected has missed it, and learns so. Only the watches
are kept: which process has readers for which session, until it says otherwise.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from goclaw.common.core.records import record

EVERYONE = ""
"""Stands for all processes where one is named, the sender included."""


@record
class Watch:
    """A session that a process has readers for."""

    session: str
    replica: str


class Exchange(Protocol):
    """The messages of one process."""

    @property
    def replica(self) -> str:
        """The name of this process; another one at each start."""
        ...

    def subscribe(self, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        """Call `heard` with the messages for this process or for everyone, in the order they were sent.

        Args:
            heard: called with each message. It must not wait.
            missed: called when messages may have been missed: at the beginning, and after a break.
        """
        ...

    async def send(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send messages, each with the name of a process or `EVERYONE`: all or none, in this order.

        A message may come twice where the connection was lost at that moment.

        Raises:
            DiskError: the store cannot be reached.
        """
        ...

    async def watch(self, sessions: Collection[str], seconds: float) -> None:
        """Note that this process has readers of sessions, for so many seconds.

        Raises:
            DiskError: the store cannot be reached.
        """
        ...

    async def unwatch(self, sessions: Collection[str]) -> None:
        """Note that it has readers of these no more.

        Raises:
            DiskError: the store cannot be reached.
        """
        ...

    async def watches(self) -> Sequence[Watch]:
        """Return what other processes watch.

        Raises:
            DiskError: the store cannot be reached.
        """
        ...
