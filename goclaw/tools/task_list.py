"""The `task_list` tool: the background tasks of the conversation."""

from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import BoundedResult
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.background import TaskResult, owner_of, shown

MAX_TASKS = 50


class TaskList(BoundedResult):
    """Tasks, the latest first."""

    tasks: list[TaskResult]

    def text(self) -> str:
        """Return one line for each task."""
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
    call_hint="Listing background tasks",
    result_hint="{{ total }} background tasks",
    examples=(Example("All tasks", {}, "no background tasks in this conversation"),),
)
async def task_list(ctx: ToolContext) -> TaskList:
    """List the background tasks of this conversation, the latest first: id, state, how long they ran, their command.

    Ended tasks stay listed for a week.
    """
    found = await ctx.tasks.of(owner_of(ctx))
    tasks = [TaskResult(**shown(info, ctx)) for info in reversed(found)]
    cut = len(tasks) > MAX_TASKS
    return TaskList(
        tasks=tasks[:MAX_TASKS],
        returned=min(len(tasks), MAX_TASKS),
        total=len(tasks),
        truncated=cut,
        refinement_hint="older ones are found by their id with task_output" if cut else "",
    )
