"""The lanes of a store that several processes share: a session has its lane in the process that owns it.

What comes in there is journaled under the lease's fence and put into the lane at once, as where there is one process.
What comes in elsewhere is journaled with the wish that its session be worked on, and taken up by its owner.
"""

import logging
from collections.abc import Container, Sequence
from typing import Any

from goclaw.core.events import Inbound
from goclaw.core.supervise import ends_within, goes_on
from goclaw.engine.base import LaneState, TurnKind
from goclaw.engine.journal import JournaledTurn
from goclaw.engine.lanes import CLOSE_SECONDS, Lane, Lanes
from goclaw.engine.leases import Held, Leases
from goclaw.engine.statements import QUEUE
from goclaw.errors import OwnershipLost
from goclaw.health.stuck_tasks import task_stacks
from goclaw.store.database import BoundStatement, Database
from goclaw.store.fencing import HELD
from goclaw.store.ownership import Ownership

log = logging.getLogger(__name__)

ORDER_SECONDS = 10.0
"""Seconds for which a reply of the owner is waited for: those of a dead one (`STALL_SECONDS` and the next look), of the
transaction that keeps its session (three), and one to carry the order out."""
CANCEL = "cancel"
"""The order to stop a turn, by its id, if it is the one that runs."""


class SharedLanes(Lanes):
    """Lanes beside those of other processes. Not resumed at the start: `take_up` does that for each session."""

    def __init__(self, *parts: Any, database: Database, ownership: Ownership, channels: Container[str]) -> None:
        """`parts`: those of `Lanes`; `channels`: turns of others wait in the journal for a process that has theirs."""
        super().__init__(*parts)
        self.leases = Leases(self._clock)
        self._database = database
        self._ownership = ownership
        self._channels = channels
        self._resumed.set()

    async def take_up(self, held: Held) -> int:
        """Take up a session's turns that are not in its lane; returns how many.

        Raises:
            OwnershipLost: another process has taken the session over.
        """
        turns = await self._journal.open_turns(held.session, held.known)
        if turns and not self._ownership.is_sure_of(held.session, held.lease.fence.epoch):
            # What was read may be another process's: with what this one has in memory the model would be asked amiss.
            await self._database.write()
        # What is submitted here meanwhile is known by now.
        new = [turn for turn in turns if turn.id not in held.known and turn.inbound.address.channel in self._channels]
        for turn in new:
            held.known.add(turn.id)
            turn.resumed = turn.begun  # it may have been taken in just now, here or elsewhere
            self._push(turn)
        return len(new)

    async def cut(self, session: str) -> None:
        """End a session's lane; unfinished turns stay in the journal for the process that owns it next.

        A turn that does not end is left: it writes nothing any more.
        """
        lane = self._lanes.get(session)
        if lane is None or lane.task is None:
            return
        lane.task.cancel()
        if not await ends_within(lane.task, self._clock, sum(CLOSE_SECONDS)):
            log.error("a turn of %s does not end and is left", session, extra={"stack": task_stacks([lane.task])})
            self._lanes.pop(session, None)

    def is_busy(self, session: str) -> bool:
        """Whether a session's lane has work."""
        return session in self._lanes

    async def submit(
        self,
        inbound: Inbound,
        kind: TurnKind = "message",
        *,
        interrupt: bool = False,
        also: Sequence[BoundStatement] = (),
    ) -> bool:
        if self.leases.of(inbound.session) is not None:
            work = self._submit_here(inbound, kind, interrupt=interrupt, also=also)
            try:
                if (submitted := await goes_on(self._spawn(work, f"submit {inbound.id}"))) is not None:
                    return submitted
            except OwnershipLost as lost:
                log.info("the message is for another process: %s", lost, extra={"turn": inbound.id})
        return await self._journal.submit(inbound, kind, also=[*also, self._ownership.wanted(inbound.session)])

    async def cancel(self, session: str, patience: float | None = None, by: Inbound | None = None) -> bool:
        with self.leases.acting(session) as held:
            if held is not None or by is not None:
                return await super().cancel(session, patience, by)
        if not (turn := (await self.queue(session)).running):
            return False
        return bool(await self._ownership.orders.give(session, CANCEL, turn, ORDER_SECONDS))

    async def stop_for(self, session: str, turn: str) -> str:
        """Carry the order `CANCEL` out; returns the turn that is stopped, empty if it does not run any more."""
        return turn if self.running(session) == turn and await super().cancel(session, 0.0) else ""

    async def queue(self, session: str) -> LaneState:
        if self.leases.of(session) is not None:
            return await super().queue(session)
        # The oldest message that is not finished runs, or will be the first to.
        turns = [row["id"] for row in await self._database.read(QUEUE(of_session=session))]
        return LaneState(turns[0], len(turns) - 1) if turns else LaneState("", 0)

    async def _submit_here(
        self, inbound: Inbound, kind: TurnKind, *, interrupt: bool, also: Sequence[BoundStatement]
    ) -> bool | None:
        """Submit to the lane of a session that this process has; None: it has not any more.

        Raises:
            OwnershipLost: another one has taken it over; nothing was written.
        """
        with self.leases.acting(inbound.session) as held:
            if held is None:
                return None
            async with held.submitting:
                # What another process took in before is answered before.
                rows = await self._database.read(QUEUE(of_session=held.session))
                if any(row["id"] not in held.known for row in rows):
                    await self.take_up(held)
                return await self._submit_known(held, inbound, kind, interrupt=interrupt, also=also)

    async def _submit_known(
        self, held: Held, inbound: Inbound, kind: TurnKind, *, interrupt: bool, also: Sequence[BoundStatement]
    ) -> bool:
        is_ours, submitted = inbound.id not in held.known, False
        # Before it is committed: a look for what others submitted finds it as soon as it is.
        held.known.add(inbound.id)
        try:
            taking = self._take_its_place(inbound) if interrupt else self._take_in(inbound, kind, also)
            submitted = await taking
        finally:
            if is_ours and not submitted:
                held.known.discard(inbound.id)
                held.lease.news.set()  # another one may have submitted it, and a look has passed it over
        return submitted

    def _push(self, turn: JournaledTurn) -> None:
        held = self.leases.of(turn.inbound.session)
        if held is not None and held.lease.fence == HELD.get():
            super()._push(turn)
        # Else the session was left meanwhile: who has it next finds the turn in the journal.

    async def _drain(self, session: str, lane: Lane) -> None:
        held = self.leases.of(session)
        try:
            await super()._drain(session, lane)
        finally:
            if held is not None:
                held.active_at = self._clock.monotonic()
                held.lease.is_lost = held.lease.is_lost or lane.is_lost
                if lane.is_lost or self.leases.ending:
                    held.lease.news.set()
