"""The journal: incoming messages, and the recorded steps of each turn."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Delivery, Inbound
from goclaw.common.core.records import record
from goclaw.durable.engine import statements
from goclaw.durable.engine.base import PreparedStep, Step, TurnKind, continues, never
from goclaw.durable.engine.turn_steps import StepOutcome, TurnSteps
from goclaw.durable.store.database import BoundStatement, ConstraintViolated, Database, StatementResult
from goclaw.errors import GoclawError, StateError

log = logging.getLogger(__name__)

T = TypeVar("T")

KEEP_SECONDS = 7 * 24 * 3600.0
"""Seconds for which the id of a finished message is remembered. Telegram redelivers for 24 hours at most."""

_INBOUND: Codec[Inbound] = Codec(Inbound)
_ANSWER: Codec[str] = Codec(str)


def _ids_of(rows: Sequence[BoundStatement], results: Sequence[StatementResult]) -> tuple[int, ...]:
    """Return the ids of a step's rows, which a transaction wrote first."""
    return tuple(result.lastrowid for result in results[: len(rows)])


def no_rows(_: object) -> Sequence[BoundStatement]:
    """Return no rows, for a step that writes nothing but its own record."""
    return ()


def ignore_step(_: object) -> None:
    """Do nothing when a step is recorded."""


@record
class Parked:
    """A turn that waits for an answer."""

    turn: str
    session: str
    step: str
    question: str


class TurnStage(Enum):
    """How far a turn is in this run of the daemon."""

    WAITING = "waiting"
    JOINING = "joining"
    """Another turn is recording that it took this message in."""
    RUNNING = "running"
    ENDED = "ended"
    """Its end is recorded."""


@dataclass(slots=True)
class LanePlace:
    """The place of a turn in its lane, which sets it."""

    behind: "deque[JournaledTurn]" = field(default_factory=deque)
    """The turns waiting in the same lane, the next one first; the lane's own queue."""
    followed: Callable[[], None] | None = None
    """Called when another turn comes to wait for it."""
    ending: Callable[[Sequence[Delivery]], Awaitable[None]] | None = None
    """Ends the turn in its lane."""


