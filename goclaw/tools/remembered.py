"""Helpers shared by the tools for remembered values and mementos."""

from typing import Annotated, Any

from pydantic import Field

from goclaw.config.schema import Config
from goclaw.errors import InvalidInput, ToolError
from goclaw.memory.key_value import FILE, MAX_KEY
from goclaw.memory.places import MemoryFolder, place_of
from goclaw.toolkit.base import ToolContext
from goclaw.toolkit.scheduling import ResourceUse

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


def _file(arguments: Any, ctx: ToolContext) -> str:
    return place_of(ctx.home, ctx.actor.key, shared=arguments.shared).path(FILE)
