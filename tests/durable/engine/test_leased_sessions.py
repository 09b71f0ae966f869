"""Two processes on one schema of Postgres: a conversation goes on in one of them, and in the other when that is gone.

The processes are two engines of this one; what a pause of a process does to others is done to the store instead.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.channels.processes import SoleProcess
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.bus import Bus
from goclaw.common.core.events import Address, Delivery, Inbound, SessionNow
from goclaw.common.core.fencing import AUTHORITY, Authority, Fence
from goclaw.common.core.supervise import background, ends_within
from goclaw.durable.engine import session_work
from goclaw.durable.engine.base import PreparedStep, Turn, TurnHandler
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import Lanes, open_lanes
from goclaw.durable.engine.leased_sessions import LeasedSessions
from goclaw.durable.engine.leases import HeldSessions
from goclaw.durable.engine.outbox import Outbox, open_outbox
from goclaw.durable.engine.views.remote_sessions import RemoteSessions
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.exchange import PostgresExchange
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.errors import DeliveryError, StateError
from tests.acceptance.waiting import PATIENCE, clock, eventually, never
from tests.durable.engine.house import EVERYWHERE, inbound
from tests.parts import sql
from tests.postgres import STALL

Act = Callable[[Turn], Awaitable[str]]
LINGER = 0.3


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_work, "LINGER_SECONDS", LINGER)


class Replica:
    """One process's engine."""

    def __init__(self, room: Room, act: Act) -> None:
        self.room = room
        self.act = act
        self.acted: list[str] = []
        self.taken: list[str] = []
        self.left: list[str] = []
        self.prepared: list[str] = []
        """Messages whose first step was known when they came in."""
        self.ordered: list[str] = []
        self.refusals: list[StateError] = []
        """What the store says when a session's memory is to be read."""
        self.obey: Callable[[str, str], Awaitable[str]] = obey
        self.database: PostgresDatabase
        self.ownership: PostgresOwnership
        self.lanes: Lanes
        self.held: HeldSessions
        self.outbox: Outbox
        self.sessions: LeasedSessions

    async def handle(self, turn: Turn) -> Sequence[Delivery]:
        self.acted.append(turn.id)
        return [
            Delivery(f"{turn.id}:deliver:1", turn.inbound.address, await self.act(turn), session=turn.inbound.session)
        ]

    async def failed(self, turn: Turn, error: Exception) -> Sequence[Delivery]:
        raise error

    async def reload(self, session: str) -> None:
        self.taken.append(session)
        if self.refusals:
            raise self.refusals.pop()

    def leave(self, session: str) -> None:
        self.left.append(session)

    async def restore(self) -> None:
        raise AssertionError("another process owns sessions, too")

    async def inspect(self, session: str) -> SessionNow:
        return SessionNow()

    async def compare_folders(self) -> None:
        """There are none."""

    def is_needed(self, session: str) -> bool:
        return False

    async def delayed(self, inbound: Inbound, error: StateError) -> None:
        raise error

    def prepare(self, inbound: Inbound) -> PreparedStep[str] | None:
        self.prepared.append(inbound.id)
        return PreparedStep("first", "", '""', [])

    async def echo(self, session: str, body: str) -> str:
        self.ordered.append(body)
        return await self.obey(session, body)

    def has(self, session: str) -> bool:
        return self.held.of(session) is not None


async def echo(turn: Turn) -> str:
    return f"answer {turn.inbound.text}"


async def obey(session: str, body: str) -> str:
    return f"{session}: {body}"


@asynccontextmanager
async def replica(
    place: PostgresPlace,
    room: Room,
    act: Act = echo,
    channel: MemoryChannel | None = None,
    stall: float = STALL,
) -> AsyncIterator[Replica]:
    made = Replica(room, act)
    async with open_schema(place, clock) as made.database:
        made.ownership = PostgresOwnership(made.database, clock, stall)
        journal, channels = Journal(made.database), {"memory": channel or MemoryChannel(room, clock)}
        bus = Bus(clock)
        exchange, wanted = PostgresExchange(made.database), made.ownership.wanted_if_idle
        remote = RemoteSessions(bus, made.database, exchange, wanted, clock)
        made.sessions = LeasedSessions(made.database, made.ownership, journal, SoleProcess(), remote, bus, clock)
        made.held = made.sessions.held
        async with (
            open_outbox(made.database, channels, clock, made.ownership) as made.outbox,
            open_lanes(journal, made.outbox, clock, made.delayed, made.sessions) as made.lanes,
        ):
            turns = TurnHandler(made.handle, made.failed, made.prepare)
            made.sessions.serve({"echo": made.echo})
            async with made.sessions.open(made.lanes, made.outbox, turns, made, EVERYWHERE), asyncio.timeout(40):
                yield made
                made.lanes.wind_down()


