"""Background tasks: the interface to start, list, stop and show them. `room` implements it.

A task belongs to one session and one person: to others it does not exist. It survives the turn that started it, not the
daemon; what ran when the daemon ended is `lost`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from goclaw.common.core.events import Address
from goclaw.common.core.records import record
from goclaw.errors import ToolError
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand


class TaskState(StrEnum):
    """The states of a task."""

    RUNNING = "running"
    COMPLETED = "completed"
    """It ended with exit code 0."""
    FAILED = "failed"
    """It ended with another exit code, or its time was up."""
    STOPPED = "stopped"
    """Ended on request."""
    LOST = "lost"
    """The daemon ended while it ran, and it with the daemon."""


@record
class Owner:
    """The owner of a task."""

    session: str
    person: str
    """Actor key."""


@record
class TaskWork:
    """Work to run in the background."""

    owner: Owner
    address: Address
    """Where its end is reported."""
    label: str
    """The command on one line, for people."""
    command: SandboxCommand
    policy: Policy
    seconds: float
    turn: str = ""
    """The turn that started it."""


@record
class JobEnd:
    """The outcome of a job."""

    text: str
    failed: bool = False


@record
class Job:
    """Something that the daemon itself does in the background, instead of a command."""

    owner: Owner
    address: Address
    label: str
    run: Callable[[], Awaitable[JobEnd]]
    """Does it; cancelled when it is to end."""
    stop: Callable[[], None]
    """Called before the cancellation if the stop was requested: the job may then report its own end."""
    seconds: float
    turn: str = ""
    hands: Callable[[Callable[[str], Awaitable[None]]], None] | None = None
    """Given, before it runs, what adds to its output while it goes on; None: it says something at its end only."""


@record
class TaskInfo:
    """A task at one moment."""

    id: str
    owner: Owner
    label: str
    began_at: float
    output: str
    """`output:<id>`: where all that it said is kept, as `read` takes it."""
    state: TaskState = TaskState.RUNNING
    ended_at: float | None = None
    code: int | None = None
    """Exit code, of a task that ended by itself."""
    note: str = ""
    """More about its end: that its time was up."""
    told: bool = False
    """The session's model knows of its end."""

    @property
    def running(self) -> bool:
        return self.state is TaskState.RUNNING

    @property
    def end(self) -> str:
        """How it stands, in words: `failed (exit code 3)`."""
        more = "; ".join(filter(None, ("" if self.code is None else f"exit code {self.code}", self.note)))
        return f"{self.state.value} ({more})" if more else self.state.value


class UnknownTask(ToolError):
    """No such task, or another person's: one answer for both."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"unknown task: {task_id[:80]}; task_list shows the tasks of this conversation")


class TaskRecord(Protocol):
    """Where tasks are written down, so that a restart can report them. Raises DiskError."""

    async def add(self, info: TaskInfo) -> None: ...

    async def remove(self, task_id: str) -> None: ...

    async def end(self, info: TaskInfo) -> None: ...

    async def lose(self, at: float) -> int:
        """Mark all running tasks on disk as lost; returns their number."""
        ...

    async def of(self, owner: Owner) -> Sequence[TaskInfo]:
        """Return the tasks of an owner, the oldest first."""
        ...

    async def list_pending_reports(self) -> Sequence[TaskInfo]:
        """Return the ended tasks, of all owners, that the model has not been told about."""
        ...

    async def record_reports(self, task_ids: Sequence[str]) -> None:
        """Record that the model knows of the ends of these."""
        ...


class Tasks(Protocol):
    """The background tasks. Whatever takes a task's id raises UnknownTask where the owner has none of that id."""

    @property
    def pending_reports(self) -> Mapping[str, TaskInfo]:
        """Ended tasks, of all owners, that the model has not been told about, by id."""
        ...

    def count(self, session: str | None = None) -> int:
        """Return the number of running tasks, of a session or of all."""
        ...

    async def start(self, work: TaskWork, sandbox: Sandbox) -> TaskInfo:
        """Run it; returns when it runs.

        Raises:
            ToolError: too many run already.
            SandboxUnavailable: it could not be started contained.
        """
        ...

    async def start_job(self, job: Job) -> TaskInfo:
        """Do a job; returns when it is being done. Raises ToolError as `start` does."""
        ...

    async def wait(self, task_id: str, owner: Owner, seconds: float) -> TaskInfo:
        """Return the task once it ended or has unread output (`Job.hands`), or after `seconds`."""
        ...

    async def tail(self, task_id: str, owner: Owner, most: int) -> str:
        """Return its last output, at most so many characters."""
        ...

    async def write(self, task_id: str, owner: Owner, data: bytes, *, end: bool) -> None:
        """Hand data to its standard input, and close that if it is the `end`.

        Raises:
            ToolError: it has ended, or reads no input (now).
        """
        ...

    async def stop(self, task_id: str, owner: Owner) -> TaskInfo:
        """End it with its whole tree; one that has ended stays as it is."""
        ...

    async def stop_all(self, owner: Owner) -> int:
        """End all that the owner has running; returns how many tasks that were."""
        ...

    def running(self, owner: Owner) -> int:
        """Return the number of running tasks of the owner."""
        ...

    async def of(self, owner: Owner) -> Sequence[TaskInfo]:
        """Return the tasks of an owner, the oldest first; ended ones for a while."""
        ...

    async def news(self, owner: Owner) -> Sequence[TaskInfo]:
        """Return the ended tasks that the model does not know of yet, and mark them as known."""
        ...

    async def forget(self, session: str) -> None:
        """End the tasks of a session, and forget them."""
        ...
