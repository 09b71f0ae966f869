"""A first step that is known when the message comes in: it is recorded with the message, once."""

from collections.abc import Sequence
from pathlib import Path

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Delivery, Inbound
from goclaw.common.core.messages import UserMessage
from goclaw.durable.engine.base import PreparedStep, Step, Turn, TurnHandler
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import open_lanes
from goclaw.durable.engine.outbox import open_outbox
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.transcripts import Origin, rows_of
from tests.durable.engine.house import inbound
from tests.durable.engine.test_journal import COUNT_MESSAGES, COUNT_STEPS, count, reopened

TEXT: Codec[str] = Codec(str)


def rows(value: str, message: Inbound) -> Sequence[BoundStatement]:
    return rows_of(UserMessage(value), Origin(message.session, message.id, "user", 1.0))


def prepare(message: Inbound) -> PreparedStep[str]:
    value = f"heard {message.text}"
    return PreparedStep("user", value, TEXT.to_json(value), rows(value, message))


async def never_run() -> str:
    raise AssertionError("the step was done already")


async def test_message_and_step_are_one_commit_and_the_turn_does_not_do_the_step_again(database: Database) -> None:
    commits, found = list[int](), list[Step[str]]()
    database.written = lambda: commits.append(1)
    clock = SteppedClock()

    async def handle(turn: Turn) -> Sequence[Delivery]:
        assert len(commits) == 1
        found.append(await turn.step("user", never_run, TEXT, rows=lambda value: rows(value, turn.inbound)))
        assert len(commits) == 1, "nothing is left to be recorded"
        return ()

    async def failed(turn: Turn, error: Exception) -> Sequence[Delivery]:
        raise error

    journal = Journal(database)
    async with open_outbox(database, {"memory": MemoryChannel(Room(), clock)}, clock) as outbox:
        async with open_lanes(journal, outbox, clock) as lanes:
            await lanes.resume(TurnHandler(handle, failed, prepare), {"memory"})
            assert await lanes.submit(inbound(1))
            await lanes.idle()
            assert not await lanes.submit(inbound(1)), "a message that comes again is known"
            await lanes.idle()
    (step,) = found
    assert (step.value, len(step.rows), step.replayed, step.held) == ("heard 1", 1, False, False)
    assert await count(database, COUNT_MESSAGES) == 1, "a message that comes again stores nothing"


async def test_behind_a_turn_that_runs_nothing_is_recorded_before_its_time(tmp_path: Path, database: Database) -> None:
    stored = list[int]()
    clock, journal = SteppedClock(), Journal(database)

    async def handle(turn: Turn) -> Sequence[Delivery]:
        if turn.id == "m1":
            assert await lanes.submit(inbound(2))
            stored.append(await count(database, COUNT_MESSAGES))

        async def run() -> str:
            return "heard in its turn"

        step = await turn.step("user", run, TEXT, rows=lambda value: rows(value, turn.inbound))
        assert (step.value == "heard in its turn") is (turn.id == "m2")
        return ()

    async def failed(turn: Turn, error: Exception) -> Sequence[Delivery]:
        raise error

    async with open_outbox(database, {"memory": MemoryChannel(Room(), clock)}, clock) as outbox:
        async with open_lanes(journal, outbox, clock) as lanes:
            await lanes.resume(TurnHandler(handle, failed, prepare), {"memory"})
            await lanes.submit(inbound(1))
            await lanes.idle()
    assert stored == [1], "only the first message is stored while it is being answered"
    assert await count(database, COUNT_MESSAGES) == 2


async def test_a_crash_behind_the_commit_reads_the_step_back(database: Database) -> None:
    journal = Journal(database)
    message = inbound(1)
    turn = await journal.submit_prepared(message, prepare(message))
    assert turn is not None and not turn.untouched, "an edit that comes now finds its words stored"
    again = await reopened(journal)
    assert again.begun
    step = await again.step("user", never_run, TEXT)
    assert (step.value, step.replayed) == ("heard 1", True)


async def test_a_known_message_is_refused_whole(database: Database) -> None:
    journal = Journal(database)
    message = inbound(1)
    assert await journal.submit(message, "message")
    assert await journal.submit_prepared(message, prepare(message)) is None
    assert (await count(database, COUNT_MESSAGES), await count(database, COUNT_STEPS)) == (0, 0)
