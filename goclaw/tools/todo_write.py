"""The `todo_write` tool."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from goclaw.events import Todo
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool

MOST_TODOS = 50
"""More is a plan for a file, not a list that is shown beside a conversation."""


class TodoLine(BaseModel):
    """One line of the list."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Annotated[str, Field(description="What is to be done, in a few words", min_length=1, max_length=300)]
    status: Annotated[Literal["pending", "in_progress", "completed"], Field(description="How far it is")] = "pending"


@tool(side_effect=SideEffect.NONE)
async def todo_write(
    ctx: ToolContext,
    todos: Annotated[list[TodoLine], Field(description="The whole list, every time", max_length=MOST_TODOS)],
) -> str:
    """Keep a list of what is to be done, shown to the user while you work. Each call replaces the list in full.

    Use it for work of three steps or more; have one line in progress at a time; an empty list removes it.
    """
    await ctx.keep_todos([Todo(line.content, line.status) for line in todos])
    done = sum(line.status == "completed" for line in todos)
    return f"{done} of {len(todos)} done" if todos else "the list is empty"
