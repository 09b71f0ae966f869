"""Which calls may run at the same time: those whose declared accesses do not conflict.

The rules are those of the Goa tool system ("Conflict Rules"). The calls of one answer go in the provider's order
wherever two conflict, whatever asks for approval meanwhile. Calls of different sessions in one workspace exclude each
other while they run, and only where both write the same path.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from goclaw.specs import SideEffect
from goclaw.workspace import Workspace

Category = Literal["", "shell", "network", "memory"]


@dataclass(frozen=True, slots=True)
class Access:
    """What a call reads and writes. Paths are the model's words until they are `resolved`; a folder means all in it."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    category: Category = ""
    """`shell` and `memory` exclude their own kind, `shell` also whatever writes; `network` is shared."""
    alone: bool = False
    """Nothing else of the same answer may run beside it: it changes nobody knows what."""

    def conflicts(self, other: "Access") -> bool:
        """Whether the two may not run at the same time within an answer."""
        if self.alone or other.alone:
            return True
        categories = {self.category, other.category}
        if len(categories) == 1 and categories <= {"shell", "memory"}:
            return True
        if "shell" in categories and (self.writes or other.writes):
            return True
        return (
            _overlap(self.writes, other.writes)
            or _overlap(self.writes, other.reads)
            or _overlap(self.reads, other.writes)
        )


_UNDECLARED = {
    SideEffect.NONE: Access(),
    SideEffect.READ_ONLY: Access(),
    SideEffect.BLOCKING: Access(),
    SideEffect.NETWORK: Access(category="network"),
    SideEffect.MUTATING: Access(alone=True),
    SideEffect.SPAWNS: Access(alone=True),
}


def access_of(side_effect: SideEffect) -> Access:
    """The access of a tool that declares none."""
    return _UNDECLARED[side_effect]


async def resolved(access: Access, workspace: Workspace) -> Access:
    """The same access with the real places of its paths, so that two names of one file are one."""
    if not access.reads and not access.writes:
        return access
    reads, writes = await asyncio.to_thread(
        lambda: tuple(tuple(workspace.real(path) for path in paths) for paths in (access.reads, access.writes))
    )
    return Access(reads, writes, access.category, access.alone)


def _overlap(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(_is_within(one, other) or _is_within(other, one) for one in some for other in others)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


@dataclass(eq=False, slots=True)
class Slot:
    """One call's place among the calls of its answer."""

    earlier: "tuple[Slot, ...]" = ()
    access: Access | None = None
    declared: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def declare(self, access: Access) -> None:
        """Say what the call accesses: what comes later and does not conflict waits no longer."""
        self.access = access
        self.declared.set()

    def end(self) -> None:
        """The call has its result, or will never run."""
        self.declared.set()
        self.ended.set()

    async def turn(self) -> None:
        """Wait until no earlier call conflicts."""
        mine = self.access or Access()
        for slot in self.earlier:
            await slot.declared.wait()
            if not slot.ended.is_set() and mine.conflicts(slot.access or Access()):
                await slot.ended.wait()


def slots(count: int) -> tuple[Slot, ...]:
    """The places of the calls of one answer, in the provider's order."""
    made: tuple[Slot, ...] = ()
    for _ in range(count):
        made = (*made, Slot(made))
    return made


class Scheduler:
    """Runs calls beside each other where that is safe."""

    def __init__(self) -> None:
        self._writing: list[tuple[tuple[str, ...], asyncio.Event]] = []
        """What is written or waits to be, of all sessions, in the order in which it came."""

    @asynccontextmanager
    async def running(self, slot: Slot | None) -> AsyncIterator[None]:
        """The block runs when neither an earlier call of the answer nor a write of another session is in its way."""
        if slot is None:
            yield
            return
        await slot.turn()
        writes = slot.access.writes if slot.access else ()
        async with self._alone_with(writes):
            yield

    @asynccontextmanager
    async def _alone_with(self, writes: tuple[str, ...]) -> AsyncIterator[None]:
        if not writes:
            yield
            return
        before = [ended for paths, ended in self._writing if _overlap(paths, writes)]
        mine = (writes, asyncio.Event())
        self._writing.append(mine)
        try:
            for ended in before:
                await ended.wait()
            yield
        finally:
            self._writing.remove(mine)
            mine[1].set()
