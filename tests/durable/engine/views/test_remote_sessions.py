"""Readers of one process follow a session that another process owns: every word, in order, none twice."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import (
    LOCAL,
    Address,
    MessageStored,
    Notice,
    Outcome,
    Question,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    StreamRestarted,
    TextStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.fencing import under_fence
from goclaw.common.core.replay_buffer import NOWHERE
from goclaw.durable.engine.views import remote_sessions
from goclaw.durable.store.replicas import Watch
from goclaw.errors import DiskError, DiskFault
from tests.acceptance.waiting import clock, eventually, never
from tests.durable.engine.buses import Reader, cut_listener, processes
from tests.parts import sql
from tests.postgres import Server, fresh_place


@pytest.fixture(autouse=True)
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_sessions, "STATE_SECONDS", 20.0)  # an owner on a busy machine is waited for
    monkeypatch.setattr(remote_sessions, "RENEW_SECONDS", 0.5)


@pytest.fixture
def no_owner(times: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is read that none owns: its state is asked for in vain."""
    monkeypatch.setattr(remote_sessions, "STATE_SECONDS", 0.5)


async def test_a_reader_elsewhere_has_every_word_of_an_answer_and_its_row(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        await b.take()
        async with Reader(a).reading() as reader:
            await b.begin()
            for number in range(50):
                b.stream(f"{number} ")
                if number % 10 == 0:
                    await asyncio.sleep(0)
            whole = "".join(f"{number} " for number in range(50))
            await eventually(lambda: reader.text == whole)
            await b.store(whole)
            await b.end(whole)
            await eventually(lambda: reader.turn == "" and reader.rows)
            assert reader.texts == [whole]
            kinds = [type(event) for event in reader.events if not isinstance(event, TextStreamed)]
            assert kinds == [TurnStarted, MessageStored, TurnFinished]
            assert reader.events[-1] == TurnFinished("t", "s", Outcome.ANSWERED, whole)


async def test_who_comes_in_mid_answer_has_what_was_streamed_and_then_the_rest(place: PostgresPlace) -> None:
    async with processes(place, 3) as (a, b, c):
        await b.take()
        await b.begin()
        b.stream("one ")
        async with Reader(a).reading() as first:
            assert (first.turn, first.text) == ("t", "one "), "the state, and no event"
            b.stream("two ")
            async with Reader(c).reading() as second, Reader(a).reading() as third:
                assert second.text == "one two "
                b.stream("three ")
                await eventually(lambda: {reader.text for reader in (first, second, third)} == {"one two three "})
                assert not [event for event in third.events if not isinstance(event, TextStreamed)]


@pytest.mark.usefixtures("no_owner")
async def test_an_owner_without_readers_elsewhere_sends_nothing(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        await b.take()
        sent = list[object]()
        b.exchange.send = sent.append  # type: ignore[method-assign,assignment]  # it fails if it is awaited
        async with Reader(b).reading() as reader, Reader(a, "other").reading():
            await b.begin()
            b.stream("words")
            await b.store("words")
            await b.end("words")
            await eventually(lambda: reader.texts == ["words"])
        assert sent == []


async def test_questions_and_todos_are_those_of_the_owner(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        one, two = (Question(id, "question", "ann", "Which?", "Which one?", ("x", "y")) for id in ("q1", "q2"))
        b.questions = (one,)
        async with Reader(a).reading() as reader:
            assert reader.questions == ["q1"]
            b.questions, b.todos = (two,), (Todo("work"),)  # as its state has them, which may be asked for once more
            b.bus.publish(QuestionAnswered("t", "s", "q1", "x", "ann"))
            b.bus.publish(QuestionAsked("t", "s", two))
            b.bus.publish(TodosChanged("t", "s", b.todos))
            await eventually(lambda: len(reader.events) == 3)
            state = await a.bus.state("s")
            assert state is not None and state.questions == (two,) and state.todos == b.todos


async def test_what_is_longer_than_a_notice_comes_whole(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        long = "wörter und 𝔴𝔬𝔯𝔡𝔰 " * 5_000
        b.stream(long)
        async with Reader(a).reading() as reader:
            assert reader.text == long
            finished = ToolFinished("t", "s", "c", "exec", long, is_error=False, seconds=1.0)
            b.bus.publish(finished)
            b.stream(long)
            await eventually(lambda: reader.text == long + long)
            assert reader.events[0] == finished


async def test_equal_pieces_are_all_shown(place: PostgresPlace) -> None:
    """Postgres sends equal notices of one transaction once."""
    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        async with Reader(a).reading() as reader:
            for _ in range(5):
                b.stream("ha ")
                b.bus.publish(Notice("s", "again", "t"))
            await eventually(lambda: reader.text == "ha " * 5 and reader.events[-1:] == [Notice("s", "again", "t")])
            assert sum(isinstance(event, Notice) for event in reader.events) == 5


@pytest.mark.promise("P-views-anywhere")
async def test_another_owner_goes_on_and_the_answer_begins_anew(place: PostgresPlace) -> None:
    async with processes(place, 3) as (a, b, c):
        await b.take()
        await b.begin()
        async with Reader(a).reading() as reader, Reader(c).reading() as at_c:
            b.stream("the begin")
            await eventually(lambda: reader.text == at_c.text == "the begin")
            # b is dead: it says nothing, and c takes its session over.
            await c.take()
            await eventually(lambda: reader.text == at_c.text == "")
            assert reader.turn == at_c.turn == "t", "it is still to be answered"
            await c.begin()
            c.stream("the beginning")
            b.stream("a late word of the dead one")
            await eventually(lambda: reader.text == at_c.text == "the beginning")
            await c.store("the beginning")
            await c.end("the beginning")
            await eventually(lambda: reader.turn == at_c.turn == "")
            assert reader.texts == at_c.texts == ["the beginning"]


@pytest.mark.promise("P-views-anywhere")
async def test_what_a_dead_owner_has_stored_and_not_told_is_shown_by_the_next_one(place: PostgresPlace) -> None:
    async with processes(place, 3) as (a, b, c):
        await b.take()
        await b.begin()
        async with Reader(a).reading() as reader, Reader(c).reading() as at_c:
            b.stream("answer")
            await eventually(lambda: reader.text == at_c.text == "answer")
            await b.store("answer", told=False)
            await b.end(told=False)
            await c.take()
            await eventually(lambda: reader.turn == at_c.turn == "")
            for each in (reader, at_c):
                assert each.texts == ["answer"]
                assert each.events[-1] == TurnFinished("t", "s", Outcome.ANSWERED, "answer")


async def test_a_turn_that_ended_without_a_word_does_not_run_for_ever(place: PostgresPlace) -> None:
    """No owner comes any more: the session has nothing to do."""
    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        async with Reader(a).reading() as reader:
            b.stream("answer")
            await eventually(lambda: reader.text)
            await b.store("answer", told=False)
            await b.end(told=False)
            await eventually(lambda: reader.turn == "" and reader.texts == ["answer"])


@pytest.mark.promise("P-views-anywhere")
async def test_after_a_break_of_the_connection_nothing_is_missing_and_nothing_double(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        async with Reader(a).reading() as reader:
            b.stream("one ")
            await eventually(lambda: reader.text == "one ")
            await cut_listener(a)
            b.stream("two ")
            first = await b.store("one two ")
            b.stream("three ")
            await eventually(lambda: reader.text == "three ")
            b.stream("four ")
            await eventually(lambda: reader.text == "three four ")
            assert [row.row for row in reader.rows] == [first.row]
            await cut_listener(b)
            b.stream("five ")
            await eventually(lambda: reader.text == "three four five ")
            assert StreamRestarted not in map(type, reader.events)


async def test_an_outage_of_postgres_is_made_up_for(own_server: Server) -> None:
    async with processes(fresh_place(own_server)) as (a, b):
        await b.take()
        await b.begin()
        async with Reader(a).reading() as reader:
            b.stream("one ")
            await eventually(lambda: reader.text == "one ")
            own_server.stop()
            b.stream("two ")
            await never(lambda: reader.text != "one ", 0.3)
            own_server.start()
            b.stream("three ")
            await eventually(lambda: reader.text == "one two three ", 40)


@pytest.mark.usefixtures("no_owner")
async def test_a_notice_for_admins_reaches_those_of_other_processes(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        async with Reader(a).reading() as at_a, Reader(b, "other").reading() as at_b:
            b.bus.notice("the disk is full")
            await eventually(lambda: at_a.events and at_b.events)
            for reader, session in ((at_a, "s"), (at_b, "other")):
                assert reader.events == [Notice(session, "the disk is full", for_admins=True)]
            b.bus.notice("let me in", code="CODE")
            await eventually(lambda: len(at_a.events) == len(at_b.events) == 2)
            assert at_a.events[1] == Notice("s", "let me in", for_admins=True, code="CODE")


async def test_a_line_from_a_process_that_is_not_the_owner_reaches_all_readers(place: PostgresPlace) -> None:
    async with processes(place, 3) as (a, b, c):
        await b.take()
        async with Reader(a).reading() as at_a, Reader(b).reading() as at_b:
            c.bus.publish(Notice("s", "done"))
            await eventually(lambda: at_a.events == at_b.events == [Notice("s", "done")])


async def test_a_question_that_belongs_to_no_turn_reaches_all_readers_from_any_process(place: PostgresPlace) -> None:
    asked = QuestionAsked("", "s", Question("a1", "approval", "s", "Ann wants to write to you.", ""))
    answered, of_a_turn = QuestionAnswered("", "s", "a1", "allow", "s"), QuestionAnswered("t", "s", "q", "")
    async with processes(place, 3) as (a, b, c):
        await b.take()
        async with Reader(a).reading() as at_a, Reader(b).reading() as at_b:
            for event in (asked, of_a_turn, answered):
                c.bus.publish(event)
            await eventually(lambda: at_a.events == at_b.events == [asked, answered])


@pytest.mark.usefixtures("no_owner")
async def test_every_process_hears_that_a_session_is_forgotten(place: PostgresPlace) -> None:
    async with processes(place, 3) as (a, b, c):
        heard = list[str]()
        c.bus.watch(SessionForgotten, lambda event: heard.append(event.session))
        async with Reader(a).reading() as reader, c.bus.subscribe(None) as everything:
            await b.take()
            b.bus.publish(SessionForgotten("s"))
            await eventually(lambda: reader.events and heard)
            assert reader.events == [SessionForgotten("s")] and heard == ["s"]
            async with asyncio.timeout(20):
                assert await anext(everything) == SessionForgotten("s")


@pytest.mark.usefixtures("no_owner")
async def test_that_a_session_is_forgotten_is_told_once_also_where_it_is_read(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        async with Reader(a).reading() as reader, a.bus.subscribe(None) as everything:
            await b.take()
            await b.begin()
            await eventually(lambda: reader.turn == "t")
            b.bus.publish(SessionForgotten("s"))
            b.bus.publish(Notice("s", "the last"))
            await eventually(lambda: Notice("s", "the last") in reader.events)
            assert reader.events[-2:] == [SessionForgotten("s"), Notice("s", "the last")]
            assert reader.events.count(SessionForgotten("s")) == 1
            async with asyncio.timeout(20):
                assert await anext(everything) == SessionForgotten("s")


async def test_two_readers_who_come_at_once_have_no_row_twice_when_the_look_of_one_is_slow(
    place: PostgresPlace,
) -> None:
    async with processes(place) as (a, b):
        await b.take()
        first, second, slow = Reader(a), Reader(a), asyncio.Event()
        looked = list[int]()
        last_row = a.remote._stored.last_row

        async def slow_once(session: str) -> int:
            row = await last_row(session)
            looked.append(row)
            if len(looked) == 2:
                await slow.wait()
            return row

        a.remote._stored.last_row = slow_once  # type: ignore[method-assign]  # the moment cannot be met otherwise
        async with AsyncExitStack() as stack:
            coming = [asyncio.ensure_future(stack.enter_async_context(each.reading())) for each in (first, second)]
            await eventually(lambda: len(looked) == 2 and any(each.done() for each in coming))
            came = first if coming[0].done() else second
            await b.begin()
            await b.store("one")
            await eventually(lambda: came.texts == ["one"])
            slow.set()
            await asyncio.gather(*coming)
            await b.store("two")
            await eventually(lambda: first.texts[-1:] == second.texts[-1:] == ["two"])
            assert first.texts == second.texts == ["one", "two"]


async def test_an_owner_learns_of_readers_also_where_the_first_look_for_them_fails(place: PostgresPlace) -> None:
    async with processes(place, 3) as (a, b, c):
        await b.take()
        async with Reader(a).reading() as reader:
            await b.begin()
            await eventually(lambda: reader.turn == "t")
            c.remote._remote.remove("s", a.exchange.replica)  # it was away when that was told
            watches, refused = c.exchange.watches, list[str]()

            async def refused_once() -> Sequence[Watch]:
                if not refused:
                    refused.append("once")
                    raise DiskError("too many connections", DiskFault.UNREACHABLE)
                return await watches()

            c.exchange.watches = refused_once  # type: ignore[method-assign]  # Postgres is full at that moment
            await cut_listener(c)
            await eventually(lambda: refused)
            b.remote.on_release("s")
            await c.take()
            await c.begin()
            c.stream("words")
            await eventually(lambda: reader.text == "words")


async def test_subscribers_of_all_sessions_and_counts_see_what_their_own_process_does(place: PostgresPlace) -> None:
    async with processes(place) as (a, b):
        counted = list[TurnStarted]()
        a.bus.watch(TurnStarted, counted.append)
        await b.take()
        async with Reader(a).reading() as reader, a.bus.subscribe(None) as everything:
            await b.begin()
            await eventually(lambda: reader.turn == "t")
            a.bus.publish(TurnStarted("u", "mine", Address(LOCAL, "mine")))
            async with asyncio.timeout(20):
                assert (await anext(everything)).turn == "u"
            assert [event.turn for event in counted] == ["u"]


@pytest.mark.promise("P-views-anywhere")
async def test_a_client_that_comes_back_to_another_process_reads_the_rows_and_has_nothing_twice(
    place: PostgresPlace,
) -> None:
    async with processes(place, 3) as (a, b, c):
        await b.take()
        await b.begin()
        reader = Reader(a)
        async with reader.reading("me", NOWHERE):
            await b.store("first")
            b.stream("sec")
            await eventually(lambda: reader.text == "sec" and reader.texts == ["first"])
        b.stream("ond")
        reader.process = c
        async with reader.reading("me", reader.position):
            assert not reader.went_on
            assert reader.text == "second" and reader.texts == ["first"]
            await b.store("second")
            await eventually(lambda: reader.texts == ["first", "second"])
        b.stream("third")
        again = reader.reading("me", reader.position)
        async with again:
            await eventually(lambda: reader.text == "third")
        assert [reader.went_on] == [True], "this one kept what it missed"


async def test_a_session_that_nobody_reads_any_more_is_not_sent(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_sessions, "GRACE_SECONDS", 0.1)
    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        reader = Reader(a)
        async with reader.reading("me"):
            b.stream("one ")
            await eventually(lambda: reader.text == "one ")
        await eventually(lambda: not b.remote._remote._told and not a.remote._mirrors)
        assert not b.remote._remote.are_there
        b.stream("two ")
        async with reader.reading("me", reader.position):
            assert not reader.went_on, "what came meanwhile was heard by no one here"
            assert reader.text == "one two "


async def test_what_could_not_be_sent_is_told_again(place: PostgresPlace) -> None:
    async def refused(messages: object) -> None:
        raise DiskError("Postgres is away", DiskFault.UNREACHABLE)

    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        async with Reader(a).reading() as reader:
            b.stream("one ")
            await eventually(lambda: reader.text == "one ")
            send = b.exchange.send
            b.exchange.send = refused  # type: ignore[method-assign]  # for as long as its connection is away
            b.stream("two ")
            await never(lambda: reader.text != "one ", 0.3)
            b.exchange.send = send  # type: ignore[method-assign]  # it is there again
            b.stream("three ")
            await eventually(lambda: reader.text == "one two three ")


async def test_a_watch_of_a_process_that_died_ends(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    async with processes(place) as (a, b):
        await b.take()
        await b.database.write(
            sql("INSERT INTO session_watches VALUES ('s', 'dead', clock_timestamp() + make_interval(secs => 60))")
        )
        async with Reader(a).reading():
            await eventually(lambda: b.remote._remote._told.get("s") == frozenset({"dead", a.exchange.replica}))
            await b.database.write(sql("UPDATE session_watches SET until = clock_timestamp() WHERE replica = 'dead'"))
            await eventually(lambda: b.remote._remote._told.get("s") == frozenset({a.exchange.replica}))
            async with asyncio.timeout(10):
                while await b.database.read(sql("SELECT 1 FROM session_watches WHERE replica = 'dead'")):
                    await clock.sleep(0.05)


async def test_a_row_that_is_stored_and_not_published_yet_is_not_shown_twice(place: PostgresPlace) -> None:
    """The owner has streamed a whole answer, and is between its commit and its event, when a reader comes."""
    async with processes(place) as (a, b):
        await b.take()
        await b.begin()
        b.stream("whole answer")
        event = await b.store("whole answer", told=False)
        async with Reader(a).reading() as reader:
            b.bus.publish(event)
            await eventually(lambda: reader.text == "")
            assert reader.texts == ["whole answer"]


@pytest.mark.parametrize("begins_first", [True, False])
async def test_the_session_of_an_agent_is_told_by_the_owner_of_its_person_s(
    place: PostgresPlace, *, begins_first: bool
) -> None:
    session = "s/agent:helper"
    begun = TurnStarted("t:agent:helper", session, Address(LOCAL, session))
    async with processes(place, 3) as (a, b, c):
        fence = await b.take()
        await b.begin()
        with under_fence(fence):
            if begins_first:
                b.bus.publish(begun)
            async with Reader(a, session).reading() as reader, Reader(c, session).reading() as at_c:
                if not begins_first:
                    b.bus.publish(begun)
                b.bus.publish(TextStreamed("t:agent:helper", session, "working"))
                await eventually(lambda: reader.text == at_c.text == "working")
                fence = await c.take()
                await eventually(lambda: at_c.text == "")
                with under_fence(fence):
                    c.bus.publish(begun)
                    c.bus.publish(TextStreamed("t:agent:helper", session, "again"))
                await eventually(lambda: reader.text == at_c.text == "again")


async def test_the_session_of_a_job_is_told_by_its_own_owner_and_not_by_its_person_s(place: PostgresPlace) -> None:
    session = "s/agent:program.0123"
    async with processes(place, 3) as (a, b, c):
        await c.take("s")
        await b.take(session)
        async with Reader(a, session).reading() as reader, Reader(c, session).reading() as at_c:
            await b.begin("job", session)
            b.stream("words", session)
            await eventually(lambda: reader.text == at_c.text == "words")
            await b.store("words", session)
            await b.end("words", session)
            await eventually(lambda: reader.turn == at_c.turn == "" and reader.texts == at_c.texts == ["words"])
