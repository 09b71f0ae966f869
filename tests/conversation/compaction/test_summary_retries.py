"""Owed summaries: paid later, once, from the originals, and only where they are still wanted."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.bus import Bus
from goclaw.common.core.messages import UserMessage
from goclaw.common.core.supervise import background
from goclaw.conversation.compaction.summary_retries import MAX_PAUSE, SummaryRetries
from goclaw.conversation.sessions.state import Contexts
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.ownership import SoleOwner
from goclaw.errors import ModelErrorKind
from goclaw.llm.scripted import Answer, ScriptedModel, text_of
from tests.acceptance.waiting import eventually
from tests.conversation.sessions.long_life import flaws
from tests.conversation.sessions.looking import (
    HERE,
    SUMMARY,
    check_mirrors_the_store,
    notices,
    said,
    talk,
    until_asleep,
    until_noticed,
    window_of,
)
from tests.harness import OWNER, PATIENCE, Core, World
from tests.kills import recorded
from tests.parts import sql

DOWN = Answer(error=ModelErrorKind.NETWORK, message="nobody answers")
PAID = "The delayed summary is now written (LLM)."


class DebtWorld(World):
    """A conversation whose summary nobody could write: the main model has only answers, the clerk is down."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.clerk = ScriptedModel(rest=DOWN)
        answers = [Answer(f"answer {number}", when=f"question {number}.") for number in range(40)]
        super().__init__(folder, answers, summary=self.clerk, **config)

    def mend(self, answer: Answer | None = None) -> None:
        """The clerk is well again (or as `answer` says)."""
        self.clerk.rest = answer or Answer(SUMMARY)


async def owing(core: Core, first: int = 0, count: int = 10) -> None:
    """Talk, and compact with nobody to summarise."""
    await talk(core, *(f"question {number}." for number in range(first, first + count)), "/compact")
    assert (await window_of(core)).owed
    await check_mirrors_the_store(core)


