"""The `team_delete` tool: ends a team and all its members. See docs/agents.md."""

from goclaw.specs import Annotations, Example, Risk, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.team_create import TeamName


class DeletedTeam(Result):
    """A team that is no more."""

    team: str
    ended: list[str]

    def text(self) -> str:
        """Return one line."""
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
