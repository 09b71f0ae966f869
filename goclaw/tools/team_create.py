"""The `team_create` tool: agents that work in the background, wait, and write to each other. See docs/agents.md."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from goclaw.errors import InvalidInput, ToolError
from goclaw.specs import Annotations, Example, Risk, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.toolkit.teaming import AGENT, ALL, LEAD, NewMember
from goclaw.tools.agent import MAX_TASK

NAME = r"^[a-z][a-z0-9_-]{0,31}$"
"""Names stand in prompts, in reminders and in `/status`."""
MAX_MEMBERS = 8

TeamName = Annotated[
    str, Field(pattern=NAME, description="The team's name: small letters, digits, `_` and `-`, at most 32.")
]


class Wanted(BaseModel):
    """A member of a team that is to be made."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[
        str,
        Field(pattern=NAME, description=f"Small letters, digits, `_` and `-`, at most 32; not `{LEAD}` or `{ALL}`."),
    ]
    task: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_TASK,
            description="Its whole first task: it knows nothing of this conversation.",
        ),
    ]
    kind: Annotated[str, Field(max_length=40, description="Which kind of agent; left out: the usual one.")] = ""


class Member(BaseModel):
    """A member at work."""

    name: str
    kind: str
    agent: Annotated[str, Field(description="The agent's id; its conversation is kept as `<session>/agent:<id>`.")]
    task: Annotated[str, Field(description="Its id for the tools for tasks.")]
    output: Annotated[str, Field(description="`output:<id>`: all that it says, for `read`.")]


class CreatedTeam(Result):
    """A team at work."""

    team: str
    members: list[Member]

    def text(self) -> str:
        """Return the members, and how to reach them."""
        lines = [f"{member.name} ({member.kind}): {member.task}, {member.output}" for member in self.members]
        return "\n".join(
            [
                f"the team {self.team} is at work:",
                *lines,
                "task_output of a member waits for what it says next; send_message gives it more to do.",
            ]
        )


@tool(
    side_effect=SideEffect.SPAWNS,
    # As of `agent`: what members do is authorized and asked for call by call.
    risk=Risk.LOW,
    idempotent=False,  # made once: what a crash cuts is lost
    foreign=False,
    tags=("agents",),
    annotations=Annotations("Make a team", read_only=False, destructive=False, idempotent=False, open_world=True),
    access=lambda arguments, ctx: ResourceUse(orders=("team",)),
    call_hint="Making the team {{ name }}",
    result_hint="the team {{ team }} is at work",
    examples=(
        Example(
            "Two that work together",
            {
                "name": "review",
                "members": [
                    {"name": "reader", "task": "Read src/parser.py and send `critic` each thing that looks wrong."},
                    {"name": "critic", "task": "Wait for what `reader` finds; check it, and tell the lead what holds."},
                ],
            },
            "the team review is at work",
        ),
    ),
)
async def team_create(
    ctx: ToolContext,
    name: TeamName,
    members: Annotated[
        list[Wanted], Field(min_length=1, max_length=MAX_MEMBERS, description=f"Its members, at most {MAX_MEMBERS}.")
    ],
) -> CreatedTeam:
    """Make a team of agents that work in the background and write to each other and to you.

    For work of several parts that need each other's findings; for one task there is `agent`. Each member does its task
    in a conversation of its own, then waits: a message begins its next turn. You read what a member says with
    task_output, which waits for it, and are reminded when there is something new. Members have your rights and at most
    your tools, and make no teams. There is one team in a conversation. End it with team_delete when it is done.
    """
    fixed = _fixed(ctx)
    for number, member in enumerate(members):
        if member.name in (LEAD, ALL):
            raise InvalidInput(f'field "members.{number}.name": {member.name} means somebody else already')
        if not member.task.strip():
            raise InvalidInput(f'field "members.{number}.task": expected a task in words')
        if any(member.name == other.name for other in members[:number]):
            raise InvalidInput(f'field "members.{number}.name": two members are called {member.name}')
    wanted = [NewMember(each.name, each.task, fixed or each.kind) for each in members]
    started = await ctx.teams.create(name, wanted, ctx.step)
    found = [Member(name=it.name, kind=it.kind, agent=it.agent, task=it.task, output=it.output) for it in started]
    return CreatedTeam(team=name, members=found)


def _fixed(ctx: ToolContext) -> str:
    """Return the kind of agent that a role fixes for these people; empty: none.

    Raises:
        ToolError: they may not start agents, or only in a way that a team cannot keep to.
    """
    decision = ctx.authorize("tool.use", AGENT)
    if not decision.allowed:
        raise ToolError(f"a team is made of agents, and these may not be started here: {AGENT} is not allowed")
    fixed = dict(decision.input or {})
    kind = str(fixed.pop("kind", ""))
    if fixed:
        raise ToolError(
            f"a role fixes {', '.join(sorted(fixed))} of each agent that is started here: a team cannot keep to that"
        )
    return kind
