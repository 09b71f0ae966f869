"""One task from its start to its end. Whoever cancels `run` ends the command with its whole tree."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from goclaw.blobs import Blobs, Spill
from goclaw.errors import DiskError, GoclawError
from goclaw.sandbox.base import Process, Sandbox
from goclaw.tasks.base import TaskInfo, TaskRecord, TaskState, Work
from goclaw.tasks.output import Output

log = logging.getLogger(__name__)


class RunningTask:
    """A task, and all that is known of it."""

    def __init__(self, task_id: str, work: Work, now: Callable[[], float]) -> None:
        self.work = work
        self._now = now
        self.info = TaskInfo(task_id, work.owner, work.label, now(), output="")
        self.output: Output | None = None
        self.process: Process | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the command runs; has the error when it could not be started."""
        self.ended = asyncio.Event()
        self.waiting = 0
        """Calls that wait for its end: nobody else need be told."""
        self.stopping = False

    @property
    def has_started(self) -> bool:
        return self.started.done() and not self.started.cancelled() and self.started.exception() is None

    async def run(self, sandbox: Sandbox, blobs: Blobs, record: TaskRecord, bound: int, memory: int) -> None:
        """Run the command to its end; of its output `bound` bytes are kept in a file, the last `memory` at hand.

        What it said outlives a cancellation, which leaves the record as it is: of a task that was running.
        """
        cut: asyncio.CancelledError | None = None
        try:
            async with blobs.open_spill(self.work.owner.person, bound) as spill:
                self.output = Output(spill, memory)
                async with self._on_record(record, spill):
                    try:
                        self.info = await self._to_its_end(sandbox, self.output)
                    except asyncio.CancelledError as error:
                        if not self.has_started:
                            raise
                        cut = error
        except GoclawError as error:
            if self.has_started:
                self.info = self._with_end(TaskState.FAILED, note=str(error))
            elif not self.started.done():
                self.started.set_exception(error)
        finally:
            self.started.cancel()  # nobody waits for what will not start any more
        if cut is not None:
            raise cut

    @asynccontextmanager
    async def _on_record(self, record: TaskRecord, spill: Spill) -> AsyncIterator[None]:
        """On disk before it runs: whatever comes, somebody can be told of it."""
        self.info = replace(self.info, output=spill.name)
        await record.add(self.info)
        try:
            yield
        except BaseException:
            if not self.has_started:
                await record.remove(self.info.id)
            raise

    async def _to_its_end(self, sandbox: Sandbox, output: Output) -> TaskInfo:
        code, note = None, ""
        async with sandbox.run(self.work.command, self.work.policy) as process:
            self.process = process
            self.started.set_result(None)
            try:
                async with asyncio.timeout(self.work.seconds):
                    async for chunk in process.output:
                        await output.add(chunk)
                    code = await process.wait()
            except TimeoutError:
                note = f"its time of {self.work.seconds:g} s was up"
            finally:
                self.process = None
        if self.stopping:
            return self._with_end(TaskState.STOPPED)
        return self._with_end(TaskState.COMPLETED if code == 0 else TaskState.FAILED, code, note)

    def _with_end(self, state: TaskState, code: int | None = None, note: str = "") -> TaskInfo:
        return replace(self.info, state=state, ended_at=self._now(), code=code, note=note)

    async def put_on_record(self, record: TaskRecord) -> None:
        """Write its end down; what cannot be written is lost at the next start, and true in memory until then."""
        try:
            await record.end(self.info)
        except DiskError as error:
            log.warning("the end of %s is not on record: %s", self.info.id, error)
