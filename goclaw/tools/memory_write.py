"""The `memory_write` tool."""

from typing import Annotated

from pydantic import Field

from goclaw.memory.key_value import MAX_VALUE, KeyValueFile
from goclaw.specs import Annotations, Example, SideEffect
from goclaw.toolkit.base import ToolContext, offered, tool
from goclaw.toolkit.results import Result
from goclaw.tools.remembered import Key, Shared, checked_key, needs_memory, place, writes_values
from goclaw.tools.text import encoded


class KeptValue(Result):
    """A value that is kept from now on."""

    key: str
    replaced: Annotated[bool, Field(description="An older value was there.")]

    def text(self) -> str:
        return f"{'replaced' if self.replaced else 'kept'} {self.key!r}"


@offered(needs=needs_memory)
@tool(
    side_effect=SideEffect.MUTATING,
    title="Remember a value",
    tags=("memory", "write"),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True, open_world=False),
    foreign=False,
    access=writes_values,
    call_hint="Remembering {{ key | truncate(90) | quote }}",
    result_hint="{{ 'Replaced' if replaced else 'Kept' }} {{ key | truncate(90) | quote }}",
    examples=(Example("What somebody likes", {"key": "favourite tea", "value": "Assam"}, "kept 'favourite tea'"),),
)
async def memory_write(
    ctx: ToolContext,
    key: Key,
    value: Annotated[str, Field(max_length=MAX_VALUE, description="What is kept; replaces an older value.")],
    shared: Shared = False,
) -> KeptValue:
    """Keep a short value under a key, over conversations and restarts. It is the person's own unless shared.

    For what is looked up by its exact name (a preference, an id, a counter). What is longer or is to be found by its
    meaning belongs into a memory file or a memento. Never keep passwords, keys or tokens.
    """
    encoded(key, "key")
    encoded(value, "value")
    name = checked_key(key)
    return KeptValue(key=name, replaced=await KeyValueFile(place(ctx, shared=shared)).put(name, value))
