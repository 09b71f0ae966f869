"""What nobody needs any more is deleted at the start, and then once a day."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from goclaw.app import open_app
from goclaw.config.schema import Config
from goclaw.core.clock import SteppedClock
from goclaw.schedules.rows import KEEP_SECONDS
from goclaw.store.sqlite.migrations import migrate
from tests.harness import PATIENCE, before_the_next_look

_JOB = "INSERT INTO schedules (id, name, person, body, state, made_at) VALUES (?, ?, 'tui:ann', '{}', ?, ?)"
_RUN = "INSERT INTO schedule_runs (job, due, state, turn, began_at) VALUES (?, ?, ?, '', ?)"
_HELD = (
    "INSERT INTO held_messages (id, session, person, chat, body, held_at, until) "
    "VALUES (?, 's', 'tui:ann', 'c', '{}', ?, ?)"
)


async def test_runs_done_schedules_and_messages_that_were_held_go_after_a_month(tmp_path: Path) -> None:
    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    clock = SteppedClock()
    old, young = clock.now() - KEEP_SECONDS - 1, clock.now() - KEEP_SECONDS + 60
    path = config.database_path
    path.parent.mkdir()
    migrate(path)

    def left() -> list[str]:
        with closing(sqlite3.connect(path)) as connection:
            return [
                row[0]
                for row in connection.execute(
                    "SELECT name FROM schedules UNION SELECT 'run ' || due FROM schedule_runs "
                    "UNION SELECT id FROM held_messages ORDER BY 1"
                )
            ]

    with closing(sqlite3.connect(path)) as connection, connection:
        jobs = [
            (1, "over", "done", old),
            (2, "paused", "paused", old),
            (3, "recent", "done", young),
            (4, "late", "done", old),
        ]
        connection.executemany(_JOB, jobs)
        connection.executemany(
            _RUN, [(2, 1, "done", old), (2, 2, "running", old), (2, 3, "done", young), (4, 4, "done", young)]
        )
        connection.executemany(_HELD, [("gone", old, None), ("gone lately", young, None)])
    async with asyncio.timeout(PATIENCE), open_app(config, clock):
        while "over" in left() or "gone" in left():
            await before_the_next_look()
        assert left() == ["gone lately", "late", "paused", "recent", "run 2.0", "run 3.0", "run 4.0"]