@dataclass(slots=True, eq=False)
class JournaledTurn:
    """A turn on the SQLite journal. Implements `engine.base.Turn`."""

    id: str
    kind: TurnKind
    inbound: Inbound
    _journal: "Journal"
    stopping: bool = False
    resumed: bool = False
    interrupts: bool = False
    """It came to take another turn's place."""
    stage: TurnStage = TurnStage.WAITING
    place: LanePlace = field(default_factory=LanePlace)
    steps: TurnSteps = field(default_factory=TurnSteps)

    @property
    def begun(self) -> bool:
        """An earlier run of the daemon has done some of its steps."""
        return bool(self.steps.recorded)

    @property
    def comes_first(self) -> bool:
        """It comes before what merely waits."""
        return self.begun or self.interrupts or self.stopping

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]] = no_rows,
        kept: Callable[[Step[T]], None] = ignore_step,
        unknown: Callable[[], T] | None = None,
        hold: Callable[[T], bool] = never,
    ) -> Step[T]:
        await self.flush()
        if self.steps.prepared is not None and self.steps.prepared[0].name == name:
            (prepared, ids), self.steps.prepared, self.steps.silent = self.steps.prepared, None, False
            step = Step(prepared.value, ids)
            kept(step)
            return step
        state, output = self.steps.recorded.get(name, ("new", None))
        if self.has_record(name) and output is not None:
            step = Step(codec.from_json(output), replayed=True)
            kept(step)
            return step
        if name in self.steps.unrecorded:
            value = self.steps.unrecorded[name]
        elif state == "intent" and unknown is not None:
            log.warning("turn %s: %s was cut by a restart; its outcome is unknown", self.id, name)
            value = unknown()
        else:
            self.steps.doing[name] = None
            try:
                value = await run()
            finally:
                del self.steps.doing[name]
        self.steps.unrecorded[name] = value
        step = Step(value, held=hold(value))

        def on_write(done: StepOutcome, results: Sequence[StatementResult]) -> None:
            nonlocal step
            step = Step(value, _ids_of(done.rows, results))
            self.steps.unrecorded.pop(name, None)
            if self.steps.held is done:
                self.steps.held = None
            self.steps.silent = False
            kept(step)

        done = StepOutcome(name, codec.to_json(value), rows(value), on_write)
        if step.held:
            self.steps.held = done
            kept(step)
        else:
            await self._record(done)
        return step

    async def flush(self) -> None:
        if self.steps.held is not None:
            await self._record(self.steps.held)

    async def _record(self, done: StepOutcome, *also: BoundStatement) -> None:
        """Write a step's rows and its outcome, and other statements, in one transaction."""
        has_intent = done.name in self.steps.intended or done.name in self.steps.recorded
        forgotten = [statements.FORGET_INTENT(turn=self.id, name=done.name)] if has_intent else []
        outcome = statements.DONE(turn=self.id, name=done.name, state="done", output=done.output)
        writing = self._journal.write(*done.rows, *forgotten, outcome, *also)
        await self._journal.complete_write(writing, f"recording {done.name}", partial(done.written, done))

    async def end(self, deliveries: Sequence[Delivery]) -> None:
        if self.place.ending is None:
            raise GoclawError(f"the turn {self.id} is in no lane that could end it")
        await self.place.ending(deliveries)

    async def record_end(
        self, at: float, promises: Sequence[BoundStatement], kept: Callable[[], None], *, durable: bool
    ) -> None:
        """Write the held step, the promises of the deliveries and the turn's end, in one transaction.

        Args:
            at: the time, in epoch seconds.
            promises: statements for the transaction.
            kept: called when it is recorded, also when the turn is being cancelled.
            durable: whether the disk must have it when this returns.
        """
        held = self.steps.held

        def on_write(results: Sequence[StatementResult]) -> None:
            self.stage = TurnStage.ENDED
            if held is not None:
                held.written(held, results)
            kept()

        rows = held.rows if held is not None else ()
        writing = self._journal.write(*rows, *promises, *self._journal.ending(self.id, at), durable=durable)
        await self._journal.complete_write(writing, "recording the end", on_write)

    def has_record(self, name: str) -> bool:
        return self.steps.recorded.get(name, ("new", None))[0] == "done"

    def followers(self, *, past_others: bool) -> Sequence[Inbound]:
        found: list[Inbound] = []
        for turn in self.place.behind:
            if turn.untouched and self.kind == "message" and continues(turn.inbound, self.inbound):
                found.append(turn.inbound)
            elif not past_others or turn.inbound.actor.key == self.inbound.actor.key:
                break  # messages of one person never overtake each other
        return found

    def watch(self, told: Callable[[], None] | None) -> None:
        self.place.followed = told

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
        (turn,) = [turn for turn in self.place.behind if turn.id == inbound.id]
        value = await run(inbound)
        while turn.inbound != inbound:  # edited meanwhile
            inbound = turn.inbound
            value = await run(inbound)

        step = Step(value)

        def on_write(done: StepOutcome, results: Sequence[StatementResult]) -> None:
            nonlocal step
            step = Step(value, _ids_of(done.rows, results))
            self.place.behind.remove(turn)
            kept(step)

        done = StepOutcome(name, codec.to_json(value), rows(value), on_write)
        turn.stage = TurnStage.JOINING
        try:
            await self._record(done, statements.END(turn=turn.id, at=at))
        finally:
            turn.stage = TurnStage.WAITING
        return step

    @property
    def untouched(self) -> bool:
        """A waiting message that nothing was done for yet."""
        is_waiting = self.stage is TurnStage.WAITING and not (self.begun or self.stopping or self.steps.prepared)
        return self.kind == "message" and is_waiting

    def is_older_version(self, edited: Inbound) -> bool:
        """Whether an edited message replaces this one."""
        mine = self.inbound
        return self.untouched and bool(edited.ref) and edited.ref == mine.ref and continues(edited, mine)

    async def read_again(self) -> None:
        """Reload the recorded steps before retrying the turn."""
        self.steps.held = self.steps.prepared = None  # what was held is among the unrecorded ones, and is held again
        self.steps.recorded = await self._journal.steps_by_now(self.id)

    async def intend(self, name: str) -> None:
        self.steps.intended.add(name)
        await self._journal.record_intent(self.id, name)

    async def park(self, name: str, question: str, ask: Callable[[str], Awaitable[None]]) -> str:
        state, output = self.steps.recorded.get(name, ("new", None))
        if state == "done" and output is not None:
            return _ANSWER.from_json(output)
        if state != "parked":
            await self._journal.record_question(self.id, name, question)
        await ask(question if state != "parked" else output or question)
        return await self._journal.wait_for_answer(self.id, name)


