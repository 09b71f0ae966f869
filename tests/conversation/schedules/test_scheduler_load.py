"""Ten thousand jobs cost an idle minute nothing, and one that is due no more than among ten."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.conversation.schedules.jobs import JOB, Interval
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.sqlite.database import DIALECT
from tests.conversation.schedules.jobs import DAY, HOUR, job, once, pass_time
from tests.harness import Core, World
from tests.parts import sql

_MANY = """
INSERT INTO schedules (name, person, body, state, next, made_at)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
SELECT 'job-' || n, 'memory:here', :body, 'active', :first + n, 0 FROM numbers
"""


class Seen:
    """The statements that the database was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[BoundStatement] = []
        self.writes = 0
        read, write = Database.read, Database.write

        async def reading(database: Database, statement: BoundStatement, **more: Any) -> Any:
            self.reads.append(statement)
            return await read(database, statement, **more)

        async def writing(database: Database, *statements: BoundStatement, **more: Any) -> Any:
            self.writes += len(statements)
            return await write(database, *statements, **more)

        monkeypatch.setattr(Database, "read", reading)
        monkeypatch.setattr(Database, "write", writing)

    def taken(self) -> tuple[list[BoundStatement], int]:
        """Return the reads, and the number of writes, since the last call."""
        found = self.reads, self.writes
        self.reads, self.writes = [], 0
        return found


async def scans(core: Core, statements: list[BoundStatement]) -> list[str]:
    """The parts of their plans that go through all jobs or runs."""
    found = list[str]()
    for each in statements:
        words = each.compile(DIALECT)[0]
        plan = await core.database.read(sql(f"EXPLAIN QUERY PLAN {words}", **each.compile(DIALECT)[1]))
        found += [f"{row['detail']}: {words}" for row in plan if row["detail"].startswith("SCAN schedule")]
    # In the order of an index and up to a limit, it ends at the first row.
    return [each for each in found if "USING INDEX schedules_by_next" not in each]


@pytest.mark.promise("P-schedule-once")
async def test_ten_thousand_jobs_cost_what_ten_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = list[tuple[list[str], int]]()
    for count in (10, 10_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        world = World(folder)
        async with world.running() as core:
            body = JOB.to_json(job(Interval(DAY, world.clock.now(), "UTC")))
            first = world.clock.now() + DAY
            await core.database.write(sql(_MANY, count=count, body=body, first=first))
            await once(core, world, HOUR)
            await pass_time(core, world, 60)
            with monkeypatch.context() as patch:
                seen = Seen(patch)
                core.schedules.scheduler.start_due()
                await pass_time(core, world, 60)
                assert seen.taken() == ([], 0), "an idle minute asks the disk nothing"
                await pass_time(core, world, HOUR - 120)
                reads, writes = seen.taken()
            assert world.texts() == ["Drink tea."]
            assert await scans(core, reads) == []
            counted.append(([each.compile(DIALECT)[0] for each in reads], writes))
    assert counted[0] == counted[1]
