"""The `task_stop` tool: ends a background task."""

from goclaw.specs import Example, Risk, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.background import TaskId, TaskResult, owner_of, shown


class StoppedTask(TaskResult):
    """How a task ended."""

    def text(self) -> str:
        """Return one line."""
        return f"{self.task} {self.end} after {self.seconds:,} s; all that it said is kept as {self.output}"


@tool(
    side_effect=SideEffect.MUTATING,
    risk=Risk.LOW,  # what it ends was started by the same person in the same conversation
    title="Stop a background task",
    tags=("shell",),
    access=lambda arguments, ctx: ResourceUse(orders=(arguments.task_id,)),
    call_hint="Stopping {{ task_id }}",
    result_hint="{{ task }}: {{ state }}",
    examples=(Example("End a task", {"task_id": "task-0a1b2c3d"}, "task-0a1b2c3d stopped"),),
)
async def task_stop(ctx: ToolContext, task_id: TaskId) -> StoppedTask:
    """End a background task with all its processes. One that has ended already stays as it is."""
    return StoppedTask(**shown(await ctx.tasks.stop(task_id, owner_of(ctx)), ctx))
