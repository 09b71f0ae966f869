"""The `send_message` tool: messages between the lead and the members of a team. See docs/agents.md."""

from typing import Annotated, Literal

from pydantic import Field

from goclaw.errors import InvalidInput
from goclaw.specs import Annotations, Example, Risk, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse

MAX_MESSAGE = 20_000


class SentMessage(Result):
    """Who got it."""

    to: list[str]
    kind: str

    def text(self) -> str:
        """Return one line."""
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
