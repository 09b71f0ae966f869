"""The gateways of a schema: what they have to agree upon, who is seen, and conversations that stay with one of them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from goclaw.common.config.policies import ReplicaSettings
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background
from goclaw.durable.store.ownership import OF_CHAT, Lease
from goclaw.durable.store.postgres import replicas
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.errors import StateError
from tests.acceptance.waiting import clock, eventually, never
from tests.parts import sql
from tests.postgres import STALL, Server


class Gateway:
    """One gateway's client of the schema, and what it was given to work on."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.ownership = PostgresOwnership(database, clock, database.settings.stall_seconds)
        self.done: list[str] = []
        self.gate: asyncio.Event | None = None
        """Holds what is worked on."""

    async def want(self, session: str) -> None:
        known = "INSERT INTO sessions (key, created_at, context_start) VALUES (:k, 1, 0) ON CONFLICT DO NOTHING"
        await self.database.write(sql(known, k=session), self.ownership.wanted(session))

    async def work(self, lease: Lease) -> bool:
        if self.gate:
            await self.gate.wait()
        self.done.append(lease.session)
        return True


@asynccontextmanager
async def gateway(place: PostgresPlace, name: str = "", workspaces: str = "shared") -> AsyncIterator[Gateway]:
    """A gateway that works on conversations for as long as the block lasts."""
    settings = ReplicaSettings.model_validate({"name": name, "stall_seconds": STALL, "workspaces": workspaces})
    async with open_schema(place, clock) as database:
        await database.join(settings)
        made = Gateway(database)
        async with background(made.ownership.run(made.work), "a gateway"):
            yield made


async def refusal(place: PostgresPlace, **settings: object) -> str:
    async with open_schema(place, clock) as database:
        # Only here: elsewhere Postgres may be slow to notice that a gateway is gone.
        with pytest.MonkeyPatch.context() as short:
            short.setattr(replicas, "LOCK_SECONDS", 0.3)
            with pytest.raises(StateError) as refused:
                await database.join(ReplicaSettings.model_validate({"stall_seconds": STALL, **settings}))
    return str(refused.value)


@pytest.mark.promise("P-replicas-agree")
async def test_a_gateway_that_is_set_otherwise_than_the_others_is_refused_with_both_values(
    place: PostgresPlace,
) -> None:
    async with gateway(place, "kitchen"):
        said = await refusal(place, stall_seconds=9)
        assert "replica.stall_seconds is 9 here but 10 at the gateway kitchen (goclaw " in said
        assert "stop them all to change it" in said
        said = await refusal(place, workspaces="own", name="hall")
        assert "replica.workspaces is own here but shared at the gateway kitchen" in said
        async with gateway(place, "kitchen"):
            pass  # in one workspace a name is for people
    async with gateway(place, "kitchen", "own"):
        said = await refusal(place, workspaces="own", name="kitchen")
        assert "replica.name: the gateway kitchen (goclaw " in said and "choose another name" in said
        async with gateway(place, "hall", "own"):
            pass


async def test_the_settings_of_a_gateway_that_was_killed_bind_no_one(place: PostgresPlace, server: Server) -> None:
    async with open_schema(place, clock) as killed:
        await killed.join(ReplicaSettings.model_validate({"stall_seconds": 60}))
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}", autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM replicas").fetchall() == [(1,)]
    async with gateway(place):
        pass


async def test_each_gateway_sees_all_of_them_and_how_much_of_the_server_they_take(place: PostgresPlace) -> None:
    async with gateway(place, "kitchen") as one:
        async with gateway(place, "hall") as two:
            one.ownership.take_no_more()
            two.gate = asyncio.Event()
            await one.want("s")

            async def seen_at_work() -> bool:
                return (await two.database.use()).replicas[-1].sessions == 1

            async with asyncio.timeout(20):
                while not await seen_at_work():
                    await clock.sleep(0.05)
            seen = await two.database.use()
            assert [(each.name, each.is_own, each.lives, each.sessions) for each in seen.replicas] == [
                ("kitchen", False, True, 0),
                ("hall", True, True, 1),
            ]
            assert 0.0 <= seen.notices < 0.1 and 0 < seen.connections <= seen.all_connections < seen.max_connections
            two.gate.set()
        seen = await one.database.use()
        assert [each.name for each in seen.replicas] == ["kitchen"]
        assert "this one" in str(seen.replicas[0])


async def test_of_two_with_one_name_each_is_shown_with_its_process_and_one_that_began_again_is_not_gone(
    place: PostgresPlace, server: Server
) -> None:
    async with gateway(place, "vm") as one, gateway(place, "vm"):
        assert [each.name for each in (await one.database.use()).replicas] == [f"vm (pid {os.getpid()})"] * 2
    async with gateway(place, "vm") as one:
        killed = """
            INSERT INTO replicas (id, address, version, began_at, seen_at, name)
            VALUES (:k, '', '', now() - interval '2 minutes', now() - interval '1 minute', :k)
        """
        for name in ("vm", "hall"):
            await one.database.write(sql(killed, k=name))
        seen = (await one.database.use()).replicas
        assert [(each.name, each.lives) for each in seen] == [("hall", False), ("vm", True)]
        silent = seen[0].silent
        assert silent >= 60 and str(seen[0]) == f"hall (gone, silent for {silent:.0f} s)"


@pytest.mark.promise("P-replica-own-workspaces")
async def test_a_conversation_stays_with_the_gateway_that_had_it_first(place: PostgresPlace) -> None:
    async with gateway(place, "kitchen", "own") as one:
        await one.want("s")
        await eventually(lambda: one.done == ["s"])
        async with gateway(place, "hall", "own") as two:
            for _ in range(4):
                await two.want("s")
                await eventually(lambda: len(one.done) > 1)
                one.done.pop()
            assert two.done == []
            one.ownership.take_no_more()
            await two.want(f"{OF_CHAT}telegram:5")
            await eventually(lambda: two.done == [f"{OF_CHAT}telegram:5"])


@pytest.mark.promise("P-replica-own-workspaces")
async def test_a_conversation_waits_for_its_gateway_is_told_so_once_and_goes_on_when_that_is_back(
    place: PostgresPlace,
) -> None:
    async with gateway(place, "kitchen", "own") as one:
        await one.want("s")
        await eventually(lambda: one.done == ["s"])
        assert await one.ownership.left_waiting() == []
    async with gateway(place, "hall", "own") as two:
        await two.want("s")
        await never(lambda: two.done, 0.5)
        assert await two.ownership.left_waiting() == [("s", "kitchen")]
        assert await two.ownership.left_waiting() == []
        async with gateway(place, "kitchen", "own") as again:
            await eventually(lambda: again.done == ["s"])
        await two.want("s")
        assert await two.ownership.left_waiting() == [("s", "kitchen")], "another absence"


async def test_conversations_are_free_again_once_all_gateways_share_a_workspace(place: PostgresPlace) -> None:
    async with gateway(place, "kitchen", "own") as one:
        one.gate = asyncio.Event()
        await one.want("s")
        await eventually(lambda: one.ownership.fence_of("s"))
        one.ownership.take_no_more()
        await one.want("s")
        one.gate.set()
        await eventually(lambda: one.done == ["s"])
    async with gateway(place, "hall") as two:
        await eventually(lambda: two.done == ["s"])
