"""What nobody needs any more is deleted at the start, and then once a day."""

import asyncio
from pathlib import Path

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.conversation.schedules.rows import KEEP_SECONDS
from goclaw.durable.store.open import open_database, read_stored
from goclaw.program.app import open_app
from tests.harness import PATIENCE, before_the_next_look
from tests.parts import sql

_JOB = (
    "INSERT INTO schedules (id, name, person, body, state, made_at) VALUES (:id, :name, 'tui:ann', '{}', :state, :made)"
)
_RUN = "INSERT INTO schedule_runs (job, due, state, turn, began_at) VALUES (:job, :due, :state, '', :began)"
_HELD = (
    "INSERT INTO held_messages (id, session, person, chat, body, held_at, until) "
    "VALUES (:id, 's', 'tui:ann', 'c', '{}', :held, NULL)"
)
_LEFT = (
    "SELECT name FROM schedules UNION SELECT 'run ' || CAST(due AS INTEGER) FROM schedule_runs "
    "UNION SELECT id FROM held_messages ORDER BY 1"
)


async def test_runs_done_schedules_and_messages_that_were_held_go_after_a_month(tmp_path: Path) -> None:
    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    clock = SteppedClock()
    old, young = clock.now() - KEEP_SECONDS - 1, clock.now() - KEEP_SECONDS + 60
    jobs = [
        (1, "over", "done", old),
        (2, "paused", "paused", old),
        (3, "recent", "done", young),
        (4, "late", "done", old),
    ]
    runs = [(2, 1, "done", old), (2, 2, "running", old), (2, 3, "done", young), (4, 4, "done", young)]
    config.database_path.parent.mkdir()
    async with open_database(config.store_place) as database:
        await database.write(
            *(sql(_JOB, id=id_, name=name, state=state, made=made) for id_, name, state, made in jobs),
            *(sql(_RUN, job=job, due=due, state=state, began=began) for job, due, state, began in runs),
            *(sql(_HELD, id=id_, held=held) for id_, held in (("gone", old), ("gone lately", young))),
        )

    def left() -> list[str]:
        [rows] = read_stored(config.store_place, sql(_LEFT))
        return [row[0] for row in rows]

    async with asyncio.timeout(PATIENCE), open_app(config, clock):
        while not left() or "over" in left() or "gone" in left():
            await before_the_next_look()
        assert left() == ["gone lately", "late", "paused", "recent", "run 2", "run 3", "run 4"]
