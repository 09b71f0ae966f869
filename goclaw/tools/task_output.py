"""The `task_output` tool: what a background task said, now or at its end."""

from typing import Annotated

from pydantic import Field

from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.scheduling import Access
from goclaw.tools.background import LONGEST_WAIT, TaskId, TaskResult, owner_of, shown

_DEFAULT_WAIT = 30


class TaskOutput(TaskResult):
    """How a task stands, and what it said last."""

    said: Annotated[str, Field(description="The last of its output.")]
    limit: int

    def text(self) -> str:
        """Its output, and its state in a line of its own."""
        said = self.said if not self.said or self.said.endswith("\n") else f"{self.said}\n"
        if len(self.said) >= self.limit:
            said = f"[the last {self.limit:,} characters; more is kept as {self.output}]\n{said}"
        return f"{said}{self.task} {self.end} after {self.seconds:,} s"


@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Look at a background task",
    tags=("shell",),
    own_timeout=True,
    access=lambda arguments, ctx: Access(),
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
        int, Field(ge=1, le=LONGEST_WAIT, description="Seconds to wait at most; it goes on after that.")
    ] = _DEFAULT_WAIT,
) -> TaskOutput:
    """Show what a background task said last and how it stands: running, completed, failed, stopped or lost.

    All that it said is kept for a while; `read` opens it by the name that is told.
    """
    owner, limit = owner_of(ctx), ctx.config.tools.exec.output_limit
    info = await ctx.tasks.wait(task_id, owner, timeout if block else 0)
    said = await ctx.tasks.tail(task_id, owner, limit)
    return TaskOutput(**shown(info, ctx), said=said, limit=limit)
