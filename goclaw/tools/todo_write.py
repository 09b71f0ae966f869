"""The `todo_write` tool."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from goclaw.events import Todo
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse

MAX_TODOS = 50
"""More is a plan for a file, not a list that is shown beside a conversation."""


class TodoLine(BaseModel):
    """One line of the list."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Annotated[str, Field(description="What is to be done, in a few words", min_length=1, max_length=300)]
    status: Annotated[Literal["pending", "in_progress", "completed"], Field(description="How far it is")] = "pending"


class Kept(Result):
    """The list as it stands now."""

    done: Annotated[int, Field(description="Lines that are completed")]
    total: Annotated[int, Field(description="All lines")]

    def text(self) -> str:
        return f"{self.done} of {self.total} done" if self.total else "the list is empty"


def _access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    return ResourceUse(orders=("todos",))  # the last list counts


@tool(
    side_effect=SideEffect.NONE,
    title="To-do list",
    tags=("conversation",),
    access=_access,
    call_hint="Noting what is to be done: {{ todos | count }}",
    result_hint="{{ done }} of {{ total }} done",
    examples=(
        Example(
            "Begin with the first of two steps",
            {"todos": [{"content": "Read the log", "status": "in_progress"}, {"content": "Write the report"}]},
            output="0 of 2 done",
        ),
        Example("Take the list away", {"todos": []}, output="the list is empty"),
    ),
)
async def todo_write(
    ctx: ToolContext,
    todos: Annotated[list[TodoLine], Field(description="The whole list, every time", max_length=MAX_TODOS)],
) -> Kept:
    """Keep a list of what is to be done, shown to the user while you work. Each call replaces the list in full.

    Use it for work of three steps or more; have one line in progress at a time; an empty list removes it.
    """
    await ctx.keep_todos([Todo(line.content, line.status) for line in todos])
    done = sum(line.status == "completed" for line in todos)
    return Kept(done=done, total=len(todos))
