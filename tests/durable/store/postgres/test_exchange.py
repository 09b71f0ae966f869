"""Messages between processes on one schema: whole, in order, each once, and watches that end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.store.postgres.database import open_schema
from goclaw.durable.store.postgres.exchange import PIECE_BYTES, PostgresExchange
from goclaw.durable.store.replicas import EVERYONE, Watch
from tests.acceptance.waiting import clock, eventually
from tests.parts import sql


class Heard:
    """A process, and what it has heard."""

    def __init__(self, exchange: PostgresExchange) -> None:
        self.exchange = exchange
        self.heard: list[str] = []
        self.breaks = 0
        exchange.subscribe(self.heard.append, self._missed)

    @property
    def name(self) -> str:
        return self.exchange.replica

    def _missed(self) -> None:
        self.breaks += 1


@asynccontextmanager
async def process(place: PostgresPlace) -> AsyncIterator[Heard]:
    async with open_schema(place, clock) as database:
        made = Heard(PostgresExchange(database))
        async with background(run_with_restarts("notices", database.notices.run, clock), "notices"):
            await eventually(lambda: made.breaks)
            yield made


async def test_a_message_reaches_the_process_that_it_is_for_or_everyone(place: PostgresPlace) -> None:
    async with process(place) as one, process(place) as two, process(place) as three:
        await one.exchange.send([(two.name, "for two"), (EVERYONE, "for all"), (three.name, "for three")])
        await eventually(lambda: len(two.heard) == len(three.heard) == 2 and one.heard)
        assert (one.heard, two.heard, three.heard) == (
            ["for all"],
            ["for two", "for all"],
            ["for all", "for three"],
        )


async def test_a_session_whose_name_postgres_cannot_have_holds_up_no_watch(place: PostgresPlace) -> None:
    async with process(place) as one, process(place) as two:
        await one.exchange.watch(["nul\0", "s"], 30.0)
        assert set(await two.exchange.watches()) == {Watch("nul", one.name), Watch("s", one.name)}
        await one.exchange.unwatch(["nul\0", "s"])
        assert await two.exchange.watches() == []


async def test_long_messages_come_whole_and_in_order(place: PostgresPlace) -> None:
    texts = [sign * count for sign in ("x", "ö", "𝔴") for count in (1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES)]
    async with process(place) as one, process(place) as two:
        await one.exchange.send([(two.name, text) for text in ["", *texts]])
        await one.exchange.send([(EVERYONE, "the end")])
        await eventually(lambda: two.heard[-1:] == ["the end"])
        assert two.heard == ["", *texts, "the end"]


async def test_equal_messages_that_go_out_together_are_all_heard(place: PostgresPlace) -> None:
    """Postgres sends equal notices of one transaction once."""
    async with process(place) as one, process(place) as two:
        await one.exchange.send([(two.name, "ha")] * 3)
        await one.exchange.send([(two.name, "end")])
        await eventually(lambda: two.heard[-1:] == ["end"])
        assert two.heard == ["ha", "ha", "ha", "end"]


async def test_a_message_of_which_the_beginning_was_missed_is_not_heard(place: PostgresPlace) -> None:
    async with process(place) as one, process(place) as two:
        first, *_ = one.exchange._payloads("x" * 2 * PIECE_BYTES)
        topic = f"events_{two.name}"
        await one.exchange._database.write(one.exchange._database.notices.notice_for(topic, first))
        await eventually(lambda: two.exchange._pieces)
        await one.exchange._database.read(
            sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = :name AND query LIKE 'LISTEN%'",
                name=two.exchange._database.application_name,
            )
        )
        await eventually(lambda: two.breaks == 2)
        assert not two.exchange._pieces
        await one.exchange.send([(two.name, "whole")])
        await eventually(lambda: two.heard)
        assert two.heard == ["whole"]


async def test_a_watch_holds_until_its_time_is_over_or_it_is_taken_back(place: PostgresPlace) -> None:
    async with process(place) as one, process(place) as two:
        await one.exchange.watch(["a", "b", "c"], 60.0)
        await one.exchange.watch(["b"], 0.0)
        assert list(await one.exchange.watches()) == [], "one's own are not others'"
        assert {watch.session for watch in await two.exchange.watches()} == {"a", "c"}
        await one.exchange.unwatch(["c"])
        assert list(await two.exchange.watches()) == [Watch("a", one.name)]
        await two.exchange.watch([], 60.0)
        rows = await two.exchange._database.read(sql("SELECT session FROM session_watches"))
        assert [row["session"] for row in rows] == ["a"]
