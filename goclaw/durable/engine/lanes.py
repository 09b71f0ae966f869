"""The embedded engine: one lane per session, in order, durable.

A lane is a task that lives while its session has work. `/stop` cancels the turn inside the lane, never the lane. An
exception that escapes a handler becomes one log entry and one sentence to the user, and the lane goes on. Only a
refusing disk holds a lane up: the write is retried until it is recorded, and finished work is not repeated.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from structlog.contextvars import bound_contextvars

from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.events import Delivery, Inbound
from goclaw.common.core.supervise import ends_within, result_of, wait_without_cancelling
from goclaw.common.health.stuck_tasks import task_stacks
from goclaw.durable.engine.base import LaneState, RunningTurn, TurnHandler, TurnKind, continues
from goclaw.durable.engine.journal import Journal, JournaledTurn, TurnStage
from goclaw.durable.engine.lane import Lane, LaneOwner, SoleLaneOwner
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import BoundStatement
from goclaw.errors import OwnershipLost, StateError

log = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_SECONDS = (3.0, 1.0, 1.0)
"""Seconds for work to end at shutdown, each time it is asked to.

From the second time on, work that ignores it is left behind (see `health.stuck_tasks`).
"""

Delayed = Callable[[Inbound, StateError], Awaitable[None]]
"""Called when a message's turn has to wait for the disk, at every try."""

FIRST_PAUSE, MAX_PAUSE = 0.5, 10.0
"""Seconds between two tries to record a turn, doubled each time up to this: people wait for it to go on."""


