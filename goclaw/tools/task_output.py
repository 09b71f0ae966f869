"""The `task_output` tool: the output of a background task, now or at its end."""

from typing import Annotated

from pydantic import Field

from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.background import MAX_WAIT, TaskId, TaskResult, owner_of, shown
from goclaw.tools.text import last_lines

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
    owner, limit = owner_of(ctx), ctx.config.tools.exec.output_limit
    info = await ctx.tasks.wait(task_id, owner, timeout if block else 0)
    said = await ctx.tasks.tail(task_id, owner, limit)
    return TaskOutput(**shown(info, ctx), said=said, limit=limit)
