"""Start background tasks, and the tools for them: `task_output`, `task_input`, `task_list`, `task_stop`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.core.messages import SourceKind
from goclaw.common.core.redact import mask
from goclaw.common.specs import Example, Risk, SideEffect
from goclaw.errors import InvalidInput
from goclaw.tools.approval.guard import Route, Sink
from goclaw.tools.builtin.command_approval import command_risk
from goclaw.tools.builtin.exec_run import environment, policy_of
from goclaw.tools.builtin.text import encode, last_lines
from goclaw.tools.execution.sandbox.base import SandboxCommand
from goclaw.tools.execution.tasks.base import Owner, TaskInfo, TaskWork
from goclaw.tools.toolkit.base import ToolContext, guarded, tool
from goclaw.tools.toolkit.results import BoundedResult, Result
from goclaw.tools.toolkit.scheduling import ResourceUse

MAX_LABEL = 200
MAX_WAIT = 300
"""Seconds that a call may wait, as `exec` may run."""
MAX_SECONDS = 7 * 24 * 3600

TaskId = Annotated[str, Field(min_length=1, max_length=100, description="Id of the task: `task-…`.")]
TaskSeconds = Annotated[
    int | None,
    Field(ge=1, le=MAX_SECONDS, description="Seconds that it may run (default and most: tools.tasks.minutes)."),
]


class TaskResult(Result):
    """A background task at one moment."""

    task: str
    command: str
    state: str
    exit_code: int | None = None
    note: str = ""
    output: Annotated[str, Field(description="`output:<id>`: all that it said, for `read`.")]
    seconds: Annotated[int, Field(ge=0, description="How long it has run, or ran.")]

    @property
    def end(self) -> str:
        """`failed (exit code 3)`."""
        more = "; ".join(filter(None, ("" if self.exit_code is None else f"exit code {self.exit_code}", self.note)))
        return f"{self.state} ({more})" if more else self.state


def owner_of(ctx: ToolContext) -> Owner:
    """Return the owner of the tasks that a call may know of."""
    return Owner(ctx.session, ctx.actor.key)


def task_fields(info: TaskInfo, ctx: ToolContext) -> dict[str, Any]:
    """Return the fields of a `TaskResult`."""
    until = ctx.clock.now() if info.ended_at is None else info.ended_at
    return {
        "task": info.id,
        "command": info.label,
        "state": info.state.value,
        "exit_code": info.code,
        "note": info.note,
        "output": info.output,
        "seconds": max(0, round(until - info.began_at)),
    }


async def start_task(
    ctx: ToolContext,
    argv: Sequence[str],
    folder: Path,
    label: str,
    *,
    seconds: float | None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    keeps_input: bool = False,
) -> TaskInfo:
    """Run `argv` in `folder` of the workspace in the background, contained as `exec` is.

    Raises:
        InvalidInput: it wants more time than there is.
        ToolError: too many tasks run.
        SandboxUnavailable: nothing contains it here.
    """
    most = ctx.config.tools.tasks.minutes * 60
    if seconds is not None and seconds > most:
        raise InvalidInput(f'field "timeout": expected at most {most:g}, got {seconds:g}')
    variables = {**environment(ctx.config.tools.exec), **(env or {})}
    work = TaskWork(
        owner=owner_of(ctx),
        address=ctx.address,
        label=mask(" ".join(label.split()))[:MAX_LABEL],
        command=SandboxCommand(tuple(argv), folder, variables, stdin, keeps_input),
        policy=await policy_of(ctx),
        seconds=seconds or most,
        turn=ctx.turn,
    )
    return await ctx.tasks.start(work, ctx.sandbox)


def started_text(task: str, output: str) -> str:
    """Return the model's text about a task that was started."""
    return (
        f"started {task} in the background; task_output waits for it or shows what it said so far, task_stop ends it, "
        f"all that it says is kept as {output}"
    )


_DEFAULT_WAIT = 30


class TaskOutput(TaskResult):
    """How a task stands, and what it said last."""

    said: Annotated[str, Field(description="The last of its output.")]
    limit: int

    def text(self) -> str:
        """Return its output, and its state in a line of its own."""
        said = self.said
        if len(said) >= self.limit:
            said = last_lines(said, self.limit, from_a_line=False)
            said = f"[the last {len(said):,} characters; more is kept as {self.output}]\n{said}"
        if said and not said.endswith("\n"):
            said += "\n"
        return f"{said}{self.task} {self.end} after {self.seconds:,} s"


