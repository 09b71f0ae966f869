"""The `agent` tool: hands a task to an agent with a conversation of its own. See docs/agents.md."""

from typing import Annotated

from pydantic import Field

from goclaw.common.core.messages import SourceKind
from goclaw.common.specs import Annotations, Example, Risk, SideEffect
from goclaw.errors import InvalidInput
from goclaw.tools.builtin.background_tasks import started_text
from goclaw.tools.builtin.worktree import worktree_for
from goclaw.tools.toolkit.agent_tasks import AgentTask, KeptWorktree
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

MAX_TASK = 50_000
MAX_DESCRIPTION = 80


class AgentResult(Result):
    """What came of a task."""

    agent: Annotated[str, Field(description="The agent's id; its conversation is kept as `<session>/agent:<id>`.")]
    kind: str
    answer: Annotated[str, Field(description="Its last words.")]
    requests: Annotated[int, Field(ge=0, description="How often it asked its model, those of its own agents included.")]
    tokens: Annotated[int, Field(ge=0)]
    task: Annotated[str, Field(description="Of one in the background: its id for the tools for tasks.")] = ""
    output: Annotated[str, Field(description="Of one in the background: where its answer will be, for `read`.")] = ""

    worktree: Annotated[
        str, Field(description="Of one with a worktree in which something changed: where it is, in the workspace.")
    ] = ""
    branch: Annotated[str, Field(description="The branch of that worktree.")] = ""
    changes: Annotated[str, Field(description="What changed there: `git diff --stat`, new files, new commits.")] = ""

    def text(self) -> str:
        """Return its last words and the place of its work, which is all that its caller needs."""
        if self.task:
            return started_text(self.task, self.output)
        kept = KeptWorktree(self.worktree, self.branch, self.changes).text() if self.worktree else ""
        return "\n\n".join(filter(None, (self.answer, kept)))


@tool(
    side_effect=SideEffect.SPAWNS,
    # What the agent does is authorized and asked for call by call: to start one changes nothing yet.
    risk=Risk.LOW,
    idempotent=True,  # its steps are steps of the turn: called again after a crash, it goes on where it was
    own_timeout=True,
    runs_steps=True,
    foreign=True,
    tags=("agents",),
    annotations=Annotations("Agent for a task", read_only=False, destructive=False, idempotent=True, open_world=True),
    access=lambda arguments, ctx: ResourceUse(),
    asks="start another agent",
    does="start other agents",
    call_hint="{{ kind or 'agent' }}: {{ description or (task | truncate(100)) }}",
    result_hint="{{ args.description or kind }}: {{ task ~ ' started' if task else requests ~ ' requests, ' ~ "
    "tokens ~ ' tokens' }}{{branch and ', '~branch}}",
    examples=(
        Example(
            "Have something looked up",
            {
                "description": "Find the tests of the parser",
                "task": "Find all tests that concern the parser in this workspace. Answer with their paths and, in a "
                "line each, what they check.",
            },
            output="tests/test_parser.py",
        ),
        Example(
            "Have something changed apart from the workspace",
            {
                "description": "Try the new parser",
                "task": "Put the new parser in the place of the old one, run the tests, and commit when they pass. "
                "Answer with what had to be changed.",
                "worktree": True,
            },
            output="tests/test_parser.py",
        ),
    ),
)
async def agent(
    ctx: ToolContext,
    task: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_TASK,
            description="The whole task: the agent knows nothing of this conversation. Say what its answer must hold.",
        ),
    ],
    kind: Annotated[str, Field(max_length=40, description="Which kind of agent; left out: the usual one.")] = "",
    description: Annotated[
        str, Field(max_length=MAX_DESCRIPTION, description="The task in three to six words, for people.")
    ] = "",
    run_in_background: Annotated[
        bool, Field(description="Do not wait for it: you are told when it has ended, task_output shows its answer.")
    ] = False,
    worktree: Annotated[
        bool,
        Field(
            description="It works in a git worktree of its own, made from the last commit, on a branch of its own. If "
            "nothing changed there, it is removed; else you are told where it is, to merge or to remove."
        ),
    ] = False,
) -> AgentResult:
    """Have another agent do a task in a conversation of its own, and read its answer.

    For work that takes many steps and of which only the outcome counts: a search through many files, a question that
    needs research, a part that can be done by itself. It has your rights and at most your tools, and it cannot ask you
    anything. Several calls in one answer work at the same time: let them not change the same files (or
    give each a worktree). What can be done in
    one or two calls you do yourself.
    """
    if not task.strip():
        raise InvalidInput('field "task": expected a task in words')
    ctx.set_source(SourceKind.DOCUMENT)  # until it is known what the agent has read
    place = worktree_for(ctx) if worktree else None
    report = await ctx.spawn(AgentTask(task, kind, description, run_in_background, place))
    ctx.set_source(report.source)
    kept = report.kept or KeptWorktree("", "", "")
    return AgentResult(
        agent=report.agent,
        kind=report.kind,
        answer=report.answer,
        requests=report.requests,
        tokens=report.tokens,
        task=report.task,
        output=report.output,
        worktree=kept.worktree,
        branch=kept.branch,
        changes=kept.changes,
    )