def texts(room: Room) -> list[str]:
    return [heard.delivery.text for heard in room.all]


@pytest.mark.promise("P-answered-once")
async def test_messages_that_either_process_takes_in_are_answered_once_in_order_by_one_of_them(
    place: PostgresPlace,
) -> None:
    room = Room()
    async with replica(place, room) as one, replica(place, room) as two:
        for number in range(12):
            assert await (one, two)[number % 2].lanes.submit(inbound(number))
        await eventually(lambda: len(room.all) == 12)
        assert texts(room) == [f"answer {number}" for number in range(12)]
        assert one.acted == [] or two.acted == []
        assert not await two.lanes.submit(inbound(3)), "it was known"
        await eventually(lambda: not one.has("s") and not two.has("s"))
    assert len(room.all) == 12


async def test_conversations_are_divided_and_each_message_is_answered_once(place: PostgresPlace) -> None:
    room = Room()
    async with replica(place, room) as one, replica(place, room) as two:
        sent = [inbound(number, f"s{number % 8}") for number in range(40)]
        await asyncio.gather(*(one.lanes.submit(each) for each in sent))
        await eventually(lambda: len(room.all) == 40)
        assert sorted(texts(room)) == sorted(f"answer {number}" for number in range(40))
        assert sorted(one.acted + two.acted) == sorted(each.id for each in sent)


async def begun_by_one(one: Replica, two: Replica, gate: asyncio.Event) -> None:
    """Have one process begin a turn, which stands at the gate; then the other takes its session."""
    two.ownership.take_no_more()
    await one.lanes.submit(inbound(1))
    await eventually(lambda: one.acted == ["m1"])
    one.ownership.take_no_more()
    two.ownership._takes = True
    # To the others it looks like this when a process is paused for longer than it may be.
    await two.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
    await eventually(lambda: two.has("s"))


@pytest.mark.promise("P-answered-once")
async def test_a_turn_of_a_process_that_was_paused_is_answered_by_the_other_one_alone(place: PostgresPlace) -> None:
    room, gate = Room(), asyncio.Event()

    async def stand(turn: Turn) -> str:
        await gate.wait()
        return "too late"

    async with replica(place, room, stand) as one, replica(place, room) as two:
        await begun_by_one(one, two, gate)
        await eventually(lambda: texts(room) == ["answer 1"])
        gate.set()
        await eventually(lambda: not one.has("s"))
        await one.lanes.submit(inbound(2))
        await eventually(lambda: texts(room) == ["answer 1", "answer 2"])
        assert one.left == ["s"], "what it had in memory of the session is dropped"
        assert two.acted == ["m1", "m2"]
    assert len(room.all) == 2


async def test_without_the_fence_both_would_answer(place: PostgresPlace) -> None:
    """The negative control: the same, but the one before says nothing of its epoch."""
    room, gate = Room(), asyncio.Event()

    async def stand(turn: Turn) -> str:
        await gate.wait()
        return "too late"

    async with replica(place, room, stand) as one, replica(place, room) as two:
        one.database.write = unfenced(one.database)  # type: ignore[method-assign,assignment]  # what it tries
        await begun_by_one(one, two, gate)
        await eventually(lambda: texts(room) == ["answer 1"])
        gate.set()
        await eventually(lambda: len(room.all) == 2)
    assert texts(room) == ["answer 1", "too late"]


def unfenced(database: PostgresDatabase) -> Callable[..., Awaitable[object]]:
    write = database.write

    def written(*statements: object, durable: bool = False) -> Awaitable[object]:
        token = AUTHORITY.set(Authority())
        try:
            return write(*statements, durable=durable)  # type: ignore[arg-type]  # as they came
        finally:
            AUTHORITY.reset(token)

    return written


async def test_what_a_dead_process_has_begun_goes_on_in_another_one(place: PostgresPlace) -> None:
    """Its turn, what waits behind that, and a delivery that it had promised: all in order."""
    room = Room()
    async with open_schema(place, clock) as database:
        ownership, journal = PostgresOwnership(database, clock), Journal(database)
        for number in (1, 2):
            await journal.submit(inbound(number), "message", also=[ownership.wanted("s")])
        outbox = Outbox(database, {}, clock, ownership)
        await database.write(outbox.row(Delivery("old", Address("memory", "s"), "promised before", session="s")))
        await database.write(
            sql("INSERT INTO procrastinate_workers (last_heartbeat) VALUES (clock_timestamp() - interval '1 hour')"),
            sql("UPDATE procrastinate_jobs SET status = 'doing', worker_id = 1"),
        )
    async with replica(place, room):
        await eventually(lambda: len(room.all) == 3)
        assert sorted(texts(room)) == ["answer 1", "answer 2", "promised before"]
        assert texts(room).index("answer 1") < texts(room).index("answer 2")


