"""Helpers shared by the tools for background tasks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from goclaw.errors import InvalidInput
from goclaw.redact import mask
from goclaw.sandbox.base import SandboxCommand
from goclaw.tasks.base import Owner, TaskInfo, TaskWork
from goclaw.toolkit.base import ToolContext
from goclaw.toolkit.results import Result
from goclaw.tools.exec_policy import policy_of
from goclaw.tools.exec_run import environment

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
    """Whose tasks a call may know of."""
    return Owner(ctx.session, ctx.actor.key)


def shown(info: TaskInfo, ctx: ToolContext) -> dict[str, Any]:
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
        raise InvalidInput(f'field "timeout": expected at most {most:g} (tools.tasks.minutes), got {seconds:g}')
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