@pytest.mark.promise("P-context-fits")
async def test_a_stub_is_replaced_when_a_model_is_well_again(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        stub = (await window_of(core)).summary
        assert stub == "12 earlier messages are not shown here, and no summary of them could be made yet."
        assert "  Pending retries: 1" in await core.command("/status")
        world.mend()
        await core.sessions.summary_retries.retry_due()
        await check_mirrors_the_store(core)
        window = await window_of(core)
        assert (window.summary, window.owed) == (SUMMARY, False)
        assert "  Pending retries: 0" in await core.command("/status")
        assert (await core.gateway.status(HERE, OWNER))["compactions"] == 1, "a payment is no compaction of its own"
        assert notices(core)[-1] == PAID
        assert len(await core.messages()) == 20
        await talk(core, "question 20.")
    last = said(world.script.requests[-1])
    assert SUMMARY in last and "not shown here" not in last and flaws(world.script.requests[-1].messages) == []


async def test_what_is_summarised_is_the_originals_with_who_said_what_and_when(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        world.mend()
        await core.sessions.summary_retries.retry_due()
    question = text_of(world.clerk.requests[-1].messages[0])
    for number in range(6):
        assert f"question {number}.\n" in question and f"answer {number}\n" in question
    assert "question 6." not in question, "what is still shown needs no summary"
    assert "Here via memory" in question and "not shown here" not in question


async def test_it_is_paid_after_a_restart_by_the_task_that_looks_every_minute(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
    world.mend()
    async with world.running() as core:
        await core.turns.restore()
        async with background(core.sessions.summary_retries.run(), "debts"):
            await until_asleep(world.clock)
            world.clock.advance(59)
            await until_asleep(world.clock)
            assert len(world.clerk.requests) == 1, "not before a minute has passed"
            async with until_noticed(core, PAID):
                world.clock.advance(1)
        await check_mirrors_the_store(core)
        assert (await window_of(core)).summary == SUMMARY


async def test_never_twice_at_once(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        world.mend()
        asked = len(world.clerk.requests)
        await asyncio.gather(*(core.sessions.summary_retries.retry_due() for _ in range(3)))
        assert len(world.clerk.requests) == asked + 1
        assert notices(core).count(PAID) == 1


@pytest.mark.promise("P-context-fits")
async def test_two_emergencies_are_one_stub_and_one_payment_of_all_originals(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        world.clerk.rest = DOWN
        await owing(core, first=10)
        assert (await window_of(core)).summary.startswith("29 earlier messages are not shown here")
        assert (await core.gateway.status(HERE, OWNER))["pending_retries"] == 1
        world.mend()
        world.clock.advance(3_600)
        await core.sessions.summary_retries.retry_due()
        await check_mirrors_the_store(core)
    question = text_of(world.clerk.requests[-1].messages[0])
    assert all(f"question {number}.\n" in question for number in range(14))


async def test_the_summary_before_the_stub_is_read_and_kept_until_then(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        world.mend()
        await talk(core, *(f"question {number}." for number in range(6)), "/compact")
        world.mend(DOWN)
        await owing(core, first=6)
        summary = (await window_of(core)).summary
        assert summary.startswith(f"{SUMMARY}\n\n") and "earlier messages are not shown here" in summary
        world.mend()
        await core.sessions.summary_retries.retry_due()
        await check_mirrors_the_store(core)
    question = text_of(world.clerk.requests[-1].messages[0])
    assert f"Summary of what came before:\n{SUMMARY}" in question and "question 0." not in question


@pytest.mark.parametrize("meanwhile", ["/clear", "/compact", "a stub"])
async def test_what_the_context_has_moved_on_from_is_not_put_into_it(tmp_path: Path, meanwhile: str) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        world.mend()
        gate = world.clerk.gate = asyncio.Event()
        world.clerk.streaming.clear()
        paying = asyncio.create_task(core.sessions.summary_retries.retry_due())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
        world.clerk.gate = None
        if meanwhile == "/clear":
            await core.command("/clear")
        else:
            if meanwhile == "a stub":
                world.mend(DOWN)
            else:
                world.mend(Answer(f"Newer: {SUMMARY}"))
            await talk(core, *(f"question {number}." for number in range(10, 16)), "/compact")
        window = await window_of(core)
        before = (window.summary, window.owed)
        gate.set()
        async with asyncio.timeout(PATIENCE):
            await paying
        assert (window.summary, window.owed) == before
        assert PAID not in notices(core)
        await check_mirrors_the_store(core)
        assert (await core.gateway.status(HERE, OWNER))["pending_retries"] == (1 if meanwhile == "a stub" else 0)


async def test_messages_that_come_while_it_is_paid_are_answered_and_kept(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        world.mend()
        gate = world.clerk.gate = asyncio.Event()
        world.clerk.streaming.clear()
        paying = asyncio.create_task(core.sessions.summary_retries.retry_due())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
        await talk(core, "question 20.")
        assert world.texts()[-1] == "answer 20", "nobody waits for it"
        gate.set()
        async with asyncio.timeout(PATIENCE):
            await paying
        await check_mirrors_the_store(core)
        await talk(core, "question 21.")
        await check_mirrors_the_store(core)
    last = said(world.script.requests[-1])
    assert SUMMARY in last and "question 20." in last


async def test_who_fails_again_and_again_is_asked_less_and_less(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        asked = []
        for _ in range(4 * 60):
            before = len(world.script.requests)
            await core.sessions.summary_retries.retry_due()
            asked.append(len(world.script.requests) > before)
            world.clock.advance(60)
        minutes = [minute for minute, was in enumerate(asked) if was]
    assert minutes[:5] == [0, 1, 3, 7, 15], "the main model costs money"
    assert minutes[-1] - minutes[-2] == MAX_PAUSE / 60


async def test_a_full_disk_does_not_make_it_pay_for_the_same_summary_every_minute(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        world.mend()
        asked = len(world.clerk.requests)
        core.database.full = True
        for _ in range(10):
            await core.sessions.summary_retries.retry_due()
            world.clock.advance(60)
        assert len(world.clerk.requests) - asked == 4
        assert (await window_of(core)).owed
        core.database.full = False
        world.clock.advance(3_600)
        await core.sessions.summary_retries.retry_due()
        await check_mirrors_the_store(core)
        assert (await window_of(core)).summary == SUMMARY


async def test_with_nobody_to_ask_it_waits_and_pays_as_soon_as_there_is_somebody(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        world.script.spec = "demo"
        for _ in range(2):
            world.clock.advance(3_600)
            await core.sessions.summary_retries.retry_due()
        assert core.sessions.compactor.health.degraded
        asked = len(world.clerk.requests)
        for _ in range(10):
            await core.sessions.summary_retries.retry_due()
            world.clock.advance(60)
        assert len(world.clerk.requests) == asked
        world.mend()
        world.clock.advance(30 * 60)
        await core.sessions.summary_retries.retry_due()
        assert (await window_of(core)).summary == SUMMARY


@pytest.mark.promise("P-context-fits")
async def test_kills_at_every_write_of_a_payment_leave_it_owed_or_paid(tmp_path: Path) -> None:
    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
    world.mend()

    async def paying(core: Core) -> None:
        await core.sessions.summary_retries.retry_due()

    moments = await recorded(world, paying)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await check_mirrors_the_store(core)
                world.clock.advance(3_600)
                await core.sessions.summary_retries.retry_due()
                await check_mirrors_the_store(core)
                assert (await window_of(core)).summary == SUMMARY
                assert await core.sessions.summary_retries.count() == 0
                assert sum(isinstance(message, UserMessage) for message in await core.messages()) == 10
    assert moments[-1].write >= 2, "every write was tried"


async def test_each_source_gets_the_full_time_when_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float | None] = []
    timeout = asyncio.timeout

    def watched(delay: float | None) -> asyncio.Timeout:
        given.append(delay)
        return timeout(delay)

    world = DebtWorld(tmp_path)
    async with world.running() as core:
        await owing(core)
        monkeypatch.setattr("goclaw.conversation.agent.context.compaction.asyncio.timeout", watched)
        world.clock.advance(3_600)
        await core.sessions.summary_retries.retry_due()
    assert given.count(600.0) == 2, "the summary model and the main model"


class OwnerOfNone(SoleOwner):
    """The ownership of a process that works on no session; `told` has what it announces."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def fence_of(self, session: str) -> None:  # type: ignore[override]  # as one of several processes has it
        return None

    def announce(self, topic: str, words: str) -> list[BoundStatement]:
        self.told.append(words)
        return [sql("SELECT 1")]


def of_another_process(core: Core, told: list[str]) -> SummaryRetries:
    """Those of a process that has the duty, and does not work on the session: its own memory, the same store."""
    ours = core.sessions.summary_retries
    clock = ours.ports.clock
    contexts = Contexts(ours.ports.transcripts, ours.ports.stored, clock)
    ports = replace(ours.ports, contexts=contexts, bus=Bus(clock))
    return SummaryRetries(ports, replace(ours.compactor, ports=ports), OwnerOfNone(told))


@pytest.mark.promise("P-context-fits")
async def test_what_another_process_pays_is_shown_by_the_one_that_works_on_the_session(tmp_path: Path) -> None:
    world, told = DebtWorld(tmp_path), list[str]()
    async with world.running() as core:
        await owing(core)
        world.mend()
        elsewhere, ours = of_another_process(core, told), core.sessions.summary_retries
        await elsewhere.retry_due()
        assert told == [HERE] and elsewhere.ports.contexts.find(HERE) is None, (
            "nothing is kept of what changes elsewhere"
        )
        assert (await window_of(core)).owed and PAID not in notices(core)
        async with background(ours.follow(), "summaries"), until_noticed(core, PAID):
            ours.on_missed_summaries()
        window = await window_of(core)
        assert (window.summary, window.owed) == (SUMMARY, False)
        await check_mirrors_the_store(core)
        async with background(ours.follow(), "summaries"):
            ours.on_summary(HERE)
            ours.on_summary("telegram:7")
            await eventually(lambda: not ours._written)
        assert notices(core).count(PAID) == 1


async def test_what_two_processes_pay_at_once_is_kept_once_and_not_after_a_clear(tmp_path: Path) -> None:
    world, told = DebtWorld(tmp_path), list[str]()
    async with world.running() as core:
        await owing(core)
        world.mend()
        ours = core.sessions.summary_retries
        await asyncio.gather(ours.retry_due(), of_another_process(core, told).retry_due())
        await check_mirrors_the_store(core)
        rows = await core.database.read(sql("SELECT count(*) FROM compactions WHERE pays IS NOT NULL"))
        assert rows[0][0] == 1
        world.clerk.rest = DOWN
        await owing(core, first=10)
        [(_, owed)] = await ours.ports.transcripts.list_missing_summaries()
        await core.command("/clear")
        assert not await ours.ports.transcripts.replace_stub(HERE, replace(owed, retry_owed=False, id=0, pays=owed.id))
