"""Tasks as rows of the database."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from goclaw.store.tasks import TaskRows
from goclaw.tasks.base import Owner, TaskInfo, TaskState


class TasksOnDisk:
    """Implements `tasks.base.TaskRecord`."""

    def __init__(self, rows: TaskRows) -> None:
        self._rows = rows

    async def add(self, info: TaskInfo) -> None:
        await self._rows.add(**_columns(info))

    async def remove(self, task_id: str) -> None:
        await self._rows.remove(task_id)

    async def end(self, info: TaskInfo) -> None:
        columns = _columns(info)
        await self._rows.end(info.id, **{name: columns[name] for name in ("state", "ended_at", "code", "note", "told")})

    async def lose(self, at: float) -> int:
        return await self._rows.lose(at)

    async def of(self, owner: Owner) -> Sequence[TaskInfo]:
        return [_info(row) for row in await self._rows.of(owner.session, owner.person)]

    async def untold(self) -> Sequence[TaskInfo]:
        return [_info(row) for row in await self._rows.untold()]

    async def tell(self, task_ids: Sequence[str]) -> None:
        await self._rows.tell(task_ids)


def _columns(info: TaskInfo) -> dict[str, Any]:
    columns = asdict(info)
    owner = columns.pop("owner")
    return {**columns, **owner, "state": info.state.value}


def _info(row: dict[str, Any]) -> TaskInfo:
    owner = Owner(row.pop("session"), row.pop("person"))
    return TaskInfo(**{**row, "owner": owner, "state": TaskState(row["state"]), "told": bool(row["told"])})