class Journal:
    """All statements about `inbox` and `steps`, and the tasks that wait for an answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._answers: dict[tuple[str, str], asyncio.Future[str]] = {}
        self._closed = False

    async def submit(
        self, inbound: Inbound, kind: TurnKind, *, instead_of: Sequence[str] = (), also: Sequence[BoundStatement] = ()
    ) -> bool:
        """Make a message durable, and with it the stop of the turns it replaces. False: its id is known.

        Callers that name turns ask `knows` before: a redelivered message must not stop anything.
        """
        statement = statements.SUBMIT(**self._row(inbound, kind), state="next" if instead_of else "new")
        stops = [statements.STOPPING(turn=turn) for turn in instead_of]
        return (await self._database.write(statement, *stops, *also, durable=True))[0].rowcount == 1

    async def submit_prepared(
        self, inbound: Inbound, prepared: PreparedStep[Any], *also: BoundStatement
    ) -> JournaledTurn | None:
        """Make a message and the first step of its turn durable in one transaction. None: its id is known."""
        message = statements.SUBMIT_NEW(**self._row(inbound, "message"), state="new")
        done = statements.DONE(turn=inbound.id, name=prepared.name, state="done", output=prepared.output)
        try:
            results = await self._database.write(*prepared.rows, message, done, *also, durable=True)
        except ConstraintViolated:  # nothing of it is kept
            submitted = await self.submit(inbound, "message", also=also)
            return self.new_turn(inbound, "message") if submitted else None
        ids = tuple(result.lastrowid for result in results[: len(prepared.rows)])
        turn = self.new_turn(inbound, "message")
        turn.steps.prepared = (prepared, ids)
        return turn

    def insert_without_turn(self, inbound: Inbound, at: float) -> BoundStatement:
        """Return the INSERT of a message that needs no turn: a command that was answered immediately."""
        return statements.SETTLED(**self._row(inbound, "message"), state="done", ended_at=at)

    async def replace(self, turn: JournaledTurn, edited: Inbound, at: float) -> bool:
        """Give a turn that was not begun the words and files of the message's new version, which is settled with it."""
        older = turn.inbound
        newer = replace(
            older,
            text=edited.text,
            attachments=edited.attachments,
            foreign=edited.foreign,
            forwarded=edited.forwarded,
        )
        turn.inbound = newer  # at once: should it begin before this is on disk, what it writes comes after
        body = _INBOUND.to_json(newer)
        settled = statements.SETTLED(**self._row(edited, "message"), state="done", ended_at=at)
        try:
            results = await self._database.write(statements.REPLACE(turn=turn.id, new_body=body), settled, durable=True)
        except StateError:
            if turn.inbound is newer and turn in turn.place.behind:
                turn.inbound = older
            raise
        return results[0].rowcount == 1

    async def knows(self, inbound_id: str) -> bool:
        """Whether a message with this id came in before."""
        return bool((await self._database.read(statements.KNOWN(turn=inbound_id)))[0][0])

    async def version(self, session: str, ref: str) -> Inbound | None:
        """Return the latest version of the message that its channel calls `ref`; None: it is gone, or never came."""
        if not ref:
            return None
        rows = await self._database.read(statements.VERSION(of_session=session, named=f'"ref":{json.dumps(ref)}'))
        return _INBOUND.from_json(rows[0]["body"]) if rows else None

    async def open_turns(self, session: str | None = None, known: Container[str] = ()) -> list[JournaledTurn]:
        """Return all that was not finished when the daemon last ended, or is not of one `session` but for `known` ids.

        What had begun goes on first, then what took another's place, then what waited, each in order of arrival.
        """
        opened = statements.OPEN() if session is None else statements.OPEN_OF(of_session=session)
        turns = [
            JournaledTurn(
                row["id"],
                row["kind"],
                _INBOUND.from_json(row["body"]),
                self,
                stopping=row["state"] == "stopping",
                resumed=True,
                interrupts=row["state"] == "next",
                steps=TurnSteps(await self.steps(row["id"]) if row["begun"] else {}),
            )
            for row in await self._database.read(opened)
            if row["id"] not in known
        ]
        return sorted(turns, key=lambda turn: (not turn.begun, not turn.comes_first))

    async def list_open_questions(self) -> list[Parked]:
        """Return the questions that turns waited for when the daemon last ended."""
        rows = await self._database.read(statements.PARKED())
        return [Parked(row["turn"], row["session"], row["name"], row["output"]) for row in rows]

    def new_turn(self, inbound: Inbound, kind: TurnKind, *, interrupts: bool = False) -> JournaledTurn:
        """Return the turn of a message that was just submitted: nothing is recorded yet."""
        return JournaledTurn(inbound.id, kind, inbound, self, interrupts=interrupts)

    async def record_intent(self, turn: str, name: str) -> None:
        """On disk before a step that must not run twice begins."""
        await self._database.write(statements.INTENT(turn=turn, name=name, state="intent"), durable=True)

    def write(self, *statements: BoundStatement, durable: bool = False) -> Awaitable[list[StatementResult]]:
        """Queue statements as one transaction; see `Database.write`."""
        return self._database.write(*statements, durable=durable)

    async def complete_write(self, writing: Awaitable[T], name: str, written: Callable[[T], None]) -> None:
        """Await the pending write, then call `written`, even when the turn is cancelled meanwhile.

        It must know the state of the disk; the cancellation is raised afterwards.
        """
        result = asyncio.ensure_future(writing)
        cut: asyncio.CancelledError | None = None
        while not result.done():
            try:
                await asyncio.wait({result})
            except asyncio.CancelledError as error:
                cut = error
                if self._closed:
                    result.cancel()
                    raise
        if cut is not None and (failure := result.exception()):
            log.warning("%s failed, and the turn was stopped: %s", name, failure)
            raise cut
        written(result.result())
        if cut is not None:
            raise cut

    def close(self) -> None:
        """The daemon ends: no turn goes on, so none needs to wait for pending records."""
        self._closed = True

    async def mark_stopping(self, turn: str, *also: BoundStatement) -> None:
        """Remember /stop, so that a restart does not take the turn up again; `also` is written with it."""
        await self._database.write(statements.STOPPING(turn=turn), *also, durable=True)

    async def end(self, turn: str, at: float, also: Sequence[BoundStatement] = ()) -> None:
        """Record that a turn is over which is in no lane, together with other statements."""
        await self.write(*also, *self.ending(turn, at))

    def ending(self, turn: str, at: float) -> Sequence[BoundStatement]:
        """Return the statements that end a turn: its inbox row and its scratch journal. No answer is waited for."""
        for key in [key for key in self._answers if key[0] == turn]:
            del self._answers[key]
        return statements.END(turn=turn, at=at), statements.FORGET_STEPS(turn=turn)

    async def record_question(self, turn: str, name: str, question: str) -> None:
        """On disk before a person is asked."""
        await self._database.write(statements.PARK(turn=turn, name=name, state="parked", output=question), durable=True)

    async def wait_for_answer(self, turn: str, name: str) -> str:
        """Wait until `answer` comes."""
        return await self._waiter(turn, name)

    async def answer(self, turn: str, name: str, answer: str, *also: BoundStatement) -> bool:
        """Record the answer to a parked turn, together with other statements, and wake it.

        False: no such question is open; the other statements are done all the same.
        """
        output = _ANSWER.to_json(answer)
        results = await self._database.write(
            statements.ANSWERED(of_turn=turn, of_name=name, output=output), *also, durable=True
        )
        if results[0].rowcount != 1:
            return False
        # After a restart the answer may come before the turn has got to its question again.
        waiter = self._waiter(turn, name)
        if not waiter.done():
            waiter.set_result(answer)
        return True

    async def forget_loose(self) -> None:
        """Forget the steps of turns that no message began (`new_turn` without `submit`): they ended with the daemon."""
        if (await self._database.read(statements.LOOSE()))[0][0]:
            await self._database.write(statements.FORGET_LOOSE())

    async def prune(self, now: float) -> None:
        """Forget the ids of messages that cannot be redelivered any more."""
        await self._database.write(statements.PRUNE(before=now - KEEP_SECONDS))

    async def steps(self, turn: str) -> dict[str, tuple[str, str | None]]:
        """Return the state and output of the recorded steps of a turn."""
        rows = await self._database.read(statements.STEPS(turn=turn))
        return {row["name"]: (row["state"], row["output"]) for row in rows}

    async def steps_by_now(self, turn: str) -> dict[str, tuple[str, str | None]]:
        """Return a turn's recorded steps after all pending writes: a cut step may still be on its way to the disk."""
        await self._database.write()
        return await self.steps(turn)

    def is_parked(self, turn: str) -> bool:
        """Whether a turn waits for an answer."""
        return any(of == turn and not waiter.done() for (of, _), waiter in self._answers.items())

    def _waiter(self, turn: str, name: str) -> asyncio.Future[str]:
        return self._answers.setdefault((turn, name), asyncio.get_running_loop().create_future())

    @staticmethod
    def _row(inbound: Inbound, kind: TurnKind) -> dict[str, object]:
        return {
            "id": inbound.id,
            "session": inbound.session,
            "kind": kind,
            "body": _INBOUND.to_json(inbound),
            "received_at": inbound.received_at,
        }
