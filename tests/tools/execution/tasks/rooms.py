"""A task room with real parts: a database on disk, blobs, a sandbox."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goclaw.common.config.tools import TasksSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.durable.store.open import open_database
from goclaw.durable.store.tasks import TaskRows
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.tasks.base import Job, Owner, TaskInfo, TaskWork
from goclaw.tools.execution.tasks.room import TaskRoom, TasksOnDisk, open_tasks

ANNA, BOB = Owner("telegram:5", "telegram:5"), Owner("telegram:6", "telegram:6")
CHAT = Address("telegram", "5")


@dataclass
class House:
    """The room, and what its people heard."""

    room: TaskRoom
    blobs: Blobs
    rows: TaskRows
    sandbox: Sandbox
    folder: Path
    told: list[tuple[TaskInfo, TaskWork | Job]] = field(default_factory=list)

    async def tell(self, info: TaskInfo, work: TaskWork | Job) -> None:
        self.told.append((info, work))

    def work(self, script: str, owner: Owner = ANNA, *, seconds: float = 60, keeps_input: bool = False) -> TaskWork:
        command = SandboxCommand(
            ("/bin/bash", "-c", script), self.folder, {"PATH": "/usr/bin:/bin"}, keeps_input=keeps_input
        )
        return TaskWork(owner, CHAT, script[:60], command, Policy(self.folder), seconds)

    async def until_said(self, task: TaskInfo, text: str) -> None:
        """Return when the task has said exactly this."""
        while await self.room.tail(task.id, task.owner, 1000) != text:  # noqa: ASYNC110 -- output has no event
            await asyncio.sleep(0)

    async def start(self, script: str, owner: Owner = ANNA, **given: Any) -> TaskInfo:
        return await self.room.start(self.work(script, owner, **given), self.sandbox)


@asynccontextmanager
async def house(folder: Path, sandbox: Sandbox, **settings: Any) -> AsyncIterator[House]:
    """Everything below `folder`; a second one in the same folder is the daemon after a restart."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    clock = SteppedClock()
    async with open_database(folder / "goclaw.db") as database, open_blobs(folder / "blobs", clock) as blobs:
        rows = TaskRows(database)
        async with open_tasks(blobs, clock, TasksSettings.model_validate(settings), TasksOnDisk(rows)) as room:
            made = House(room, blobs, rows, sandbox, workspace)
            room.on_end(made.tell)
            yield made
