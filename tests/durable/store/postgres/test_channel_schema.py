"""A gateway of the version before gathers with its functions what new ones gather with statements."""

import asyncio

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.database import Database
from goclaw.durable.store.postgres.database import open_schema
from tests.parts import sql

PARTS = range(1, 9)


async def gather_before(database: Database, part: int) -> str:
    """Keep a part as that version does; returns what became of it."""
    call = "SELECT gather_part('a', 5, 6, :part, :message) AS outcome"
    [done] = await database.write(sql(call, part=part, message=f'{{"part": {part}}}'))
    return str(done.rows[0]["outcome"])


async def end_before(database: Database) -> float:
    """End the group as that version does."""
    [done] = await database.write(sql("SELECT end_group('a', :quiet, 0) AS remaining", quiet=0.0))
    return float(done.rows[0]["remaining"])


@pytest.mark.promise("P-rolling-upgrade")
@pytest.mark.parametrize("ends_before", [False, True])
async def test_parts_that_two_versions_gather_and_end_at_once_are_members_or_apart(
    place: PostgresPlace, ends_before: bool
) -> None:
    async with open_schema(place, RealClock()) as new, open_schema(place, RealClock()) as old:
        state = ChannelRows(new)

        async def gather(part: int) -> str:
            if part % 2:
                return await gather_before(old, part)
            return (await state.gather("a", 5, 6, part, b'{"part": %d}' % part))[0]

        assert await gather(1) == await gather(2) == "gathered"
        ending = end_before(old) if ends_before else state.end_group("a", 0.0, 0)
        outcomes, left = await asyncio.gather(asyncio.gather(*map(gather, PARTS)), ending)
        members = [part for part, outcome in zip(PARTS, outcomes, strict=True) if outcome == "gathered"]
        assert left == 0.0 and {1, 2} <= set(members)
        assert [message["part"] for message in await state.messages("a")] == members
        assert {await gather(part) for part in members} == {"gathered"}
        assert await gather(90) == await gather(91) == "apart"
        await state.hand_over("a", keep=True)
        assert {await gather(part) for part in members} == {"known"}
