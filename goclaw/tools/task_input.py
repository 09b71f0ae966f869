"""The `task_input` tool: more standard input for a background task."""

from typing import Annotated

from pydantic import Field

from goclaw.errors import InvalidInput
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.background import TaskId, owner_of
from goclaw.tools.exec_run import command_risk
from goclaw.tools.text import encoded

MAX_INPUT = 100_000


class TaskInput(Result):
    """What a task was given."""

    task: str
    size: Annotated[int, Field(ge=0, description="Bytes.")]
    closed: bool

    def text(self) -> str:
        """Return one line."""
        closed = "; its standard input is closed" if self.closed else ""
        return f"{self.task} took {self.size:,} bytes{closed}"


@tool(
    # As `exec`: what an interpreter reads, it runs.
    side_effect=SideEffect.SPAWNS,
    risk=command_risk,
    idempotent=False,
    title="Write to a background task",
    tags=("shell",),
    foreign=False,
    access=lambda arguments, ctx: ResourceUse(orders=(arguments.task_id,)),
    call_hint="Writing to {{ task_id }}: {{ text | truncate(60) }}",
    result_hint="{{ task }} took {{ size }} bytes",
    examples=(
        Example("Answer what it asks", {"task_id": "task-0a1b2c3d", "text": "yes\n"}, "task-0a1b2c3d took 4 bytes"),
    ),
)
async def task_input(
    ctx: ToolContext,
    task_id: TaskId,
    text: Annotated[
        str, Field(max_length=MAX_INPUT, description="What is written, as it is: a line needs its line end.")
    ] = "",
    close: Annotated[bool, Field(description="Close its standard input behind the text.")] = False,
) -> TaskInput:
    """Write to the standard input of a background task that was started with `keep_stdin`, or close it."""
    if not text and not close:
        raise InvalidInput('field "text": expected text, or `close`; there is nothing to do')
    data = encoded(text, "text")
    await ctx.tasks.write(task_id, owner_of(ctx), data, end=close)
    return TaskInput(task=task_id, size=len(data), closed=close)
