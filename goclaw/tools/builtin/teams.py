"""The tools for teams of agents: `team_create`, `send_message`, `team_delete`. See docs/agents.md."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from goclaw.common.specs import Annotations, Example, Risk, SideEffect
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.agent import MAX_TASK
from goclaw.tools.toolkit.agent_tasks import AGENT, ALL, LEAD, NewMember
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

NAME = r"^[a-z][a-z0-9_-]{0,31}$"
"""Names stand in prompts, in reminders and in `/status`."""
MAX_MEMBERS = 8

TeamName = Annotated[
    str, Field(pattern=NAME, description="The team's name: small letters, digits, `_` and `-`, at most 32.")
]


class Wanted(BaseModel, extra="forbid"):
    """A member of a team that is to be made."""

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
        hint = "task_output of a member waits for what it says next; send_message gives it more to do."
        return "\n".join([f"the team {self.team} is at work:", *lines, hint])


@tool(
    side_effect=SideEffect.SPAWNS,
    # As of `agent`: what members do is authorized and asked for call by call.
    risk=Risk.LOW,
    idempotent=False,  # made once: what a crash cuts is lost
    foreign=False,
    tags=("agents",),
    annotations=Annotations("Make a team", read_only=False, destructive=False, idempotent=False, open_world=True),
    access=lambda arguments, ctx: ResourceUse(orders=("team",)),
    asks="start a team of agents",
    does="lead teams of agents",
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
    fixed = _fixed_kind_of(ctx)
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


def _fixed_kind_of(ctx: ToolContext) -> str:
    """Return the kind of agent that a role fixes for these people; empty: none. Raises ToolError: they may not start
    agents, or only in a way that a team cannot keep to."""
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


MAX_MESSAGE = 20_000


class SentMessage(Result):
    """Who got it."""

    to: list[str]
    kind: str

    def text(self) -> str:
        names = ", ".join(self.to) or "nobody"
        if self.kind == "shutdown":
            return f"{names}: ends after the turn that runs; what waits unread is dropped"
        return f"sent to {names}"


@tool(
    side_effect=SideEffect.MUTATING,
    risk=Risk.LOW,  # it reaches agents of the same person only, and what they do is authorized call by call
    idempotent=False,
    foreign=False,
    tags=("agents",),
    annotations=Annotations("Write to a team", read_only=False, destructive=False, idempotent=False, open_world=False),
    access=lambda arguments, ctx: ResourceUse(orders=("team",)),
    does="lead teams of agents",
    call_hint="{% if kind == 'shutdown' %}Ending {{ to }}{% else %}To {{ to }}: {{ text | truncate(100) }}{% endif %}",
    result_hint="{{ kind }} to {{ to | join(', ') }}",
    examples=(
        Example("More to do", {"to": "reader", "text": "Look at src/lexer.py, too."}, "sent to reader"),
        Example("Tell everybody", {"to": "all", "text": "The interface stays as it is."}, "sent to "),
        Example("No more for somebody", {"to": "critic", "kind": "shutdown"}, "ends after the turn that runs"),
    ),
)
async def send_message(
    ctx: ToolContext,
    to: Annotated[
        str, Field(min_length=1, max_length=40, description="A member's name, `lead`, or `all` (everybody else).")
    ],
    text: Annotated[str, Field(max_length=MAX_MESSAGE, description="What to say; none with `shutdown`.")] = "",
    kind: Annotated[
        Literal["message", "shutdown"],
        Field(description="`shutdown`: the member ends after its turn; for the lead only."),
    ] = "message",
) -> SentMessage:
    """Write to a member of your team, or to all; or have one end.

    A member reads it as the beginning of its next turn, when its present one has ended. What is for the lead stands in
    the output of the member's task.
    """
    if kind == "shutdown":
        if text.strip():
            raise InvalidInput('field "text": expected none with `shutdown`; send it as a message before')
        return SentMessage(to=list(await ctx.teams.shut_down(to)), kind=kind)
    if not text.strip():
        raise InvalidInput('field "text": expected a message in words')
    return SentMessage(to=list(await ctx.teams.send(to, text)), kind=kind)


class DeletedTeam(Result):
    """A team that is no more."""

    team: str
    ended: list[str]

    def text(self) -> str:
        ended = f"; ended: {', '.join(self.ended)}" if self.ended else ""
        return f"the team {self.team} is deleted{ended}; what its members said is kept for a while (task_list)"


@tool(
    side_effect=SideEffect.MUTATING,
    risk=Risk.LOW,  # what it ends was started by the same person in the same conversation
    idempotent=True,
    foreign=False,
    tags=("agents",),
    annotations=Annotations("Delete a team", read_only=False, destructive=False, idempotent=True, open_world=False),
    access=lambda arguments, ctx: ResourceUse(orders=("team",)),
    does="lead teams of agents",
    call_hint="Ending the team {{ name }}",
    result_hint="team {{ team }} deleted",
    examples=(Example("The work is done", {"name": "review"}, "the team review is deleted"),),
)
async def team_delete(ctx: ToolContext, name: TeamName) -> DeletedTeam:
    """End all members of your team at once, whatever they do, and forget it.

    To let them finish what they do now, send `shutdown` to `all` and wait for their tasks; the team ends with its last
    member.
    """
    return DeletedTeam(team=name, ended=list(await ctx.teams.delete(name)))
