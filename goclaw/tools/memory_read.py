"""The `memory_read` tool."""

from typing import Annotated

from pydantic import Field

from goclaw.errors import ToolError
from goclaw.memory.key_value import KeyValueFile, nearest
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, offered, tool
from goclaw.toolkit.results import Result
from goclaw.tools.remembered import Key, Shared, checked_key, needs_memory, place, reads_values


class Remembered(Result):
    """A value, if there is one."""

    key: str
    value: Annotated[str | None, Field(description="None: nothing is kept under that key.")] = None
    meant: Annotated[str, Field(description="The key that was probably meant.")] = ""
    is_shared: Annotated[bool, Field(description="A shared value is kept under that key.")] = False

    def text(self) -> str:
        if self.value is not None:
            return self.value
        if self.is_shared:
            return (
                f"nothing of the person's own is kept under {self.key!r}, a shared value is: read it with shared: true"
            )
        hint = f"; did you mean {self.meant!r}?" if self.meant else " (memory_list lists the keys)"
        return f"nothing is kept under {self.key!r}{hint}"


@offered(needs=needs_memory)
@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Remembered value",
    tags=("memory", "read"),
    access=reads_values,
    call_hint="Recalling {{ key | truncate(90) | quote }}",
    result_hint="{% if value is none %}Nothing{% else %}{{ value | count }} characters{% endif %}",
    examples=(
        Example(
            "A value that everybody shares",
            {"key": "office hours", "shared": True},
            "9 to 5",
            {"memory/values.json": '{"office hours": "9 to 5"}'},
        ),
    ),
)
async def memory_read(ctx: ToolContext, key: Key, shared: Shared = False) -> Remembered:
    """Read a value that memory_write keeps under a key."""
    values = await KeyValueFile(place(ctx, shared=shared)).all()
    name = checked_key(key)
    if name in values:
        return Remembered(key=name, value=values[name])
    return Remembered(key=name, meant=nearest(name, values), is_shared=not shared and await _is_shared(name, ctx))


async def _is_shared(key: str, ctx: ToolContext) -> bool:
    """False also where the shared values cannot be read: who asks for them is told why."""
    try:
        return key in await KeyValueFile(place(ctx, shared=True)).all()
    except ToolError:
        return False
