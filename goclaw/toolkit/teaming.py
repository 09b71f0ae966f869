"""The port through which the tools for teams reach the team of a conversation (`sessions.teams` has them)."""

from collections.abc import Sequence

from goclaw.errors import ToolError
from goclaw.records import record

LEAD = "lead"
"""How members call the agent that made the team."""
ALL = "all"
"""The address of all other members, the lead included."""
TEAM_CREATE, SEND_MESSAGE, TEAM_DELETE = "team_create", "send_message", "team_delete"
AGENT = "agent"
"""The tool whose right is needed to make a team, because members are agents."""


@record
class NewMember:
    """A member as the lead wants it."""

    name: str
    task: str
    kind: str = ""
    """A name of `agents.kinds`; empty: the usual one."""


@record
class StartedMember:
    """A member that was started: a background task."""

    name: str
    kind: str
    agent: str
    task: str
    """Its id for the tools for tasks."""
    output: str
    """`output:<id>`: where what it says is kept."""


NO_TEAM = (
    "you have no such team in this conversation: none was made, or it has ended (with its last member, its deletion, "
    "or a restart of the daemon)"
)


class TeamPort:
    """The team as one agent reaches it; by itself, where no conversation is, there is none.

    Everything raises ToolError where it may not be, or there is no such team.
    """

    async def create(self, name: str, members: Sequence[NewMember], step: str) -> Sequence[StartedMember]:
        """Start a team: all members, or none. `step`: the name of the call's step in its turn."""
        raise ToolError("no team can be made here: there is no conversation that it could work for")

    async def send(self, to: str, text: str) -> Sequence[str]:
        """Put a message into the mailbox of a member, of the lead, or of all others; returns who got it."""
        raise ToolError(NO_TEAM)

    async def shut_down(self, to: str) -> Sequence[str]:
        """Have a member, or all, end after the turn that runs; returns who will."""
        raise ToolError(NO_TEAM)

    async def delete(self, name: str) -> Sequence[str]:
        """End every member now, and forget the team; returns who was ended."""
        raise ToolError(NO_TEAM)