async def test_a_turn_begins_when_what_was_promised_before_waits_in_the_outbox(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its preview would else stand above an answer that was given before it."""
    room, looking, gate = Room(), asyncio.Event(), asyncio.Event()
    take_up = Outbox.send_unfinished

    async def slow(*parts: Any) -> int:
        looking.set()
        await gate.wait()
        return await take_up(*parts)

    monkeypatch.setattr(Outbox, "send_unfinished", slow)
    async with replica(place, room) as one:
        # As another process does it, whose session this one takes then.
        await Journal(one.database).submit(inbound(1), "message", also=[one.ownership.wanted("s")])
        await looking.wait()
        await never(lambda: one.acted, 0.3)
        gate.set()
        await eventually(lambda: texts(room) == ["answer 1"])


async def test_a_process_that_was_paused_before_it_reads_turns_begins_none_of_the_next_owner(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would ask the model with a window from before: without the person's message, say."""
    room, lost, open_turns = Room(), asyncio.Event(), Journal.open_turns

    async def late(self: Journal, *parts: Any) -> Any:
        await two.acquire("s")
        lost.set()
        return await open_turns(self, *parts)

    monkeypatch.setattr(PostgresOwnership, "is_sure_of", lambda *_: False)
    async with replica(place, room) as one, open_schema(place, clock) as two:
        monkeypatch.setattr(Journal, "open_turns", late)
        await Journal(one.database).submit(inbound(1), "message", also=[one.ownership.wanted("s")])
        await lost.wait()
        one.ownership.take_no_more()
        await eventually(lambda: not one.has("s"))
        assert one.acted == []


async def test_a_process_that_ends_hands_its_conversations_over_at_once(place: PostgresPlace) -> None:
    # The seconds of a dead process are more than what is waited for here.
    room, stall = Room(), 2 * PATIENCE
    async with replica(place, room, stall=stall) as two:
        two.ownership.take_no_more()
        async with replica(place, room, stall=stall) as one:
            await one.lanes.submit(inbound(1))
            await eventually(lambda: texts(room) == ["answer 1"])
            two.ownership._takes = True
            one.sessions.begin_no_more()
            await eventually(lambda: two.has("s"))
            await one.lanes.submit(inbound(2))
            await eventually(lambda: texts(room) == ["answer 1", "answer 2"])
        assert two.acted == ["m2"]


async def test_a_turn_that_is_cut_by_the_end_of_its_process_goes_on_in_another_one(place: PostgresPlace) -> None:
    room = Room()

    async def stand(turn: Turn) -> str:
        return str(await asyncio.Event().wait())

    async with replica(place, room) as two:
        two.ownership.take_no_more()
        async with replica(place, room, stand) as one:
            await one.lanes.submit(inbound(1))
            await eventually(lambda: one.acted == ["m1"])
            two.ownership._takes = True
        await eventually(lambda: texts(room) == ["answer 1"])


async def test_an_answer_that_no_turn_gives_is_sent_once_by_the_owner_and_its_receipt_known_to_the_sender(
    place: PostgresPlace,
) -> None:
    room = Room()
    async with replica(place, room) as one, replica(place, room) as two:
        one.ownership.take_no_more()
        told = Delivery("told", Address("memory", "s"), "an answer of a command", session="s")
        receipt = await one.outbox.send(told)
        assert receipt.message_id == room.all[0].message_id
        assert await one.outbox.promise(replace(told, id="more", text="an alert", session=""))
        assert not await one.outbox.promise(told), "its id was promised before"
        await eventually(lambda: texts(room) == ["an answer of a command", "an alert"])
        assert set(two.taken) == {"s", "outbox:memory:s"} and one.taken == []
    assert len(room.all) == 2


@pytest.mark.promise("P-repeat-marked")
async def test_a_tools_message_is_sent_by_the_owner_of_the_turn_alone(place: PostgresPlace) -> None:
    """It names no session; while it is under way, another process looks for what was left behind."""
    room = Room()

    async def with_file(turn: Turn) -> str:
        await one.outbox.send(Delivery(f"{turn.id}:tool", turn.inbound.address, "a file"))
        return "an answer"

    async with replica(place, room, with_file) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        room.failures.append(DeliveryError("not now"))
        await one.lanes.submit(inbound(1))
        await eventually(lambda: not room.failures)
        assert await two.outbox.open_sessions() == ["s"]
        one.ownership.take_no_more()
        two.ownership._takes = True
        await two.database.write(two.ownership.wanted("outbox:memory:s"))
        await eventually(lambda: two.left == ["outbox:memory:s"])
        await eventually(lambda: len(room.all) == 2)
    assert texts(room) == ["a file", "an answer"]


async def test_a_session_that_was_left_without_a_job_is_found_at_a_start(place: PostgresPlace) -> None:
    """As a copy of a file of SQLite leaves it, which has no jobs."""
    room = Room()
    async with open_schema(place, clock) as database:
        await Journal(database).submit(inbound(1), "message")
    async with replica(place, room):
        await eventually(lambda: texts(room) == ["answer 1"])


async def test_a_session_without_news_is_let_go_and_taken_again_by_either(place: PostgresPlace) -> None:
    room = Room()
    async with replica(place, room) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        await two.lanes.submit(inbound(1))
        await eventually(lambda: one.left == ["s"])
        await never(lambda: one.has("s"), LINGER)
        one.ownership.take_no_more()
        two.ownership._takes = True
        await one.lanes.submit(inbound(2))
        await eventually(lambda: texts(room) == ["answer 1", "answer 2"])
        assert (one.acted, two.acted) == (["m1"], ["m2"])


async def test_an_order_is_carried_out_by_the_owner_under_its_epoch_or_by_who_takes_the_session(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_work, "LINGER_SECONDS", 3.0)  # it is looked at between the orders
    fences = list[Fence | None]()

    async def look(session: str, body: str) -> str:
        fences.append(AUTHORITY.get().fence)
        return f"done {body}"

    async with replica(place, Room()) as one, replica(place, Room()) as two:
        two.ownership.take_no_more()
        one.obey = look
        assert await two.sessions.ask("s", "echo", "1") == "done 1", "no process had it"
        held = one.held.of("s")
        assert held is not None
        assert await two.sessions.ask("s", "echo", "2") == "done 2"
        assert two.sessions.elsewhere("s") is two.sessions and await two.sessions.is_owned("s")
        assert one.sessions.elsewhere("s") is None
        assert fences[-1] == held.lease.fence
        assert two.ordered == [] and two.taken == []
        await eventually(lambda: not one.has("s"))


async def test_a_refused_order_and_one_that_fails_are_told_in_words(
    place: PostgresPlace, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(session: str, body: str) -> str:
        raise RuntimeError("a bug") if body == "fail" else StateError(f"not {body}")

    async with replica(place, Room()) as one, replica(place, Room()) as two:
        two.ownership.take_no_more()
        one.obey = refuse
        with pytest.raises(StateError, match=r"^not this$"):
            await two.sessions.ask("s", "echo", "this")
        with pytest.raises(StateError, match="failed unexpectedly"):
            await two.sessions.ask("s", "echo", "fail")
    assert "a bug" in caplog.text
    caplog.clear()


@pytest.mark.promise("P-any-replica")
async def test_an_order_whose_owner_is_gone_before_it_replied_is_carried_out_by_the_next_one(
    place: PostgresPlace,
) -> None:
    gate, room = asyncio.Event(), Room()

    async def hang(session: str, body: str) -> str:
        return str(await gate.wait())

    async with replica(place, room) as one, replica(place, room) as two, replica(place, room) as three:
        for each in (two, three):
            each.ownership.take_no_more()
        one.obey = hang
        async with background(three.sessions.ask("s", "echo", "x"), "an asker") as asking:
            await eventually(lambda: one.ordered)
            one.ownership.take_no_more()
            two.ownership._takes = True
            await three.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
            assert await ends_within(asking, clock, 20)
            assert asking.result() == "s: x"
        gate.set()  # else its end waits for it (`END_SECONDS`)
        assert (one.ordered, two.ordered) == (["x"], ["x"])


async def test_an_order_finds_what_was_taken_in_before_it_also_where_the_session_is_just_being_taken(
    place: PostgresPlace,
) -> None:
    gate, running = asyncio.Event(), list[str | None]()

    async def wait(turn: Turn) -> str:
        await gate.wait()
        return "done"

    async with replica(place, Room(), wait) as one, replica(place, Room()) as two:
        two.ownership.take_no_more()

        async def look(session: str, body: str) -> str:
            running.append(one.lanes.running(session))
            return ""

        one.obey = look
        await two.lanes.submit(inbound(1))
        await two.sessions.ask("s", "echo", "")
        assert running == ["m1"]
        gate.set()


async def test_an_order_is_carried_out_while_a_process_that_winds_down_ends_its_turn(place: PostgresPlace) -> None:
    gate, room = asyncio.Event(), Room()

    async def wait(turn: Turn) -> str:
        await gate.wait()
        return "done"

    async with replica(place, room, wait) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        await one.lanes.submit(inbound(1))
        await eventually(lambda: one.acted)
        one.lanes.wind_down()
        one.sessions.begin_no_more()
        assert await two.sessions.ask("s", "echo", "x") == "s: x"
        assert one.ordered == ["x"]
        gate.set()
        await eventually(lambda: texts(room) == ["done"])
