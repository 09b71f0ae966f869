"""Calls run beside each other where that is safe, and wait for nothing else."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.specs import SideEffect
from goclaw.common.workspace import Workspace
from goclaw.tools.toolkit.scheduling import EVERYTHING, Access, ResourceUse, Scheduler, Slot, access_of, resolved, slots

PATHS = st.lists(st.sampled_from(["/w/a", "/w/b", "/w/d", "/w/d/c"]), max_size=2, unique=True).map(tuple)
ACCESSES = st.builds(
    ResourceUse,
    reads=PATHS | st.just((EVERYTHING,)),
    writes=PATHS,
    category=st.sampled_from(["", "", "", "shell", "network", "memory"]),
    orders=st.sampled_from([(), (), ("todos",), ("chat 1", "todos")]),
    alone=st.sampled_from([False, False, False, True]),
)


@dataclass
class Call:
    """A call that runs until it is told to end."""

    access: ResourceUse
    slot: Slot
    running: bool = False
    done: bool = False
    goes: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, scheduler: Scheduler) -> "Call":
        self.slot.declare(self.access)
        try:
            async with scheduler.running(self.slot):
                self.running = True
                await self.goes.wait()
            return self
        finally:
            self.running, self.done = False, True
            self.slot.end()


def calls_of(accesses: Sequence[ResourceUse]) -> list[Call]:
    """The calls of one answer."""
    return [Call(access, slot) for access, slot in zip(accesses, slots(len(accesses)), strict=True)]


async def quiet() -> None:
    """Until nobody can go on."""
    for _ in range(30):
        await asyncio.sleep(0)


def share(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two lists of paths have a place in common: written again, in another way than the scheduler does."""
    return any(Path(a).is_relative_to(b) or Path(b).is_relative_to(a) for a in one for b in other)


def clash(one: ResourceUse, other: ResourceUse) -> bool:
    """The table of "Conflict Rules" and what the issue adds to it."""
    if ResourceUse() in (one, other):
        return False
    return (
        one.alone
        or other.alone
        or (one.category == other.category and one.category in ("shell", "memory"))
        or (one.category == "shell" and other.writes != ())
        or (other.category == "shell" and one.writes != ())
        or share(one.writes, other.writes + other.reads)
        or share(one.reads, other.writes)
        or any(name in other.orders for name in one.orders)
    )


def judge(answers: Sequence[Sequence[Call]]) -> None:
    """Whoever may run runs, nobody else does."""
    running = [call for calls in answers for call in calls if call.running]
    for calls in answers:
        for place, call in enumerate(calls):
            before = [other for other in calls[:place] if not other.done and clash(other.access, call.access)]
            others = [
                other for other in running if other not in calls and share(other.access.writes, call.access.writes)
            ]
            if call.running:
                assert not before and not others, "runs beside what it conflicts with"
            elif not call.done:
                assert before or others, "waits for nothing"


@pytest.mark.promise("P-side-by-side")
@given(st.lists(st.lists(ACCESSES, max_size=4), min_size=1, max_size=3), st.randoms(use_true_random=False))
async def test_nothing_that_conflicts_overlaps_and_nobody_waits_without_need(
    wanted: list[list[ResourceUse]], chance: Random
) -> None:
    scheduler, answers = Scheduler(), [calls_of(accesses) for accesses in wanted]
    tasks = {id(call): asyncio.create_task(call.run(scheduler)) for calls in answers for call in calls}
    everyone = [call for calls in answers for call in calls]
    await quiet()
    while left := [call for call in everyone if not call.done]:
        judge(answers)
        call = chance.choice(left)
        if call.running and chance.random() < 0.8:
            call.goes.set()
        else:  # what waits frees the others, too
            tasks[id(call)].cancel()
        await quiet()
    assert not scheduler._writing
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.promise("P-one-result")
@given(st.lists(ACCESSES, max_size=5))
async def test_results_come_in_the_providers_order(accesses: list[ResourceUse]) -> None:
    calls = calls_of(accesses)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        tasks = [group.create_task(call.run(scheduler)) for scheduler in [Scheduler()] for call in calls]
        for call in calls:
            call.goes.set()
    assert [task.result() for task in tasks] == calls


