"""One task from its start to its end, and its output: all of it in a file up to a bound, its end in memory.

Cancelling `RunningTask.run` ends the task with all its processes.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import BinaryIO

from goclaw.common.core.supervise import background, unless_unforeseen
from goclaw.durable.store.blobs import Blobs, Spill
from goclaw.errors import DiskError, GoclawError
from goclaw.tools.execution.sandbox.base import Process, Sandbox
from goclaw.tools.execution.tasks.base import Job, JobEnd, TaskInfo, TaskRecord, TaskState, TaskWork
from goclaw.tools.execution.terminal import Screen

log = logging.getLogger(__name__)


class Output:
    """The output of a task while it runs, and after."""

    def __init__(self, spill: Spill, most: int) -> None:
        self._spill = spill
        self._most = most
        self._screen = Screen(eager=True)
        self._tail: deque[bytes] = deque()
        self._in_tail = 0
        """Bytes of the tail."""

    @property
    def is_whole(self) -> bool:
        """Whether the file has all of it."""
        return not self._spill.truncated

    async def add(self, chunk: bytes) -> None:
        """Add output of the task."""
        await self._append(await self._screen.write(chunk))

    async def end(self) -> None:
        """Take in the rows that the task could still have drawn again."""
        rest, self._screen = self._screen.rest(), Screen()
        await self._append(rest)

    async def _append(self, text: bytes) -> None:
        if not text:
            return
        await self._spill.write(text)
        self._tail.append(text)
        self._in_tail += len(text)
        while self._in_tail - len(self._tail[0]) > self._most:
            self._in_tail -= len(self._tail.popleft())

    def tail(self) -> bytes:
        """Return its last bytes, at least as many as are kept in memory, as a terminal shows them now."""
        return b"".join([*self._tail, self._screen.rest()])


def last_of(file: BinaryIO, most: int) -> bytes:
    """Return the last bytes of a file."""
    size = file.seek(0, 2)
    file.seek(max(0, size - most))
    return file.read(most)


class RunningTask(ABC):
    """A task, and all that is known of it."""

    def __init__(self, task_id: str, work: TaskWork | Job, now: Callable[[], float]) -> None:
        self.work = work
        self._now = now
        self.info = TaskInfo(task_id, work.owner, work.label, now(), output="")
        self.output: Output | None = None
        self.process: Process | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the command runs; has the error when it could not be started."""
        self.ended = asyncio.Event()
        self.news = asyncio.Event()
        """Set when it has ended, or a job has unread output."""
        self.waiting = 0
        """Calls that wait for its end; while there are any, no other notice is needed."""
        self.stopping = False

    @property
    @abstractmethod
    def is_at_work(self) -> bool:
        """There is something that could be ended."""

    @abstractmethod
    async def end(self) -> None:
        """End the task; `stopping` says that the stop was requested."""

    @abstractmethod
    async def _to_its_end(self, output: Output) -> TaskInfo:
        """Do it, and say how it ended."""

    @property
    def has_started(self) -> bool:
        return self.started.done() and not self.started.cancelled() and self.started.exception() is None

    async def run(self, blobs: Blobs, record: TaskRecord, bound: int, memory: int) -> None:
        """Do it to its end; of its output `bound` bytes are kept in a file, the last `memory` at hand.

        Its output outlives a cancellation, which leaves the record as it is: of a task that was running.
        """
        cut: asyncio.CancelledError | None = None
        try:
            async with blobs.open_spill(self.work.owner.person, bound) as spill:
                self.output = Output(spill, memory)
                async with self._on_record(record, spill):
                    try:
                        self.info = await self._to_its_end(self.output)
                    except asyncio.CancelledError as error:
                        if not self.has_started:
                            raise
                        cut = error
                    await self.output.end()
        except GoclawError as error:
            if self.has_started:
                self.info = self._with_end(TaskState.FAILED, note=str(error))
            elif not self.started.done():
                self.started.set_exception(error)
        finally:
            self.started.cancel()  # ends the waits for a task that will not start
        if cut is not None:
            raise cut

    @asynccontextmanager
    async def _on_record(self, record: TaskRecord, spill: Spill) -> AsyncIterator[None]:
        """Put the task on record before it runs, so that its loss can be reported whatever happens."""
        self.info = replace(self.info, output=spill.name)
        await record.add(self.info)
        try:
            yield
        except BaseException:
            if not self.has_started:
                await record.remove(self.info.id)
            raise

    def _with_end(self, state: TaskState, code: int | None = None, note: str = "") -> TaskInfo:
        return replace(self.info, state=state, ended_at=self._now(), code=code, note=note)

    async def put_on_record(self, record: TaskRecord) -> None:
        """Write its end down; what cannot be written is lost at the next start, and true in memory until then."""
        try:
            await record.end(self.info)
        except DiskError as error:
            log.warning("the end of %s is not on record: %s", self.info.id, error)


class RunningCommand(RunningTask):
    """A command."""

    def __init__(self, task_id: str, work: TaskWork, now: Callable[[], float], sandbox: Sandbox) -> None:
        super().__init__(task_id, work, now)
        self._command = work
        self._sandbox = sandbox

    @property
    def is_at_work(self) -> bool:
        return self.process is not None

    async def end(self) -> None:
        if self.process is not None:
            await self.process.kill()

    async def _to_its_end(self, output: Output) -> TaskInfo:
        code, note = None, ""
        async with self._sandbox.run(self._command.command, self._command.policy) as process:
            self.process = process
            self.started.set_result(None)
            try:
                async with asyncio.timeout(self.work.seconds):
                    async for chunk in process.output:
                        await output.add(chunk)
                    code = await process.wait()
            except TimeoutError:
                note = f"it exceeded its limit of {self.work.seconds:g} s"
            finally:
                self.process = None
        if self.stopping:
            return self._with_end(TaskState.STOPPED)
        return self._with_end(TaskState.COMPLETED if code == 0 else TaskState.FAILED, code, note)


class RunningJob(RunningTask):
    """A job of the daemon."""

    def __init__(self, task_id: str, job: Job, now: Callable[[], float]) -> None:
        super().__init__(task_id, job, now)
        self._job = job
        self._result: JobEnd | None = None
        self._doing: asyncio.Task[None] | None = None

    @property
    def is_at_work(self) -> bool:
        return self._doing is not None

    async def end(self) -> None:
        self._job.stop()
        if self._doing is not None:
            self._doing.cancel()

    async def _to_its_end(self, output: Output) -> TaskInfo:
        note = ""

        async def write(text: str) -> None:
            await output.add(text.encode())
            self.news.set()

        if self._job.hands is not None:
            self._job.hands(write)
        async with background(self._do(), f"job {self.info.id}") as self._doing:
            self.started.set_result(None)
            try:
                async with asyncio.timeout(self.work.seconds):
                    await asyncio.wait({self._doing})
            except TimeoutError:
                note = f"it exceeded its limit of {self.work.seconds:g} s"
            finally:
                doing, self._doing = self._doing, None
        if self._result is not None:
            await output.add(self._result.text.encode())
            return self._with_end(TaskState.FAILED if self._result.failed else TaskState.COMPLETED)
        stopped = self.stopping and doing.cancelled()
        return self._with_end(TaskState.STOPPED if stopped else TaskState.FAILED, note=note)

    async def _do(self) -> None:
        try:
            done = await unless_unforeseen(self._job.run(), self.info.id)
        except GoclawError as error:
            done = JobEnd(str(error), failed=True)
        self._result = done or JobEnd("it failed unexpectedly; the log has the details", failed=True)
