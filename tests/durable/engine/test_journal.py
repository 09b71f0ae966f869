"""The journal: what a step recorded is read back, never done a second time."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import func, select

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Address, Attachment, Inbound
from goclaw.common.core.messages import UserMessage
from goclaw.durable.engine.base import Step
from goclaw.durable.engine.journal import KEEP_SECONDS, Journal, JournaledTurn
from goclaw.durable.store.database import BoundStatement, Database, Statement
from goclaw.durable.store.open import open_database
from goclaw.durable.store.schema import messages, steps
from goclaw.durable.store.transcripts import Origin, rows_of
from tests.durable.engine.house import Slow

TEXT: Codec[str] = Codec(str)
COUNT_MESSAGES = Statement(select(func.count()).select_from(messages))
COUNT_STEPS = Statement(select(func.count()).select_from(steps))


def inbound(number: int = 1, session: str = "s") -> Inbound:
    """A message with everything in it that can be in one."""
    return Inbound(
        id=f"telegram:{number}",
        actor=Actor("telegram:5", "telegram", name="Änna", behalf=(Actor("tui:x", "cli", owner=True),)),
        session=session,
        text="hello\nworld",
        address=Address("telegram", "5", thread="7", reply_to="8"),
        received_at=1_750_000_000.5,
        attachments=(Attachment("image", "file", "image/png", "a.png", 9),),
    )


class Work:
    """A step's work that counts how often it is done."""

    def __init__(self, outcome: str = "outcome") -> None:
        self.times = 0
        self.outcome = outcome

    async def run(self) -> str:
        self.times += 1
        return self.outcome

    async def fail(self) -> str:
        self.times += 1
        raise RuntimeError("the process ends here")

    def rows(self, value: str) -> list[BoundStatement]:
        return rows_of(UserMessage(value), Origin("s", "telegram:1", "step", 1.0))


async def count(database: Database, statement: Statement) -> int:
    return int((await database.read(statement()))[0][0])


async def reopened(journal: Journal) -> JournaledTurn:
    """The only open turn, as the next start finds it."""
    (turn,) = await journal.open_turns()
    return turn


async def test_a_message_comes_back_as_it_was(database: Database) -> None:
    journal = Journal(database)
    assert await journal.submit(inbound(), "message")
    turn = await reopened(journal)
    assert (turn.id, turn.kind, turn.inbound, turn.stopping) == ("telegram:1", "message", inbound(), False)


@pytest.mark.promise("P-answered-once")
async def test_the_same_id_is_taken_once_also_after_its_turn_has_ended(database: Database) -> None:
    journal = Journal(database)
    assert await journal.submit(inbound(), "message")
    assert not await journal.submit(inbound(), "message")
    await journal.end("telegram:1", 2.0, ())
    assert not await journal.submit(inbound(), "message")
    assert await journal.open_turns() == []
    assert await journal.knows("telegram:1") and not await journal.knows("telegram:2")


async def test_ids_are_forgotten_when_nobody_can_redeliver_them(database: Database, clock: SteppedClock) -> None:
    journal = Journal(database)
    await journal.submit(inbound(1), "message")
    await journal.submit(inbound(2), "message")
    await journal.end("telegram:1", clock.now(), ())
    clock.advance(KEEP_SECONDS - 1)
    await journal.prune(clock.now())
    assert await journal.knows("telegram:1")
    clock.advance(2)
    await journal.prune(clock.now())
    assert not await journal.knows("telegram:1")
    assert await journal.knows("telegram:2"), "an open turn is never forgotten"


async def test_open_turns_come_in_the_order_of_arrival(database: Database) -> None:
    journal = Journal(database)
    for number in (3, 1, 2):
        await journal.submit(inbound(number), "message")
    assert [turn.id for turn in await journal.open_turns()] == ["telegram:3", "telegram:1", "telegram:2"]


async def test_a_recorded_step_is_read_back(database: Database) -> None:
    journal, work = Journal(database), Work()
    await journal.submit(inbound(), "message")
    turn = journal.new_turn(inbound(), "message")
    first = await turn.step("model:1", work.run, TEXT, rows=work.rows)
    assert (first.value, first.replayed, len(first.rows)) == ("outcome", False, 1)
    again = await (await reopened(journal)).step("model:1", Work("other").run, TEXT, rows=work.rows)
    assert (again.value, again.replayed, again.rows) == ("outcome", True, ())
    assert work.times == 1
    assert await count(database, COUNT_MESSAGES) == 1


async def test_an_outcome_and_its_rows_are_one_transaction(database: Database) -> None:
    journal, work = Journal(database), Work("\ud800")
    await journal.submit(inbound(), "message")
    turn = journal.new_turn(inbound(), "message")
    with pytest.raises(ValueError, match="surrogates"):
        await turn.step("model:1", Work("fine").run, TEXT, rows=lambda _: work.rows(work.outcome))
    assert (await count(database, COUNT_MESSAGES), await count(database, COUNT_STEPS)) == (0, 0)