class Lanes:
    """Implements `engine.base.Engine`. Made by `open_lanes`."""

    def __init__(self, journal: Journal, outbox: Outbox, clock: Clock, delayed: Delayed, owner: LaneOwner) -> None:
        self._journal = journal
        self._outbox = outbox
        self._delayed = delayed
        self._clock = clock
        self._owner = owner
        self._lanes: dict[str, Lane] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turns: asyncio.Future[TurnHandler] = asyncio.get_running_loop().create_future()
        """Does turns; known when messages are accepted, because what does turns needs the engine itself."""
        self._ending = False

    async def resume(self, turns: TurnHandler, channels: Container[str]) -> int:
        """Resume the turns that the last run left unfinished; returns how many. Nothing new is accepted before.

        Turns of a channel that is not among `channels` wait for a start where it is: their pictures are still there.
        """
        left = [turn for turn in await self._journal.open_turns() if turn.inbound.address.channel in channels]
        self._turns.set_result(turns)
        for turn in left:
            self.push(turn)
        return len(left)

    def start(self, turns: TurnHandler) -> None:
        """Accept messages from here on. The turns that are left of a session are pushed when it is taken."""
        self._turns.set_result(turns)

    async def submit(
        self,
        inbound: Inbound,
        kind: TurnKind = "message",
        *,
        interrupt: bool = False,
        also: Sequence[BoundStatement] = (),
    ) -> bool:
        if not self._turns.done():
            await result_of(self._turns)
        while (elsewhere := self._owner.elsewhere(inbound.session)) is None:
            # A caller that is cancelled half-way must not leave a message that is on disk, but in no lane.
            work = self._submit_here(inbound, kind, interrupt=interrupt, also=also)
            try:
                if (is_new := await wait_without_cancelling(self._spawn(work, f"submit {inbound.id}"))) is not None:
                    return is_new
            except OwnershipLost as lost:
                log.info("the message is for another process: %s", lost, extra={"turn": inbound.id})
        return await elsewhere.submit(inbound, kind, also)

    async def replace(self, inbound: Inbound) -> bool:
        if not self._turns.done():
            await result_of(self._turns)
        return await wait_without_cancelling(self._spawn(self._replace(inbound), f"replace {inbound.id}"))

    async def cancel(self, session: str, patience: float | None = None, by: Inbound | None = None) -> bool:
        with self._owner.acting(session):
            if by is not None or (elsewhere := self._owner.elsewhere(session)) is None:
                return await self._cancel_here(session, patience, by)
        return await elsewhere.cancel(session)

    async def stop_for(self, session: str, turn: str) -> str:
        """Carry the order `CANCEL` out; returns the turn that is stopped, empty if it does not run any more."""
        return turn if self.running(session) == turn and await self._cancel_here(session, 0.0) else ""

    async def _cancel_here(self, session: str, patience: float | None, by: Inbound | None = None) -> bool:
        lane = self._lanes.get(session)
        if lane is None or lane.turn is None:
            return False
        stoppable = lane.running()
        ending = self._spawn(self._await_stop(lane, [turn for turn in stoppable if lane.stop(turn)], by), "stop")
        if patience is None:
            await wait_without_cancelling(ending)
        else:
            await ends_within(ending, self._clock, patience)
        return bool(stoppable)  # not if its answer was being recorded: too late to stop it

    async def signal(self, turn: str, name: str, answer: str) -> bool:
        return await self._journal.answer(turn, name, answer)

    def running(self, session: str) -> str | None:
        lane = self._lanes.get(session)
        return lane.turn.id if lane and lane.turn else None

    def received_at(self, session: str) -> float | None:
        lane = self._lanes.get(session)
        return lane.turn.inbound.received_at if lane and lane.turn and not lane.turn.resumed else None

    def waiting(self, session: str) -> int:
        lane = self._lanes.get(session)
        return len(lane.waiting) if lane else 0

    async def queue(self, session: str) -> LaneState:
        if (elsewhere := self._owner.elsewhere(session)) is not None:
            return await elsewhere.queue(session)
        return LaneState(self.running(session) or "", self.waiting(session))

    @contextmanager
    def alone(self, session: str) -> Iterator[bool]:
        if session in self._lanes:
            yield False
            return
        lane = self._lanes[session] = Lane()
        try:
            yield True
        finally:
            if lane.waiting:
                lane.task = self._spawn(self._drain(session, lane), _name(session))
            else:
                del self._lanes[session]

    def at_work(self) -> list[RunningTurn]:
        """Return the turns that run."""
        return [
            RunningTurn(session, turn.id, lane.delayed or self._journal.is_parked(turn.id), tuple(turn.steps.doing))
            for session, lane in self._lanes.items()
            if (turn := lane.turn) is not None
        ]

    def oldest_waiting(self) -> float | None:
        """When the message arrived that waits longest for a running turn, in epoch seconds; None: none waits."""
        return min((turn.inbound.received_at for lane in self._lanes.values() for turn in lane.waiting), default=None)

    def busy(self) -> int:
        """Return the number of lanes with work."""
        return len(self._lanes)

    def count_waiting_for_disk(self) -> int:
        """Return the number of turns that wait for the disk."""
        return sum(lane.delayed for lane in self._lanes.values())

    async def idle(self, *, but_parked: bool = False) -> None:
        """Wait until no lane has work; with `but_parked` not for turns that wait for a person or for the disk."""
        parked = {
            _name(session)
            for session, lane in self._lanes.items()
            if but_parked and lane.turn and (lane.delayed or self._journal.is_parked(lane.turn.id))
        }
        tasks = {task for task in self._tasks if task.get_name() not in parked}
        if tasks:
            await asyncio.wait(tasks)

    def is_busy(self, session: str) -> bool:
        """Whether a session's lane has work."""
        return session in self._lanes

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

    def wind_down(self) -> None:
        """Wind down: running turns may end; waiting and new messages are journaled for the next start."""
        self._ending = True

    async def close(self) -> None:
        """End every lane now; unfinished turns stay in the journal for the next start."""
        self._journal.close()
        tasks = set(self._tasks)
        for seconds in CLOSE_SECONDS:
            for task in tasks:
                task.cancel()
            if tasks:
                _, tasks = await asyncio.wait(tasks, timeout=seconds)
        if tasks:
            names = ", ".join(sorted(task.get_name() for task in tasks))
            log.error("these do not end and are left: %s", names, extra={"stack": task_stacks(tasks)})

    async def _replace(self, edited: Inbound) -> bool:
        lane = self._lanes.get(edited.session)
        older = [turn for turn in lane.waiting if turn.is_older_version(edited)] if lane else []
        if not older:
            return False
        replaced = await self._journal.replace(older[0], edited, self._clock.now())
        log.info("a message that waits was edited", extra={"turn": older[0].id})
        return replaced

    async def _await_stop(self, lane: Lane, told: Sequence[JournaledTurn], by: Inbound | None) -> None:
        """Journal that turns were stopped, and wait until the running one has ended."""
        ended = lane.ended
        settled = [self._journal.insert_without_turn(by, self._clock.now())] if by else []
        for turn in told:
            try:
                await self._journal.mark_stopping(turn.id, *settled)
            except StateError as error:
                log.warning("turn %s is being stopped, but that could not be recorded: %s", turn.id, error)
        await ended.wait()

    async def _submit_here(
        self, inbound: Inbound, kind: TurnKind, *, interrupt: bool, also: Sequence[BoundStatement]
    ) -> bool | None:
        """Submit to the lane of a session that this process has; None: it has not any more.

        Raises:
            OwnershipLost: another one has taken it over; nothing was written.
        """
        async with self._owner.taking_in(inbound, self.push) as submission:
            if submission is None:
                return None
            taking = self._accept_as_replacement(inbound) if interrupt else self._accept(inbound, kind, also)
            submission.is_new = await taking
            return submission.is_new

    async def _accept(self, inbound: Inbound, kind: TurnKind, also: Sequence[BoundStatement] = ()) -> bool:
        with self.alone(inbound.session) as begins:
            prepared = self._turns.result().prepare(inbound) if begins and kind == "message" else None
            if prepared is None:
                submitted = await self._journal.submit(inbound, kind, also=also)
                turn = self._journal.new_turn(inbound, kind) if submitted else None
            else:
                turn = await self._journal.submit_prepared(inbound, prepared, *also)
            if turn is not None:
                self.push(turn)
        return turn is not None

    async def _accept_as_replacement(self, inbound: Inbound) -> bool:
        """Accept a message in place of the running turn, if there is one that it may stop."""
        if await self._journal.knows(inbound.id):
            return False
        replaced = [turn.id for turn in self._replaced_by(inbound)]
        if not replaced:
            return await self._accept(inbound, "message")
        if not await self._journal.submit(inbound, "message", instead_of=replaced):
            return False
        # Others may have come or gone meanwhile; what comes later is not in the lane yet.
        replaceable = self._replaced_by(inbound)
        self.push(self._journal.new_turn(inbound, "message", interrupts=True))
        for turn in replaceable:
            self._lanes[inbound.session].stop(turn)
        return True

    def _replaced_by(self, inbound: Inbound) -> list[JournaledTurn]:
        """Return the turns that a message replaces: the running one, and those that were to replace it."""
        lane = self._lanes.get(inbound.session)
        turns = [*lane.running(), *lane.first()] if lane else []
        return [turn for turn in turns if turn.kind == "message" and continues(inbound, turn.inbound)]

    def _spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def push(self, turn: JournaledTurn) -> None:
        """Queue a turn after those of its session, unless the session was left meanwhile."""
        session = turn.inbound.session
        if not self._owner.may_begin(session):
            return
        lane = self._lanes.get(session)
        if lane is None:
            lane = self._lanes[session] = Lane()
            lane.task = self._spawn(self._drain(session, lane), _name(session))
        lane.push(turn)

    async def _drain(self, session: str, lane: Lane) -> None:
        with self._owner.draining(session, lane):
            try:
                while lane.waiting and not self._ending:
                    turn = lane.waiting.popleft()
                    # Every line that is logged on the turn's way names it: see `health.logs`.
                    with bound_contextvars(turn=turn.id, session=session):
                        if turn.resumed:
                            log.info("turn taken up again", extra={"kind": turn.kind})
                        await self._run(lane, turn)
            finally:
                if self._lanes.get(session) is lane:
                    del self._lanes[session]

    async def _run(self, lane: Lane, turn: JournaledTurn) -> None:
        lane.ended = asyncio.Event()
        lane.turn = turn
        turn.place.ending = partial(self._end, lane, turn)
        try:
            deliveries = await self._until_done(lane, turn)
            if turn.stage is not TurnStage.ENDED:
                await self._end(lane, turn, deliveries)
        except OwnershipLost as lost:
            # What is in memory of the session is behind what the other process writes: nothing of it may go on here.
            log.info("the turn and %d behind it are left: %s", len(lane.waiting), lost)
            lane.waiting.clear()
            lane.is_lost = True
        except Exception:
            log.exception("the turn could not be ended; it is taken up at the next start")
        finally:
            lane.turn = lane.work = turn.place.ending = None
            lane.ended.set()

    async def _until_done(self, lane: Lane, turn: JournaledTurn) -> Sequence[Delivery]:
        """Do a turn, as often as it takes; return its deliveries, unless it has ended itself."""
        backoff = Backoff(FIRST_PAUSE, MAX_PAUSE)
        while True:
            try:
                if turn.stage is TurnStage.RUNNING:
                    await turn.read_again()
                turn.stage = TurnStage.RUNNING
                deliveries = await self._result(lane, turn)
                if deliveries is None and turn.steps.silent:
                    # Stopped before it had said anything: its words are kept.
                    deliveries = await self._result(lane, turn)
                return deliveries or ()
            except OwnershipLost:
                raise
            except StateError as error:
                await self._wait_for_disk(lane, turn, error, backoff)

    async def _end(self, lane: Lane, turn: JournaledTurn, deliveries: Sequence[Delivery]) -> None:
        """Record the end of a turn, as often as it takes, and have its deliveries sent."""
        backoff = Backoff(FIRST_PAUSE, MAX_PAUSE)
        while True:
            lane.work = None  # from here on it cannot be stopped
            promise = self._outbox.prepare(deliveries)
            sent = partial(self._outbox.enqueue_progress, promise.started)
            try:
                return await turn.record_end(self._clock.now(), promise.rows, sent, durable=promise.durable)
            except OwnershipLost:
                raise
            except StateError as error:
                await self._wait_for_disk(lane, turn, error, backoff)

    async def _wait_for_disk(self, lane: Lane, turn: JournaledTurn, error: StateError, backoff: Backoff) -> None:
        """Report that the disk refused a write, and wait; /stop cuts that short."""
        pause = backoff.next()
        log.warning("the turn waits for the disk, next try in %g s: %s", pause, error)
        self._spawn(self._report_delay(turn.inbound, error), f"telling of {turn.id}")
        lane.work, lane.delayed = asyncio.create_task(self._clock.sleep(pause), name=f"rest {turn.id}"), True
        try:
            await asyncio.wait({lane.work})
        finally:
            lane.work.cancel()
            lane.delayed = False

    async def _report_delay(self, inbound: Inbound, error: StateError) -> None:
        try:
            await self._delayed(inbound, error)
        except Exception:
            log.exception("nobody could be told that the message waits")

    async def _result(self, lane: Lane, turn: JournaledTurn) -> Sequence[Delivery] | None:
        """Return the deliveries of the handler; None when /stop cut it."""
        work: asyncio.Task[Sequence[Delivery]]
        work = lane.work = asyncio.create_task(self._outcome(turn), name=f"turn {turn.id}")
        try:
            return await work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if turn.stopping and work.cancelled() and not (task and task.cancelling()):
                return None
            raise
        finally:
            work.cancel()

    async def _outcome(self, turn: JournaledTurn) -> Sequence[Delivery]:
        try:
            return await self._turns.result().run(turn)
        except Exception as error:
            if turn.stage is TurnStage.ENDED:
                log.exception("the turn has ended; what follows from that failed")
                return ()
            if isinstance(error, StateError):
                raise
            log.exception("the turn failed unexpectedly")
            return await self._turns.result().failed(turn, error)


async def _no_notice(inbound: Inbound, error: StateError) -> None:
    """Ignore that a turn waits."""


def _name(session: str) -> str:
    """Return the name of a lane's task."""
    return f"lane {session}"


@asynccontextmanager
async def open_lanes(
    journal: Journal, outbox: Outbox, clock: Clock, delayed: Delayed = _no_notice, owner: LaneOwner | None = None
) -> AsyncIterator[Lanes]:
    """Yield the engine while the block runs. Call `resume` or `start` when everything that turns need is open.

    `owner`: of a process among others; None: this one is alone.
    """
    lanes = Lanes(journal, outbox, clock, delayed, owner or SoleLaneOwner())
    try:
        yield lanes
    finally:
        await lanes.close()