@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Look at a background task",
    tags=("shell",),
    own_timeout=True,
    access=lambda arguments, ctx: ResourceUse(),
    does="watch background tasks",
    call_hint="{% if block %}Waiting for{% else %}Looking at{% endif %} {{ task_id }}",
    result_hint="{{ task }}: {{ state }}",
    examples=(
        Example("What a task said so far", {"task_id": "task-0a1b2c3d", "block": False}, "task-0a1b2c3d running"),
    ),
)
async def task_output(
    ctx: ToolContext,
    task_id: TaskId,
    block: Annotated[bool, Field(description="Wait for its end; false: tell at once how it stands.")] = True,
    timeout: Annotated[
        int, Field(ge=1, le=MAX_WAIT, description="Seconds to wait at most; it goes on after that.")
    ] = _DEFAULT_WAIT,
) -> TaskOutput:
    """Show what a background task said last and how it stands: running, completed, failed, stopped or lost.

    All that it said is kept for a while; `read` opens it by the name that is told.
    """
    ctx.set_source(SourceKind.DOCUMENT)  # an agent's words may come from anywhere
    owner, limit = owner_of(ctx), ctx.config.tools.exec.output_limit
    info = await ctx.tasks.wait(task_id, owner, timeout if block else 0)
    said = await ctx.tasks.tail(task_id, owner, limit)
    return TaskOutput(**task_fields(info, ctx), said=said, limit=limit)


BACKGROUND = Sink(Route.LASTING, "a command goes on in the background")
MAX_TASK_INPUT = 100_000


class TaskInput(Result):
    """What a task was given."""

    task: str
    size: Annotated[int, Field(ge=0, description="Bytes.")]
    closed: bool

    def text(self) -> str:
        closed = "; its standard input is closed" if self.closed else ""
        return f"{self.task} took {self.size:,} bytes{closed}"


@guarded(lambda arguments, ctx: BACKGROUND)
@tool(
    # As `exec`: what an interpreter reads, it runs.
    side_effect=SideEffect.SPAWNS,
    risk=command_risk,
    idempotent=False,
    title="Write to a background task",
    tags=("shell",),
    foreign=False,
    access=lambda arguments, ctx: ResourceUse(orders=(arguments.task_id,)),
    asks="type something into {{ task_id }}",
    does="control background tasks",
    call_hint="Writing to {{ task_id }}: {{ text | truncate(60) }}",
    result_hint="Sent {{ size }} bytes to {{ task }}",
    examples=(
        Example("Answer what it asks", {"task_id": "task-0a1b2c3d", "text": "yes\n"}, "task-0a1b2c3d took 4 bytes"),
    ),
)
async def task_input(
    ctx: ToolContext,
    task_id: TaskId,
    text: Annotated[
        str, Field(max_length=MAX_TASK_INPUT, description="What is written, as it is: a line needs its line end.")
    ] = "",
    close: Annotated[bool, Field(description="Close its standard input behind the text.")] = False,
) -> TaskInput:
    """Write to the standard input of a background task that was started with `keep_stdin`, or close it."""
    if not text and not close:
        raise InvalidInput('field "text": expected text, or `close`; there is nothing to do')
    data = encode(text, "text")
    await ctx.tasks.write(task_id, owner_of(ctx), data, end=close)
    return TaskInput(task=task_id, size=len(data), closed=close)


MAX_TASKS = 50


class TaskList(BoundedResult):
    """Tasks, the latest first."""

    tasks: list[TaskResult]

    def text(self) -> str:
        lines = [f"{task.task} {task.end}, {task.seconds:,} s: {task.command}" for task in self.tasks]
        if self.truncated:
            lines.append(f"[{self.returned} of {self.total}; {self.refinement_hint}]")
        return "\n".join(lines) or "no background tasks in this conversation"


@tool(
    side_effect=SideEffect.READ_ONLY,
    title="List background tasks",
    tags=("shell",),
    foreign=False,
    bounded=True,
    access=lambda arguments, ctx: ResourceUse(),
    does="watch background tasks",
    call_hint="Listing background tasks",
    result_hint="Listed {{ total }} background tasks",
    examples=(Example("All tasks", {}, "no background tasks in this conversation"),),
)
async def task_list(ctx: ToolContext) -> TaskList:
    """List the background tasks of this conversation, the latest first: id, state, how long they ran, their command.

    Ended tasks stay listed for a week.
    """
    found = await ctx.tasks.of(owner_of(ctx))
    tasks = [TaskResult(**task_fields(info, ctx)) for info in reversed(found)]
    cut = len(tasks) > MAX_TASKS
    return TaskList(
        tasks=tasks[:MAX_TASKS],
        returned=min(len(tasks), MAX_TASKS),
        total=len(tasks),
        truncated=cut,
        refinement_hint="older ones are found by their id with task_output" if cut else "",
    )


class StoppedTask(TaskResult):
    """How a task ended."""

    def text(self) -> str:
        return f"{self.task} {self.end} after {self.seconds:,} s; all that it said is kept as {self.output}"


@tool(
    side_effect=SideEffect.MUTATING,
    risk=Risk.LOW,  # what it ends was started by the same person in the same conversation
    title="Stop a background task",
    tags=("shell",),
    access=lambda arguments, ctx: ResourceUse(orders=(arguments.task_id,)),
    asks="stop {{ task_id }}",
    does="control background tasks",
    call_hint="Stopping {{ task_id }}",
    result_hint="{{ task }}: {{ state }}",
    examples=(Example("End a task", {"task_id": "task-0a1b2c3d"}, "task-0a1b2c3d stopped"),),
)
async def task_stop(ctx: ToolContext, task_id: TaskId) -> StoppedTask:
    """End a background task with all its processes. One that has ended already stays as it is."""
    return StoppedTask(**task_fields(await ctx.tasks.stop(task_id, owner_of(ctx)), ctx))
