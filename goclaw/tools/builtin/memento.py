"""The `memento` tool."""

from typing import Annotated, Any, Literal, assert_never

from pydantic import BaseModel, Field

from goclaw.common.specs import Annotations, Example, Risk, SideEffect
from goclaw.errors import InvalidInput
from goclaw.memory.dates import moment
from goclaw.memory.user_memory import MAX_MEMENTO_BYTES, MAX_MEMENTO_NAME, Mementos, checked_name, mementos_of, place_of
from goclaw.tools.approval.guard import Sink
from goclaw.tools.builtin.memory_values import Shared, needs_memory, place, shared_sink
from goclaw.tools.builtin.text import encode
from goclaw.tools.toolkit.base import CallRisk, ToolContext, guarded, offered, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

Action = Literal["read", "write", "append", "list", "delete"]


class Line(BaseModel):
    """One memento of a list."""

    name: str
    summary: str
    size: int
    modified: float
    shared: bool

    def __str__(self) -> str:
        at = moment(self.modified).isoformat(timespec="seconds")
        whose = "  shared" if self.shared else ""
        return f"{self.name}{whose}  {self.size} bytes  {at}" + (f"\n  {self.summary}" if self.summary else "")


class MementoResult(Result):
    """What came of it."""

    action: Action
    name: str = ""
    content: Annotated[str, Field(description="Of one that was read.")] = ""
    size: Annotated[int, Field(description="Bytes of one that was written.")] = 0
    created: Annotated[bool, Field(description="It was not there before.")] = False
    mementos: Annotated[tuple[Line, ...], Field(description="Those that there are.")] = ()

    def text(self) -> str:
        match self.action:
            case "read":
                return self.content
            case "list":
                return "\n".join(map(str, self.mementos)) or "no mementos yet"
            case "delete":
                return f"deleted the memento {self.name!r}"
            case "write" | "append":
                done = "created" if self.created else "replaced" if self.action == "write" else "added to"
                return f"{done} the memento {self.name!r}, {self.size} bytes"
            case _:
                assert_never(self.action)


def _risk(arguments: Any, ctx: ToolContext) -> Risk:
    return Risk.LOW if arguments.action in ("read", "list") else Risk.MEDIUM


def _access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    path = Mementos(place_of(ctx.home, ctx.actor.key, shared=arguments.shared)).path(arguments.name or "all")
    match arguments.action:
        case "list":
            return ResourceUse(reads=("memory",))
        case "read":
            return ResourceUse(reads=(path,))
        case _:
            return ResourceUse(writes=(path,))


def _sink(arguments: Any, ctx: ToolContext) -> Sink | None:
    return None if arguments.action in ("read", "list", "delete") else shared_sink(arguments, ctx)


@guarded(_sink)
@offered(needs=needs_memory)
@tool(
    side_effect=SideEffect.MUTATING,
    risk=CallRisk(Risk.MEDIUM, _risk),
    idempotent=False,
    title="Memento",
    tags=("memory", "write"),
    annotations=Annotations(read_only=False, destructive=True, idempotent=False, open_world=False),
    foreign=True,
    access=_access,
    asks="{{ action }} the note {{ name or 'below' }}",
    does="keep notes",
    call_hint="Mementos: {{ action }}{% if name %} {{ name | truncate(80) | quote }}{% endif %}",
    result_hint="{% if action == 'list' %}{{ mementos | count }} mementos{% else %}{{ action }}: {{ name }}{% endif %}",
    examples=(
        Example(
            "Keep what was found out about a project",
            {
                "action": "write",
                "name": "architecture-notes",
                "content": "## Database Schema\n\nThe users table needs a unique constraint on email.",
            },
            "created the memento 'architecture-notes'",
        ),
        Example(
            "Read one that everybody shares",
            {"action": "read", "name": "house", "shared": True},
            "Quiet after ten.",
            {"memory/mementos/house.md": "# House rules\n\nQuiet after ten.\n"},
        ),
    ),
)
async def memento(
    ctx: ToolContext,
    action: Annotated[Action, Field(description="What to do; list needs no name.")],
    name: Annotated[
        str | None, Field(min_length=1, max_length=2 * MAX_MEMENTO_NAME, description="The memento, for all but list.")
    ] = None,
    content: Annotated[
        str | None,
        Field(max_length=MAX_MEMENTO_BYTES, description="Markdown, for write (the whole) and append (the rest)."),
    ] = None,
    shared: Shared = False,
) -> MementoResult:
    """Keep thoughts that outlive this conversation as Markdown artifacts: plans, findings, how somebody likes things.

    Begin each with a heading and a short paragraph: in later conversations these are shown to you, and you read the
    rest when you need it. It is the person's own unless shared. Never keep passwords, keys or tokens.
    """
    kept = Mementos(place(ctx, shared=shared))
    if action == "list":
        found = await mementos_of(ctx.home, ctx.actor.key, own=not shared)
        lines = (
            Line(name=each.name, summary=each.summary, size=each.size, modified=each.modified, shared=each.shared)
            for each in found
        )
        return MementoResult(action=action, mementos=tuple(lines))
    if name is None:
        raise InvalidInput(f'field "name": expected string for {action}, got nothing')
    plain = checked_name(name)
    if action == "read":
        return MementoResult(action=action, name=plain, content=await kept.read(plain))
    if action == "delete":
        await kept.delete(plain)
        return MementoResult(action=action, name=plain)
    if content is None:
        raise InvalidInput(f'field "content": expected string for {action}, got nothing')
    encode(content, "content")
    size, created = await kept.write(plain, content, add=action == "append")
    return MementoResult(action=action, name=plain, size=size, created=created)
