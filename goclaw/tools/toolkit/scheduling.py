"""The scheduler of calls: those without conflicting declared resources run at the same time.

The rules are those of the Goa tool system ("Conflict Rules"). The calls of one answer go in the provider's order
wherever two conflict, whatever asks for approval meanwhile. Calls of different sessions in one workspace exclude each
other while they run, and only where both write the same path.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from goclaw.common.core.records import record
from goclaw.common.specs import SideEffect
from goclaw.common.workspace import Workspace

Category = Literal["", "shell", "network", "memory"]

EVERYTHING = "/"
"""In `ResourceUse.reads`: whatever there is."""


@record
class ResourceUse:
    """The resources that a call reads and writes. Empty: it holds none, as the calls it makes declare their own."""

    reads: tuple[str, ...] = ()
    """Paths, in the model's words until they are `resolved`; a folder means all in it."""
    writes: tuple[str, ...] = ()
    category: Category = ""
    """`shell` and `memory` exclude their own kind, `shell` also whatever writes; `network` is shared."""
    orders: tuple[str, ...] = ()
    """Other resources whose calls have to keep their order, by any name (a chat, the to-do list)."""
    alone: bool = False
    """Exclude every other holding call of the same answer, because its writes are unknown."""

    def conflicts(self, other: "ResourceUse") -> bool:
        """Whether the two may not run at the same time within an answer."""
        if self.alone or other.alone:
            return self != _NOTHING != other
        return (
            (self.category == other.category and self.category in ("shell", "memory"))
            or (self.category == "shell" and bool(other.writes))
            or (other.category == "shell" and bool(self.writes))
            or bool(set(self.orders) & set(other.orders))
            or _overlap(self.writes, other.writes)
            or _overlap(self.writes, other.reads)
            or _overlap(self.reads, other.writes)
        )


Access = ResourceUse
"""The name of `ResourceUse` until 2026-11, for tools that were written then."""

_NOTHING = ResourceUse()
_UNDECLARED = {
    SideEffect.NONE: _NOTHING,
    SideEffect.READ_ONLY: ResourceUse(reads=(EVERYTHING,)),
    SideEffect.BLOCKING: _NOTHING,
    SideEffect.NETWORK: ResourceUse(category="network"),
    SideEffect.MUTATING: ResourceUse(alone=True),
    SideEffect.SPAWNS: ResourceUse(alone=True),
}


def access_of(side_effect: SideEffect) -> ResourceUse:
    """Return the resource use of a tool that declares none."""
    return _UNDECLARED[side_effect]


async def resolved(access: ResourceUse, workspace: Workspace) -> ResourceUse:
    """Return the same use with real paths, so that two names of one file are one."""
    if {*access.reads, *access.writes} <= {EVERYTHING}:
        return access

    def real(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path if path == EVERYTHING else workspace.real(path) for path in paths)

    return await asyncio.to_thread(lambda: replace(access, reads=real(access.reads), writes=real(access.writes)))


def _overlap(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(_is_within(one, other) or _is_within(other, one) for one in some for other in others)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


@dataclass(eq=False, slots=True)
class Slot:
    """One call's place among the calls of its answer."""

    earlier: "tuple[Slot, ...]" = ()
    access: ResourceUse | None = None
    declared: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """It does not run any more."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """It has its result."""

    def declare(self, access: ResourceUse) -> None:
        """Declare the accesses of the call: later calls that do not conflict stop waiting."""
        self.access = access
        self.declared.set()

    def end(self) -> None:
        """Release the slot: the call has its result, or will never run."""
        self.declared.set()
        self.ended.set()

    async def turn(self) -> None:
        """Wait until no earlier call conflicts."""
        mine = self.access or _NOTHING
        if mine == _NOTHING:
            return
        for slot in self.earlier:
            await slot.declared.wait()
            if not slot.ended.is_set() and mine.conflicts(slot.access or _NOTHING):
                await slot.ended.wait()


def slots(count: int) -> tuple[Slot, ...]:
    """Return the slots of the calls of one answer, in the provider's order."""
    made: tuple[Slot, ...] = ()
    for _ in range(count):
        made = (*made, Slot(made))
    return made


class Scheduler:
    """Runs calls in parallel where that is safe."""

    def __init__(self) -> None:
        self._writing: dict[Slot, tuple[str, ...]] = {}
        """The resources being written now, in all sessions."""

    @asynccontextmanager
    async def running(self, slot: Slot) -> AsyncIterator[None]:
        """Run the block once no earlier call of the answer and no write of another session conflicts.

        The call keeps its exclusions until `Slot.end`.
        """
        await slot.turn()
        writes = slot.access.writes if slot.access else ()
        while other := next((slot for slot, paths in self._writing.items() if _overlap(paths, writes)), None):
            await other.left.wait()
        self._writing[slot] = writes
        try:
            yield
        finally:
            del self._writing[slot]
            slot.left.set()
