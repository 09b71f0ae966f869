"""The `command` tool."""

from typing import Annotated, Any

from pydantic import Field

from goclaw.specs import Annotations, Example, Risk, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.text import encoded

READS = frozenset({"help", "sessions", "status", "tools", "usage", "whoami"})
"""Commands that change nothing, whatever stands behind them."""


class CommandResult(Result):
    """What a command answered."""

    answer: str

    def text(self) -> str:
        return self.answer


def _risk(arguments: Any, ctx: ToolContext) -> Risk:
    name, *rest = arguments.command.strip().removeprefix("/").split(maxsplit=1) or [""]
    return Risk.LOW if name.lower() in READS or not rest else Risk.MEDIUM


def _access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    return ResourceUse(orders=("commands",))


@tool(
    side_effect=SideEffect.READ_ONLY,
    risk=_risk,
    title="Slash command",
    tags=("conversation",),
    annotations=Annotations(read_only=False, destructive=False, idempotent=True, open_world=False),
    access=_access,
    call_hint="Giving the command {{ command | truncate(100) }}",
    result_hint="{{ answer | truncate(120) }}",
    examples=(Example("Whom the gateway takes the person for", {"command": "/whoami"}, "You are "),),
)
async def command(
    ctx: ToolContext,
    command: Annotated[
        str, Field(min_length=1, max_length=1_000, description="The command with what belongs to it: `/usage day`.")
    ],
) -> CommandResult:
    """Give one of GoClaw's slash commands for the person you talk with, and read its answer.

    For questions about this gateway: `/status` (context, cost limits, queue), `/usage [day|week|month|all]`,
    `/tools [NAME]`, `/queue [MODE]`, `/whoami`, `/help`. Which ones are allowed is the operator's choice; none does
    more than the person may.
    """
    encoded(command, "command")
    return CommandResult(answer=await ctx.command(command))
