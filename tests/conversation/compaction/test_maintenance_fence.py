"""What is written beside the turns is refused where another process has taken the session meanwhile."""

import asyncio
from pathlib import Path

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import Actor
from goclaw.common.core.fencing import AUTHORITY, Fence, under_fence
from goclaw.conversation.compaction.maintenance import MaintenanceQueue
from goclaw.durable.store.checkpoints import CheckpointStore, StoredCheckpoint
from goclaw.durable.store.postgres.database import open_schema
from goclaw.errors import OwnershipLost
from tests.acceptance.waiting import clock
from tests.harness import World
from tests.parts import sql


class Late(MaintenanceQueue):
    """Writes a checkpoint for each conversation, and keeps under which right."""

    def begin(self, store: CheckpointStore) -> "Late":
        self.store = store
        self.rights: list[Fence | None] = []
        self.lost: list[str] = []
        return self

    async def maintain(self, key: str, actor: Actor, last_row: int) -> None:
        self.rights.append(AUTHORITY.get().fence)
        try:
            await self.store.add(key, StoredCheckpoint(last_row, 1, "{}", 0.0))
        except OwnershipLost:
            self.lost.append(key)
            raise


async def test_a_checkpoint_is_written_under_the_right_of_its_turn_and_refused_when_that_has_passed(
    place: PostgresPlace, tmp_path: Path
) -> None:
    world = World(tmp_path, [])
    async with world.running() as core, open_schema(place, clock) as one, open_schema(place, clock) as two:
        parts = core.sessions.maintenance
        queue = Late(*(parts.checkpoints, parts.ports, parts.compactor, parts.flush, parts.summary_retries)).begin(
            CheckpointStore(one)
        )
        rights = dict[str, Fence]()
        said = (
            "INSERT INTO messages (session, turn, step, role, text, created_at) VALUES (:s, 't', 'u', 'user', 'hi', 1)"
        )
        for session in ("kept", "taken"):
            done = await one.write(sql(said + " RETURNING id", s=session))
            with under_fence(rights.setdefault(session, await one.acquire(session))):
                queue.on_turn_end(session, Actor("tui:me", "tui"), done[0].lastrowid)
        await two.acquire("taken")
        await asyncio.create_task(queue.catch_up())
        assert queue.rights == [rights["kept"], rights["taken"]] and queue.lost == ["taken"]
        rows = await two.read(sql("SELECT session FROM checkpoints"))
        assert [row["session"] for row in rows] == ["kept"]
