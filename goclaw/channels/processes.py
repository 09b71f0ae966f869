"""Requests of a channel to the other processes that use its store: a protocol, and its answers where there are none."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol


class Processes(Protocol):
    """All processes of a store. Methods that wait raise `DiskError` where it cannot be reached."""

    is_alone: bool
    """Whether no other process can use the store: what this one has in its memory is all that is known."""
    takes: list[Callable[[str], Awaitable[None]]]
    """Called with each session that this process takes, before it works on it; never where it is alone."""

    def holds(self, session: str) -> bool:
        """Whether this process works on a session, and no other can have taken it over while this one was paused."""
        ...

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what one process at a time does, as soon as no other one does it; until cancelled, or `run` returns.

        Raises:
            DiskError: the duty is lost.
        """
        ...

    def share(self) -> float:
        """Return the part of a service's limits that this process may use now: more than 0, at most 1."""
        ...

    async def follow(self) -> None:
        """Keep `share` up to date until cancelled."""
        ...

    def subscribe(self, kind: str, heard: Callable[[str], None]) -> None:
        """Call `heard` with each message of a kind, from any process, this one included. `kind`: a word."""
        ...

    async def broadcast(self, kind: str, words: str) -> None:
        """Send words, at most some thousand characters, to all processes. They may get lost."""
        ...


class SoleProcess:
    """The one process of its store: it has every session and every duty, and hears only its own messages."""

    is_alone = True

    def __init__(self) -> None:
        self.takes: list[Callable[[str], Awaitable[None]]] = []
        self._heard: dict[str, Callable[[str], None]] = {}

    def holds(self, session: str) -> bool:
        return True

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await run()

    def share(self) -> float:
        return 1.0

    async def follow(self) -> None:
        await asyncio.Event().wait()

    def subscribe(self, kind: str, heard: Callable[[str], None]) -> None:
        self._heard[kind] = heard

    async def broadcast(self, kind: str, words: str) -> None:
        if heard := self._heard.get(kind):
            heard(words)
