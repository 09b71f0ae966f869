"""All background tasks of the daemon: started within bounds, found by their owners only, ended with the daemon.

`TasksOnDisk` records them as rows of the database.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

from goclaw.common.config.tools import TasksSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import finish_despite_cancel, result_of
from goclaw.durable.store.blobs import Blobs
from goclaw.durable.store.tasks import TaskRows
from goclaw.errors import DiskError, ToolError
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.tasks.base import Job, Owner, TaskInfo, TaskRecord, TaskState, TaskWork, UnknownTask
from goclaw.tools.execution.tasks.running import RunningCommand, RunningJob, RunningTask, last_of

log = logging.getLogger(__name__)


MAX_ENDED = 64
"""Ended tasks whose last output stays in memory; of older ones it is read from its file."""
IN_MEMORY = 128 << 10
"""Bytes of the last output of each."""
WRITE_SECONDS = 10.0
"""The time for a task to read its input, in seconds."""
PIECE = 4096
"""Bytes that a pipe takes whole or not at all (PIPE_BUF), so that it is known how much was taken."""

Tell = Callable[[TaskInfo, TaskWork | Job], Awaitable[None]]
"""Tell the people of a session that a task ended."""


class TaskRoom:
    """Implements `execution.tasks.base.Tasks`. Open it with `open_tasks`."""

    def __init__(
        self, blobs: Blobs, clock: Clock, settings: TasksSettings, record: TaskRecord, refusal: str = ""
    ) -> None:
        self._refusal = refusal
        self._blobs = blobs
        self._clock = clock
        self._settings = settings
        self._record = record
        self._tasks: dict[str, RunningTask] = {}
        """In the order of their start; ended ones stay for a while."""
        self._lives: set[asyncio.Task[None]] = set()
        self.pending_reports: dict[str, TaskInfo] = {}
        """Ended tasks of whose end the model does not know."""
        self._told: list[Tell] = []

    def on_end(self, tell: Tell) -> None:
        """Have people told of each task that ends from here on, unless its agent waits for the end."""
        self._told.append(tell)

    def count(self, session: str | None = None) -> int:
        """Return the number of running tasks, of a session or of all."""
        return sum(session in (None, task.info.owner.session) for task in self._tasks.values() if task.info.running)

    async def start(self, work: TaskWork, sandbox: Sandbox) -> TaskInfo:
        return await self._start(RunningCommand(self._new_id(), work, self._clock.now, sandbox))

    async def start_job(self, job: Job) -> TaskInfo:
        return await self._start(RunningJob(self._new_id(), job, self._clock.now))

    async def _start(self, task: RunningTask) -> TaskInfo:
        if self._refusal:
            raise ToolError(self._refusal)
        self._refuse_too_many(task.work.owner)
        self._tasks[task.info.id] = task
        life = asyncio.create_task(self._live(task), name=f"background task {task.info.id}")
        self._lives.add(life)
        life.add_done_callback(self._on_end)
        try:
            await result_of(task.started)
        except asyncio.CancelledError:
            life.cancel()
            raise
        return task.info

    async def wait(self, task_id: str, owner: Owner, seconds: float) -> TaskInfo:
        task = self._tasks.get(task_id)
        if task is None or task.info.owner != owner:
            return await self._on_record(task_id, owner)
        task.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await task.news.wait()
        except TimeoutError:
            pass  # it goes on
        finally:
            task.waiting -= 1
        return await self._mark_known(task.info)

    async def tail(self, task_id: str, owner: Owner, most: int) -> str:
        task = self._tasks.get(task_id)
        if task is not None and task.info.owner == owner and task.output is not None:
            data = task.output.tail()
            if not task.ended.is_set():
                task.news.clear()
        else:
            info = await self._on_record(task_id, owner)
            data = await self._blobs.use_spill(info.output, owner.person, lambda file: last_of(file, 4 * most))
        return data.decode(errors="replace")[-most:]

    async def write(self, task_id: str, owner: Owner, data: bytes, *, end: bool) -> None:
        task = self._tasks.get(task_id)
        if task is None or task.info.owner != owner:
            info = await self._on_record(task_id, owner)
            raise ToolError(f"{task_id} is {info.state}: it no longer reads input")
        if task.process is None:
            raise ToolError(f"{task_id} is {task.info.state}: it no longer reads input")
        process, taken = task.process, 0
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                for begin in range(0, len(data), PIECE):
                    await process.write(data[begin : begin + PIECE])
                    taken = min(begin + PIECE, len(data))
        except BrokenPipeError:
            written = f"{taken:,} of {len(data):,} bytes were written"
            raise ToolError(f"{task_id} has no open standard input: {written}") from None
        except TimeoutError:
            written = f"{taken:,} of {len(data):,} bytes were written in {WRITE_SECONDS:g} s"
            raise ToolError(f"{task_id} does not read: {written}") from None
        if end:
            process.close_input()

    async def stop(self, task_id: str, owner: Owner) -> TaskInfo:
        task = self._tasks.get(task_id)
        if task is None or task.info.owner != owner:
            return await self._on_record(task_id, owner)
        await self._stop(task)
        return await self._mark_known(task.info)

    async def forget(self, session: str) -> None:
        await self._stop_each([task for task in self._tasks.values() if _session_of(task) == session])
        for ids in (self._tasks, self.pending_reports):
            for task_id in [task_id for task_id, task in ids.items() if _session_of(task) == session]:
                del ids[task_id]

    async def stop_all(self, owner: Owner) -> int:
        return await self._stop_each([task for task in self._tasks.values() if task.info.owner == owner])

    def running(self, owner: Owner) -> int:
        return sum(task.info.running for task in self._tasks.values() if task.info.owner == owner)

    async def of(self, owner: Owner) -> Sequence[TaskInfo]:
        here = {task.info.id: task.info for task in self._tasks.values() if task.info.owner == owner}
        written = {info.id: info for info in await self._record.of(owner)}
        return sorted((written | here).values(), key=lambda info: info.began_at)

    async def news(self, owner: Owner) -> Sequence[TaskInfo]:
        found = [info for info in self.pending_reports.values() if info.owner == owner]
        if found:
            await self._record_reports(found)
        return found

    async def restore(self) -> None:
        """Mark the tasks recorded as running as lost: the daemon that ran them is gone."""
        if lost := await self._record.lose(self._clock.now()):
            log.warning("%d background tasks ended with the last daemon; their conversations are told", lost)
        self.pending_reports = {info.id: info for info in await self._record.list_pending_reports()}

    async def close(self) -> None:
        """End everything, with its processes. What ran stays on record as running, and so is lost."""
        for life in self._lives:
            life.cancel()
        if self._lives:
            await finish_despite_cancel(asyncio.wait(set(self._lives)), "end of background tasks")

    def _refuse_too_many(self, owner: Owner) -> None:
        settings = self._settings
        if self.count(owner.session) >= settings.per_session:
            own = [task.info for task in self._tasks.values() if task.info.running and task.info.owner == owner]
            named = "".join(f"; {info.id} runs `{info.label[:60]}`" for info in own[:8])
            raise ToolError(
                f"{settings.per_session} background tasks run in this conversation, which is the limit: wait for "
                f"one with task_output or end one with task_stop{named}"
            )
        if self.count() >= settings.total:
            raise ToolError("too many background tasks run on this machine: try again later")

    def _new_id(self) -> str:
        while True:
            task_id = f"task-{secrets.token_hex(4)}"
            if task_id not in self._tasks:
                return task_id

    async def _live(self, task: RunningTask) -> None:
        try:
            await task.run(self._blobs, self._record, self._settings.output_mb << 20, IN_MEMORY)
            if task.has_started:
                await task.put_on_record(self._record)
        finally:
            if not task.has_started or task.info.running:
                self._tasks.pop(task.info.id, None)
            is_awaited = task.waiting > 0 or task.stopping
            if not task.info.running:
                self.pending_reports[task.info.id] = task.info
            task.ended.set()
            task.news.set()
        if task.has_started:
            log.info("background task %s %s", task.info.id, task.info.state)
            ended = [task_id for task_id, other in self._tasks.items() if not other.info.running]
            for task_id in ended[:-MAX_ENDED]:
                del self._tasks[task_id]
            if not is_awaited:
                for tell in self._told:
                    await tell(task.info, task.work)

    def _on_end(self, life: asyncio.Task[None]) -> None:
        self._lives.discard(life)
        if not life.cancelled() and (error := life.exception()):
            log.error("%s failed", life.get_name(), exc_info=error)

    async def _stop(self, task: RunningTask) -> None:
        if task.is_at_work:
            task.stopping = True
            await task.end()
            await task.ended.wait()

    async def _stop_each(self, tasks: Sequence[RunningTask]) -> int:
        running = [task for task in tasks if task.info.running]
        await asyncio.gather(*(self._stop(task) for task in running))
        return len(running)

    async def _on_record(self, task_id: str, owner: Owner) -> TaskInfo:
        for info in await self._record.of(owner):
            if info.id == task_id:
                return await self._mark_known(info)
        raise UnknownTask(task_id)

    async def _mark_known(self, info: TaskInfo) -> TaskInfo:
        """Return the task, marked as known to the model."""
        if not info.running and not info.told:
            await self._record_reports([info])
        return info

    async def _record_reports(self, infos: Sequence[TaskInfo]) -> None:
        for info in infos:
            self.pending_reports.pop(info.id, None)
            if info.id in self._tasks:
                task = self._tasks[info.id]
                task.info = replace(task.info, told=True)
        try:
            await self._record.record_reports([info.id for info in infos])
        except DiskError as error:
            log.warning("that a task's end is known is not on record, it will be told again: %s", error)


def _session_of(task: RunningTask | TaskInfo) -> str:
    return (task.info if isinstance(task, RunningTask) else task).owner.session


class NoRecord:
    """Where there is no database: a tool that a person runs by hand."""

    async def add(self, info: TaskInfo) -> None:
        """Do nothing."""

    async def remove(self, task_id: str) -> None:
        """Do nothing."""

    async def end(self, info: TaskInfo) -> None:
        """Do nothing."""

    async def lose(self, at: float) -> int:
        return 0

    async def of(self, owner: Owner) -> Sequence[TaskInfo]:
        return ()

    async def list_pending_reports(self) -> Sequence[TaskInfo]:
        return ()

    async def record_reports(self, task_ids: Sequence[str]) -> None:
        """Do nothing."""


@asynccontextmanager
async def open_tasks(
    blobs: Blobs, clock: Clock, settings: TasksSettings, record: TaskRecord | None = None, refusal: str = ""
) -> AsyncIterator[TaskRoom]:
    """Open the room, with the tasks lost by the last daemon; running ones are ended when the block ends.

    `record`: where tasks are written down; None: nowhere. `refusal`: why nothing may be started, if nothing may.
    """
    room = TaskRoom(blobs, clock, settings, record or NoRecord(), refusal)
    await room.restore()
    try:
        yield room
    finally:
        await room.close()


class TasksOnDisk:
    """Implements `execution.tasks.base.TaskRecord`."""

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
        return [_task_info(row) for row in await self._rows.of(owner.session, owner.person)]

    async def list_pending_reports(self) -> Sequence[TaskInfo]:
        return [_task_info(row) for row in await self._rows.list_pending_reports()]

    async def record_reports(self, task_ids: Sequence[str]) -> None:
        await self._rows.record_reports(task_ids)


def _columns(info: TaskInfo) -> dict[str, Any]:
    columns = asdict(info)
    owner = columns.pop("owner")
    return {**columns, **owner, "state": info.state.value}


def _task_info(row: dict[str, Any]) -> TaskInfo:
    owner = Owner(row.pop("session"), row.pop("person"))
    return TaskInfo(**{**row, "owner": owner, "state": TaskState(row["state"]), "told": bool(row["told"])})
