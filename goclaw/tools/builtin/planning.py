"""The tools for the agent's plans: the to-do list (`todo_write`), and the end of plan mode (`exit_plan_mode`)."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from goclaw.common.config.values import Mode
from goclaw.common.core.events import Question, Todo
from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.tools.builtin.text import encode
from goclaw.tools.toolkit.base import ToolContext, offered, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

MAX_TODOS = 50
"""A longer plan belongs in a file, not in a list next to a conversation."""


class TodoLine(BaseModel, extra="forbid", strict=True):
    """One line of the list."""

    content: Annotated[str, Field(description="What is to be done, in a few words", min_length=1, max_length=300)]
    status: Annotated[Literal["pending", "in_progress", "completed"], Field(description="How far it is")] = "pending"


class KeptTodos(Result):
    """The list as it stands now."""

    done: Annotated[int, Field(description="Lines that are completed")]
    total: Annotated[int, Field(description="All lines")]

    def text(self) -> str:
        return f"{self.done} of {self.total} done" if self.total else "the list is empty"


@tool(
    side_effect=SideEffect.NONE,
    title="To-do list",
    tags=("conversation",),
    access=lambda arguments, ctx: ResourceUse(orders=("todos",)),  # the last list counts
    does="keep to-do lists",
    call_hint="Noting what is to be done: {{ todos | count }}",
    result_hint="To-do list: {{ done }} of {{ total }} done",
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
) -> KeptTodos:
    """Keep a list of what is to be done, shown to the user while you work. Each call replaces the list in full.

    Use it for work of three steps or more; have one line in progress at a time; an empty list removes it.
    """
    await ctx.keep_todos([Todo(line.content, line.status) for line in todos])
    done = sum(line.status == "completed" for line in todos)
    return KeptTodos(done=done, total=len(todos))


APPROVE, KEEP = "Approve", "Keep planning"
MAX_PLAN = 3_000
"""Maximum characters: people have to read the plan, and the whole question fits into one chat message."""


class PlanResult(Result):
    """What the person said to a plan."""

    approved: bool
    mode: Annotated[Mode, Field(description="The permission mode from now on.")]
    said: Annotated[str, Field(description="What the person wants otherwise.")] = ""
    was_planning: Annotated[bool, Field(description="False: there was no plan mode to leave.")] = True

    def text(self) -> str:
        if not self.was_planning:
            return f"there is no plan mode to leave: the mode is {self.mode}. Nobody was asked; go on"
        if self.approved:
            return f"the person approved the plan; the mode is {self.mode} now. Carry it out"
        wish = f" and said:\n{self.said}" if self.said else ""
        return f"the person did not approve the plan{wish}\nplan mode goes on: change the plan, or ask what is missing"


@offered(only_in="plan")
@tool(
    side_effect=SideEffect.READ_ONLY,
    own_timeout=True,
    foreign=False,
    title="Plan for approval",
    tags=("conversation",),
    annotations=Annotations(read_only=False, destructive=False, idempotent=True, open_world=False),
    access=lambda arguments, ctx: ResourceUse(alone=True),  # calls after it were written before the approval
    does="propose plans",
    call_hint="Asking for approval of the plan",
    result_hint=(
        "{% if approved %}Plan approved{% elif was_planning %}Plan not approved{% else %}No plan mode{% endif %}"
    ),
    examples=(
        Example(
            "Where no plan is wanted nobody is asked",
            {"plan": "1. Read the log\n2. Mend the query"},
            "there is no plan mode to leave: the mode is default",
        ),
    ),
)
async def exit_plan_mode(
    ctx: ToolContext,
    plan: Annotated[str, Field(min_length=1, max_length=MAX_PLAN, description="The plan, as Markdown.")],
) -> PlanResult:
    """Put the plan that you made in plan mode before the person. When they approve it, plan mode ends.

    Only in plan mode, and only when the plan is whole: what is unclear ask first, with ask_user. Nothing that the plan
    wants may be done before the answer.
    """
    encode(plan, "plan")
    if (mode := ctx.mode()) != "plan":
        return PlanResult(approved=False, mode=mode, was_planning=False)
    question = Question(
        id="",
        kind="question",
        asker="",
        title="Approve this plan?",
        text=plan,
        options=(APPROVE, KEEP),
        free_text=True,
        required=False,
    )
    answer = await ctx.ask(question)
    if answer != APPROVE:
        return PlanResult(approved=False, mode=ctx.mode(), said="" if answer in (None, KEEP) else answer or "")
    # Never a mode without approvals.
    await ctx.leave_plan("accept-edits" if ctx.config.policy.mode == "accept-edits" else "default")
    return PlanResult(approved=True, mode=ctx.mode())