async def test_a_stopped_turn_knows_what_is_on_disk(database: Database) -> None:
    slow = Slow(database, "model:1")
    journal, work, told = Journal(slow), Work(), list[str]()
    await journal.submit(inbound(), "message")

    def kept(step: Step[str]) -> None:
        told.append(step.value)

    turn = journal.new_turn(inbound(), "message")
    async with asyncio.timeout(10):
        stepping = asyncio.ensure_future(turn.step("model:1", work.run, TEXT, rows=work.rows, kept=kept))
        await slow.reached.wait()
        stepping.cancel()
        await journal.knows("nothing")  # time enough for a cancellation that waits for nothing
        assert not stepping.done() and told == []
        slow.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await stepping
    assert (told, await count(database, COUNT_MESSAGES)) == (["outcome"], 1)


async def test_a_step_without_outcome_is_done_again(database: Database) -> None:
    journal, work = Journal(database), Work()
    await journal.submit(inbound(), "message")
    with pytest.raises(RuntimeError):
        await journal.new_turn(inbound(), "message").step("model:1", work.fail, TEXT)
    assert (await (await reopened(journal)).step("model:1", work.run, TEXT)).value == "outcome"
    assert work.times == 2


@pytest.mark.promise("P-tool-once")
async def test_a_step_that_may_run_once_is_never_begun_twice(database: Database) -> None:
    journal, work = Journal(database), Work()
    await journal.submit(inbound(), "message")
    turn = journal.new_turn(inbound(), "message")

    async def begin_and_fail() -> str:
        await turn.intend("tool:1")
        return await work.fail()

    with pytest.raises(RuntimeError):
        await turn.step("tool:1", begin_and_fail, TEXT, unknown=lambda: "unknown")
    for _ in range(2):
        step = await (await reopened(journal)).step("tool:1", work.run, TEXT, rows=work.rows, unknown=lambda: "unknown")
        assert step.value == "unknown"
    assert work.times == 1
    assert await count(database, COUNT_MESSAGES) == 1


async def test_a_step_that_was_cut_before_it_began_is_done(database: Database) -> None:
    journal, work = Journal(database), Work()
    await journal.submit(inbound(), "message")
    with pytest.raises(RuntimeError):
        await journal.new_turn(inbound(), "message").step("tool:1", work.fail, TEXT, unknown=lambda: "unknown")
    step = await (await reopened(journal)).step("tool:1", work.run, TEXT, unknown=lambda: "unknown")
    assert step.value == "outcome"


async def test_the_scratch_journal_goes_with_the_turn(database: Database) -> None:
    journal = Journal(database)
    await journal.submit(inbound(), "message")
    await journal.new_turn(inbound(), "message").step("model:1", Work().run, TEXT)
    await journal.end("telegram:1", 2.0, ())
    assert await count(database, COUNT_STEPS) == 0


async def test_a_stop_is_remembered_but_opens_no_ended_turn(database: Database) -> None:
    journal = Journal(database)
    await journal.submit(inbound(1), "message")
    await journal.submit(inbound(2), "message")
    await journal.mark_stopping("telegram:1")
    assert [turn.stopping for turn in await journal.open_turns()] == [True, False]
    await journal.end("telegram:1", 2.0, ())
    await journal.end("telegram:2", 2.0, ())
    await journal.mark_stopping("telegram:2")
    assert await journal.open_turns() == []


async def nobody(question: str) -> None:
    """Nobody is told."""


async def test_an_answer_reaches_a_parked_turn(database: Database) -> None:
    journal = Journal(database)
    await journal.submit(inbound(), "message")
    parked = asyncio.ensure_future(journal.new_turn(inbound(), "message").park("approve:1", "May I?", nobody))
    async with asyncio.timeout(10):
        while not await journal.answer("telegram:1", "approve:1", "yes"):
            pass
        assert await parked == "yes"
    assert not await journal.answer("telegram:1", "approve:1", "no"), "there is no question any more"


async def test_nobody_can_answer_what_was_not_asked(database: Database) -> None:
    journal = Journal(database)
    await journal.submit(inbound(), "message")
    await journal.new_turn(inbound(), "message").step("model:1", Work().run, TEXT)
    assert not await journal.answer("telegram:1", "model:1", "yes")
    assert not await journal.answer("telegram:2", "approve:1", "yes")


@pytest.mark.parametrize("when", ["before the restart", "before the turn asks again", "after the turn asks again"])
async def test_a_question_survives_a_restart(tmp_path: Path, when: str) -> None:
    async with open_database(tmp_path / "a.db") as database:
        journal = Journal(database)
        await journal.submit(inbound(), "message")
        parked = asyncio.ensure_future(journal.new_turn(inbound(), "message").park("approve:1", "May I?", nobody))
        while not await count(database, COUNT_STEPS):
            pass
        parked.cancel()
        if when == "before the restart":
            assert await journal.answer("telegram:1", "approve:1", "yes")
    async with open_database(tmp_path / "a.db") as database, asyncio.timeout(10):
        journal = Journal(database)
        turn = await reopened(journal)
        if when == "before the turn asks again":
            assert await journal.answer("telegram:1", "approve:1", "yes")
        asking = asyncio.ensure_future(turn.park("approve:1", "May I?", nobody))
        await asyncio.sleep(0)
        if when == "after the turn asks again":
            assert await journal.answer("telegram:1", "approve:1", "yes")
        assert await asking == "yes"
