"""The largest cost of a request is reserved while it runs: side by side, people overshoot by one request at most."""

import asyncio
import itertools
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from goclaw.common.config.values import PostgresPlace
from goclaw.conversation.turns.costs import Costs, reservation_of
from goclaw.durable.store.open import open_database
from goclaw.durable.store.spending import Reservation
from goclaw.errors import DiskError, ModelErrorKind
from goclaw.llm.base import Usage
from goclaw.tools.builtin.agent import agent
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from tests import house
from tests.conversation.sessions.agents import handing
from tests.conversation.turns.spenders import CAP, CLOCK, PROMPT, Call, costs_of, request
from tests.harness import Answer, World, before_the_next_look
from tests.lanes import repeats
from tests.parts import sql
from tests.postgres import Server, fresh_place, running

PERSONS = itertools.count()

CALLS = st.lists(
    st.builds(
        Call,
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(1, 100),
        st.sampled_from([0.0, 0.5, 2.0]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=2,
    max_size=10,
)


@asynccontextmanager
async def processes(place: Path | PostgresPlace, number: int) -> AsyncIterator[list[Costs]]:
    """What so many processes spend from; a file of SQLite has one."""
    async with AsyncExitStack() as stack:
        if isinstance(place, Path):
            yield [costs_of(await stack.enter_async_context(open_database(place, CLOCK)))] * number
            return
        opened = [await stack.enter_async_context(open_database(place, CLOCK)) for _ in range(number)]
        yield [costs_of(each) for each in opened]


async def check(ways: Sequence[Costs], calls: Sequence[Call]) -> None:
    """Make all requests at once, and look at the books."""
    people = [f"p{next(PERSONS)}" for _ in range(2)]
    named = [
        (ways[each.process], people[each.person], f"{people[0]}t{number}", each) for number, each in enumerate(calls)
    ]
    async with asyncio.timeout(30):
        ends = await asyncio.gather(*(request(*each) for each in named))
    for each in ways:
        await each.spending.store()  # behind what it wrote without waiting
    for number, person in enumerate(people):
        mine = [(call, end) for call, end in zip(calls, ends, strict=True) if call.person == number]
        spent = await ways[0].today(person)
        largest = max((PROMPT + call.answer for call, end in mine if end == "answered"), default=0)
        assert spent.requests == Counter(end for _, end in mine)["answered"]
        used = spent.input + spent.output
        assert used < CAP + largest, "more than one request went beyond"
        if any(end == "refused" for _, end in mine):
            assert used >= CAP, "refused though there was room"
        for each in ways:
            assert await each.reservations.of_person(person) == []
            assert each.reservations.own == {}


_OLD = "UPDATE reservations SET made_at = made_at - interval '11 s'"
_SEEN = "INSERT INTO replicas SELECT replica, 'x', '1', clock_timestamp(), clock_timestamp() FROM reservations"


def change(server: Server, place: PostgresPlace, statement: str) -> None:
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}", autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.mark.promise("P-daily-budget")
@pytest.mark.deep
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_side_by_side_and_in_any_process_one_request_at_most_goes_beyond(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = fresh_place(request.getfixturevalue("server")) if store == "postgres" else tmp_path / "goclaw.db"
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        ways = runner.run(stack.enter_async_context(processes(place, 3)))

        @settings(
            max_examples=repeats(12, 200),
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=[HealthCheck.too_slow],
            database=None,
        )
        @given(CALLS)
        def try_out(calls: list[Call]) -> None:
            runner.run(check(ways, calls))

        try:
            try_out()
        finally:
            runner.run(stack.aclose())


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_real_processes_of_which_one_is_killed_use_up_a_day_and_one_request_more_at_most(server: Server) -> None:
    place, most = fresh_place(server), 2_000
    async with processes(place, 1) as (books,):
        address = f"{place.url}?schema={place.schema}"
        command = (sys.executable, "-m", "tests.conversation.turns.spenders", address, "p")
        started = [
            await asyncio.create_subprocess_exec(*command, str(number), str(most), cwd=house.ROOT)
            for number in range(3)
        ]
        try:
            async with asyncio.timeout(120):
                while (await books.today("p")).requests < 3 or not await books.reservations.of_person("p"):
                    await before_the_next_look()
                started[0].kill()
                codes = [await each.wait() for each in started]
        finally:
            for each in started:
                if each.returncode is None:
                    each.kill()
        spent = await books.today("p")
    assert codes[1:] == [0, 0]
    assert most <= spent.input + spent.output < most + PROMPT + 100


async def test_a_request_waits_for_those_before_it_and_then_learns_whether_there_is_room(server: Server) -> None:
    async with processes(fresh_place(server), 2) as (one, two):
        before = asyncio.create_task(request(one, "p", "t1", Call(0, 0, 120, 5.0, fails=False)))
        while not await two.reservations.of_person("p"):
            await before_the_next_look()
        behind = asyncio.create_task(request(two, "p", "t2", Call(0, 1, 10, 0.0, fails=False)))
        other = await request(two, "q", "t3", Call(0, 1, 10, 0.0, fails=False))
        assert other == "answered" and not before.done() and not behind.done(), "one person does not wait for another"
        assert [line for _, line in await two.lines("p")] == [
            "0 of 150 tokens, up to 190 tokens more for running requests"
        ]
        assert await before == "answered"
        assert await behind == "answered", "140 of 150 tokens were used"
        assert await request(one, "p", "t4", Call(0, 0, 1, 0.0, fails=False)) == "refused"


async def test_a_reservation_of_a_process_that_is_gone_holds_up_no_one(server: Server) -> None:
    place = fresh_place(server)
    left = Reservation("t:model:1", "p", "p", "t", 1_000, 0.0)
    async with processes(place, 1) as (gone,):
        await gone.reservations.make(left)
    change(server, place, _OLD)
    async with processes(place, 1) as (here,):
        assert await here.reservations.of_person("p") == [left]
        async with asyncio.timeout(20):
            assert await request(here, "p", "t2", Call(0, 0, 1, 0.0, fails=False)) == "answered"
        assert await here.reservations.of_person("p") == []
        assert await request(here, "p", "t", Call(0, 0, 1, 0.0, fails=False)) == "answered"


async def test_a_reservation_of_a_process_that_lives_is_left_to_it(server: Server) -> None:
    place = fresh_place(server)
    async with processes(place, 2) as (one, two):
        await one.reservations.make(Reservation("t:model:1", "p", "p", "t", 1_000, 0.0))
        await two.reservations.end_the_dead()
        assert len(await two.reservations.of_person("p")) == 1, "it may be one that was not seen yet"
        change(server, place, _OLD)
        change(server, place, _SEEN)
        await two.reservations.end_the_dead()
        await two.prune()
        assert len(await two.reservations.of_person("p")) == 1
        one.reservations.leave("p")
        async with asyncio.timeout(20):
            while await two.reservations.of_person("p"):
                await before_the_next_look()


async def test_what_could_not_be_released_while_postgres_was_away_is_released_when_it_is_back() -> None:
    with running() as own:
        place = fresh_place(own)
        async with processes(place, 2) as (one, two), asyncio.timeout(40):
            await one.reservations.make(Reservation("t:model:1", "p", "p", "t", 1_000, 0.0))
            change(own, place, _SEEN)
            change(own, place, "UPDATE replicas SET seen_at = seen_at + interval '1 hour'")  # it goes on living
            await asyncio.to_thread(own.stop, signal.SIGQUIT)
            one.reservations.release("t:model:1")
            with pytest.raises(DiskError):
                await one.spending.store(sql("SELECT 1"))
            await asyncio.to_thread(own.start)
            assert await request(two, "p", "t2", Call(0, 1, 1, 0.0, fails=False)) == "answered"


async def test_a_request_that_another_process_makes_again_takes_the_reservation_over(server: Server) -> None:
    async with processes(fresh_place(server), 2) as (before, now):
        name = reservation_of("t", "model:1")
        await before.reservations.make(Reservation(name, "p", "p", "t", 1_000, 0.0))
        running = Reservation(name, "p", "p", "t", 100, 0.0)
        await now.reservations.make(running)
        before.reservations.release(name)  # the process that was paused goes on
        await before.spending.store()
        assert await now.reservations.of_person("p") == [running]


USED = Usage(input=3_000, output=1_000)


async def test_two_conversations_of_a_person_do_not_spend_the_same_rest_of_a_day(tmp_path: Path) -> None:
    answers = [Answer(text, usage=USED) for text in ("one", "two", "three")]
    world = World(tmp_path, answers, limits={"daily_tokens": 5_000})
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("first", chat="a")
        async with asyncio.timeout(20):
            await world.script.streaming.wait()
        await core.say("second", chat="b")
        while not world.clock.sleepers:
            await before_the_next_look()
        assert len(world.script.requests) == 1, "the rest of the day may be used up by the first one"
        assert "more for running requests" in await core.command("/status", chat="a")
        world.script.gate.set()
        await core.settled_in(world.clock)
        assert len(world.script.requests) == 2, "4,000 of 5,000 tokens leave room for one more"
        await core.say("third", chat="a")
        await core.settled()
        assert core.sessions.costs.reservations.own == {}
    said = world.texts()
    assert said[:2] == ["one", "two"] or "two" in said
    assert said[-1].startswith("I stopped: your requests today used 8,000 tokens; the limit is 5,000")


async def test_a_request_that_fails_or_is_stopped_leaves_its_share_to_others(tmp_path: Path) -> None:
    answers = [Answer(error=ModelErrorKind.REJECTED), Answer("never said"), Answer("well", usage=USED)]
    world = World(tmp_path, answers, limits={"daily_tokens": 5_000})
    async with world.running() as core:
        await core.say("one")
        await core.settled()
        assert core.sessions.costs.reservations.own == {}
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        await core.say("two")
        async with asyncio.timeout(20):
            await world.script.streaming.wait()
        assert core.sessions.costs.reservations.own
        await core.command("/stop")
        world.script.gate.set()
        await core.settled()
        assert core.sessions.costs.reservations.own == {}
        await core.say("three")
        await core.settled()
        assert core.sessions.costs.reservations.own == {}
    assert world.texts()[-1] == "well"


async def test_an_answer_that_is_stopped_while_a_hook_judges_it_leaves_its_share_to_others(tmp_path: Path) -> None:
    judging = asyncio.Event()

    async def judge(event: HookEvent) -> HookAnswer:
        judging.set()
        await asyncio.Event().wait()
        return HookAnswer()

    world = World(tmp_path, [Answer("never said", usage=USED)], limits={"daily_tokens": 5_000})
    world.hooks = Hooks([Registered("judge", frozenset({"message_out"}), judge)], None)
    async with world.running() as core:
        await core.say("hi")
        async with asyncio.timeout(20):
            await judging.wait()
        assert core.sessions.costs.reservations.own
        await core.command("/stop")
        await core.settled()
        assert core.sessions.costs.reservations.own == {}


async def test_agents_of_one_turn_do_not_spend_the_same_rest_of_it(tmp_path: Path) -> None:
    calls = tuple(handing(f"part {number}", f"c{number}") for number in range(4))
    answers = [
        Answer(calls=calls, usage=Usage(input=10, output=5), when="go"),
        Answer("done", usage=USED, when="part"),
        Answer("all done", usage=USED),
    ]
    world = World(tmp_path, answers, tools=[agent], limits={"turn_tokens": 5_000})
    async with world.running() as core:
        await core.say("go")
        await core.settled_in(world.clock)
        spent = await core.sessions.ports.store.spending.by_session()
    tokens = sum(each.input + each.output for _, each in spent)
    assert 5_000 <= tokens < 5_000 + 4_000, "of four agents at once two are answered"


async def test_where_nothing_is_limited_nothing_is_reserved(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("fine")])
    async with world.running() as core:
        made = list[str]()
        core.sessions.costs.reservations.make = lambda wanted: made.append(wanted.id)  # type: ignore[method-assign,assignment,return-value]  # would fail if it were awaited
        await core.say("hi")
        await core.settled()
    assert world.texts() == ["fine"] and made == []


async def test_no_summary_is_asked_for_once_the_day_is_spent_and_that_is_why(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("fine", usage=USED)], limits={"daily_tokens": 4_000})
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
        async with core.sessions.compactor.attempt("memory:here", aloud=False) as attempt:
            assert list(await attempt.summarizers()) == []
            assert attempt.no_source().startswith(
                "I could not summarise the conversation: your requests today used 4,000 tokens; the limit is 4,000"
            )
