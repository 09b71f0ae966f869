"""The turn of a subagent: its steps are steps of the person's turn, under names of their own.

`tool:2:<call id>/model:1` is the first answer of the subagent started by that call. So one journal resumes both
after a crash: the call is made again, and the subagent reads back its recorded steps.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from goclaw.codec import Codec
from goclaw.engine.base import Step, Turn, TurnKind
from goclaw.engine.journal import ignore_step, no_rows
from goclaw.errors import GoclawError
from goclaw.events import Inbound
from goclaw.records import record
from goclaw.store.database import BoundStatement

T = TypeVar("T")


@record
class NestedTurn:
    """Implements `engine.base.Turn` on top of another one. Nothing joins it, and it is parked by its root only."""

    parent: Turn
    prefix: str
    """Begins the names of its steps: the call's step and a slash."""
    inbound: Inbound
    """The task as a message of the person whom the parent works for, in the agent's own session."""

    @property
    def id(self) -> str:
        return self.inbound.id

    @property
    def kind(self) -> TurnKind:
        return "message"

    @property
    def stopping(self) -> bool:
        return self.parent.stopping

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]] = no_rows,
        kept: Callable[[Step[T]], None] = ignore_step,
        unknown: Callable[[], T] | None = None,
    ) -> Step[T]:
        return await self.parent.step(f"{self.prefix}{name}", run, codec, rows=rows, kept=kept, unknown=unknown)

    def recorded(self, name: str) -> bool:
        return self.parent.recorded(f"{self.prefix}{name}")

    async def intend(self, name: str) -> None:
        await self.parent.intend(f"{self.prefix}{name}")

    def followers(self, *, past_others: bool) -> Sequence[Inbound]:
        return ()

    def watch(self, told: Callable[[], None] | None) -> None:
        """Nothing waits behind the work of an agent."""

    async def join(
        self,
        name: str,
        inbound: Inbound,
        run: Callable[[Inbound], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]],
        kept: Callable[[Step[T]], None],
        at: float,
    ) -> Step[T]:
        raise GoclawError("no message joins the work of an agent")

    async def park(self, name: str, question: str, ask: Callable[[str], Awaitable[None]]) -> str:
        return await self.parent.park(f"{self.prefix}{name}", question, ask)
