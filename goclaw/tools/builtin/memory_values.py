"""The tools for values kept under a key: `memory_read`, `memory_write`, `memory_delete`."""

from typing import Annotated, Any

from pydantic import Field

from goclaw.common.config.schema import Config
from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.errors import InvalidInput, ToolError
from goclaw.memory.user_memory import (
    MAX_KEY,
    MAX_VALUE,
    VALUES_FILE,
    KeyValueFile,
    MemoryFolder,
    nearest_key,
    place_of,
)
from goclaw.tools.approval.guard import Route, Sink
from goclaw.tools.builtin.text import encode
from goclaw.tools.toolkit.base import ToolContext, guarded, offered, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

Shared = Annotated[
    bool, Field(description="For everybody who works in this workspace, not only for the person you talk with.")
]
"""Whose it is."""
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY, description="Name of the value.")]
"""Under what a value is kept."""


def needs_memory(config: Config) -> str:
    """Why nothing is remembered; empty: it is."""
    return "" if config.memory.enabled else "memory is disabled: set memory.enabled"


def place(ctx: ToolContext, *, shared: bool) -> MemoryFolder:
    """Return the folder where it is kept.

    Raises:
        ToolError: memory is switched off, or there is no such place.
    """
    if lack := needs_memory(ctx.config):
        raise ToolError(lack)
    return place_of(ctx.home, ctx.actor.key, shared=shared)


def checked_key(key: str) -> str:
    """Return the key, if it is one word or several on one line.

    Raises:
        InvalidInput: it is not.
    """
    if not key.isprintable() or key != key.strip():
        raise InvalidInput('field "key": expected a name on one line, without spaces at its ends')
    return key


def reads_values(arguments: Any, ctx: ToolContext) -> ResourceUse:
    """Return the file that a value is read from."""
    return ResourceUse(reads=(_file(arguments, ctx),))


def writes_values(arguments: Any, ctx: ToolContext) -> ResourceUse:
    """Return the file that a value is written to."""
    return ResourceUse(writes=(_file(arguments, ctx),))


def shared_sink(arguments: Any, ctx: ToolContext) -> Sink | None:
    """Return what a change of a note or a value means to the guard: everybody's agent reads a shared one."""
    return Sink(Route.LASTING, "what everybody shares is changed") if arguments.shared else None


def _file(arguments: Any, ctx: ToolContext) -> str:
    return place_of(ctx.home, ctx.actor.key, shared=arguments.shared).path(VALUES_FILE)


class RememberedValue(Result):
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
    asks="look up {{ key or 'this' }}",
    does="recall notes",
    call_hint="Recalling {{ key | truncate(90) | quote }}",
    result_hint=(
        "{{ args.key | truncate(80) | quote }}: {{ 'nothing' if value is none else value | count ~ ' characters' }}"
    ),
    examples=(
        Example(
            "A value that everybody shares",
            {"key": "office hours", "shared": True},
            "9 to 5",
            {"memory/values.json": '{"office hours": "9 to 5"}'},
        ),
    ),
)
async def memory_read(ctx: ToolContext, key: Key, shared: Shared = False) -> RememberedValue:
    """Read a value that memory_write keeps under a key."""
    values = await KeyValueFile(place(ctx, shared=shared)).all()
    name = checked_key(key)
    if name in values:
        return RememberedValue(key=name, value=values[name])
    return RememberedValue(
        key=name, meant=nearest_key(name, values), is_shared=not shared and await _is_shared(name, ctx)
    )


async def _is_shared(key: str, ctx: ToolContext) -> bool:
    """False also where the shared values cannot be read: a request for them is answered with the reason."""
    try:
        return key in await KeyValueFile(place(ctx, shared=True)).all()
    except ToolError:
        return False


class KeptValue(Result):
    """A value that is kept from now on."""

    key: str
    replaced: Annotated[bool, Field(description="An older value was there.")]

    def text(self) -> str:
        return f"{'replaced' if self.replaced else 'kept'} {self.key!r}"


@guarded(shared_sink)
@offered(needs=needs_memory)
@tool(
    side_effect=SideEffect.MUTATING,
    title="Remember a value",
    tags=("memory", "write"),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True, open_world=False),
    foreign=False,
    access=writes_values,
    asks="remember {{ key or 'this' }}",
    does="keep notes",
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
    encode(key, "key")
    encode(value, "value")
    name = checked_key(key)
    return KeptValue(key=name, replaced=await KeyValueFile(place(ctx, shared=shared)).put(name, value))


class DeletedValue(Result):
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
    asks="forget {{ key or 'this' }}",
    does="forget notes",
    call_hint="Forgetting {{ key | truncate(90) | quote }}",
    result_hint="{{ 'Deleted' if deleted else 'Nothing was kept under' }} {{ args.key | truncate(80) | quote }}",
    examples=(
        Example(
            "A value that everybody shares",
            {"key": "wifi", "shared": True},
            "deleted 'wifi'",
            {"memory/values.json": '{"wifi": "guests"}'},
        ),
    ),
)
async def memory_delete(ctx: ToolContext, key: Key, shared: Shared = False) -> DeletedValue:
    """Delete the value that is kept under a key."""
    name = checked_key(key)
    return DeletedValue(key=name, deleted=await KeyValueFile(place(ctx, shared=shared)).drop(name))
