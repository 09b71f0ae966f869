"""Background tasks on disk: so that after a restart the lost ones can be reported."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from goclaw.common.core.fencing import under_fence
from goclaw.durable.store.database import Database, Statement, insert_into
from goclaw.durable.store.dialect import is_of_the_dead
from goclaw.durable.store.schema import tasks

_ADD = insert_into(tasks, *tasks.columns.keys())
_REMOVE = Statement(delete(tasks).where(tasks.c.id == bindparam("task")))
_END = Statement(
    update(tasks)
    .where(tasks.c.id == bindparam("task"))
    .values({name: bindparam(name) for name in ("state", "ended_at", "code", "note", "told")})
)
_LOSE = Statement(
    update(tasks)
    .where(tasks.c.state == "running", is_of_the_dead(tasks.c.id))
    .values(state="lost", ended_at=bindparam("at"))
)
_OF = Statement(
    select(tasks)
    .where(tasks.c.session == bindparam("of_session"), tasks.c.person == bindparam("of_person"))
    .order_by(tasks.c.began_at)
)
_UNREPORTED = Statement(
    select(tasks).where(tasks.c.state != "running", tasks.c.told.is_(False)).order_by(tasks.c.began_at)
)
_MARK_REPORTED = Statement(update(tasks).where(tasks.c.id == bindparam("task")).values(told=True))
_PRUNE = Statement(delete(tasks).where(tasks.c.state != "running", tasks.c.ended_at < bindparam("before")))


class TaskRows:
    """The table, in plain values: their meaning is known above."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, **columns: Any) -> None:
        """Store a new task. On disk when this returns."""
        await self._database.write(_ADD(**columns), durable=True)

    async def remove(self, task_id: str) -> None:
        """Forget one that never ran."""
        await self._database.write(_REMOVE(task=task_id))

    async def end(self, task_id: str, **columns: Any) -> None:
        """Store the end of a task."""
        with under_fence(None):  # it ran in this process, whichever has its session by now
            ending = self._database.write(_END(task=task_id, **columns))
        await ending

    async def lose(self, at: float) -> int:
        """Mark the running tasks of processes that are gone as lost; return how many."""
        return (await self._database.write(_LOSE(at=at)))[0].rowcount

    async def of(self, session: str, person: str) -> list[dict[str, Any]]:
        """Return the tasks of a person in a session, the oldest first."""
        return [dict(row) for row in await self._database.read(_OF(of_session=session, of_person=person))]

    async def list_pending_reports(self) -> list[dict[str, Any]]:
        """Return ended tasks of all people that were not reported to the model."""
        return [dict(row) for row in await self._database.read(_UNREPORTED())]

    async def record_reports(self, task_ids: Sequence[str]) -> None:
        """Record that their ends were reported to the model."""
        if task_ids:
            await self._database.write(*(_MARK_REPORTED(task=task_id) for task_id in task_ids))

    async def prune(self, before: float) -> None:
        """Forget what ended before a moment."""
        await self._database.write(_PRUNE(before=before))