@pytest.mark.promise("P-side-by-side")
@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (ResourceUse(reads=("/w/a",)), ResourceUse(reads=("/w/b",)), True),
        (ResourceUse(reads=("/w/a",)), ResourceUse(reads=("/w/a",)), True),
        (ResourceUse(reads=("/w/a",)), ResourceUse(writes=("/w/b",)), True),
        (ResourceUse(reads=("/w/a",)), ResourceUse(writes=("/w/a",)), False),
        (ResourceUse(reads=("/w",)), ResourceUse(writes=("/w/a",)), False),
        (ResourceUse(reads=("/w/ab",)), ResourceUse(writes=("/w/a",)), True),
        (ResourceUse(writes=("/w/a",)), ResourceUse(writes=("/w/a",)), False),
        (ResourceUse(category="shell"), ResourceUse(category="shell"), False),
        (ResourceUse(category="shell"), ResourceUse(reads=("/w/a",)), True),
        (ResourceUse(category="shell"), ResourceUse(writes=("/w/a",)), False),
        (ResourceUse(category="shell"), ResourceUse(category="network"), True),
        (ResourceUse(category="network"), ResourceUse(category="network"), True),
        (ResourceUse(category="memory"), ResourceUse(category="memory"), False),
        (ResourceUse(orders=("chat",)), ResourceUse(orders=("chat",)), False),
        (access_of(SideEffect.MUTATING), access_of(SideEffect.READ_ONLY), False),
        (access_of(SideEffect.READ_ONLY), access_of(SideEffect.READ_ONLY), True),
        (access_of(SideEffect.READ_ONLY), ResourceUse(writes=("/w/a",)), False),
        (access_of(SideEffect.MUTATING), ResourceUse(), True),
        (ResourceUse(category="shell"), ResourceUse(), True),
    ],
)
def test_the_table(one: ResourceUse, other: ResourceUse, together: bool) -> None:
    assert one.conflicts(other) is other.conflicts(one) is not together


async def test_a_call_whose_access_is_not_known_yet_holds_up_what_could_conflict() -> None:
    """Hooks may still change what an earlier call writes."""
    scheduler, (first, second, third) = Scheduler(), slots(3)
    second.declare(ResourceUse(reads=("/w/a",)))
    third.declare(ResourceUse())
    entered: list[Slot] = []

    async def enter(slot: Slot) -> None:
        async with scheduler.running(slot):
            entered.append(slot)

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(enter(second))
        group.create_task(enter(third))
        await quiet()
        assert entered == [third], "what holds nothing waits for nobody"
        first.declare(ResourceUse(writes=("/w/b",)))
        await quiet()
        assert entered == [third, second]


@pytest.mark.promise("P-side-by-side")
async def test_two_names_of_one_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "folder").mkdir()
    (tmp_path / "way").symlink_to("folder")
    async with Workspace(tmp_path) as workspace:
        names = ["a.txt", "./a.txt", "@a.txt", "link.txt", "folder/../a.txt", str(tmp_path / "a.txt")]
        there = await asyncio.to_thread(tmp_path.resolve)
        found = {(await resolved(ResourceUse(writes=(name,)), workspace)).writes for name in names}
        assert found == {(str(there / "a.txt"),)}
        below = await resolved(ResourceUse(reads=("way",), writes=("folder/new/b.txt",)), workspace)
        assert below.conflicts(ResourceUse(writes=below.reads))
        assert (await resolved(ResourceUse(reads=("way",)), workspace)).conflicts(
            await resolved(ResourceUse(writes=("folder/new.txt",)), workspace)
        )
        strange = ResourceUse(reads=("output:1", "\0", "../out", "x" * 10_000, ""), writes=("/",))
        assert (await resolved(strange, workspace)).writes == ("/",)


def test_tools_written_for_the_former_name_go_on_working() -> None:
    assert Access is ResourceUse
