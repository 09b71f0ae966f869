"""The `memory_delete` tool."""

from typing import Annotated

from pydantic import Field

from goclaw.memory.key_value import KeyValueFile
from goclaw.specs import Annotations, Example, SideEffect
from goclaw.toolkit.base import ToolContext, offered, tool
from goclaw.toolkit.results import Result
from goclaw.tools.remembered import Key, Shared, checked_key, needs_memory, place, writes_values


class Dropped(Result):
    """What became of a value."""

    key: str
    deleted: Annotated[bool, Field(description="False: there was none.")]

    def text(self) -> str:
        return f"deleted {self.key!r}" if self.deleted else f"nothing is kept under {self.key!r}"


@offered(needs=needs_memory)
@tool(
    side_effect=SideEffect.MUTATING,
    title="Forget a value",
    tags=("memory", "write"),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True, open_world=False),
    foreign=False,
    access=writes_values,
    call_hint="Forgetting {{ key | truncate(90) | quote }}",
    result_hint="{{ 'Deleted' if deleted else 'Nothing was there' }}",
    examples=(
        Example(
            "A value that everybody shares",
            {"key": "wifi", "shared": True},
            "deleted 'wifi'",
            {"memory/values.json": '{"wifi": "guests"}'},
        ),
    ),
)
async def memory_delete(ctx: ToolContext, key: Key, shared: Shared = False) -> Dropped:
    """Delete the value that is kept under a key."""
    name = checked_key(key)
    return Dropped(key=name, deleted=await KeyValueFile(place(ctx, shared=shared)).drop(name))
