"""Declarations of code for the MCP server: prompts, resources and notifications. Nothing is served here.

An installed package names a `Declared` as `mcp.<name>` in the entry-point group `goclaw.plugins`:

    async def review(actor: Actor, given: Mapping[str, str]) -> Sequence[Message]:
        return [Message("user", f"Review {given['file']}.")]

    DECLARED = Declared(prompts=(Prompt("review", "Review a file.", review, (Argument("file"),)),))
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from typing import Any, Literal

from goclaw.common.core.events import Actor
from goclaw.common.core.records import record

Rights = Callable[[Actor], bool]
"""Returns whether an actor may use the item. Called at every use."""


def everybody(actor: Actor) -> bool:
    """Allow every admitted user."""
    return True


@record
class Argument:
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = True
    values: tuple[str, ...] = ()
    """Values offered as completions."""


@record
class Message:
    """One message of a prompt. The protocol knows no `system`: such a one goes out as the user's."""

    role: Literal["user", "assistant", "system"]
    text: str


@record
class DeclaredPrompt:
    """A prompt that code makes (Goa-AI, DynamicPrompt) or that is constant (StaticPrompt)."""

    name: str
    description: str
    render: Callable[[Actor, Mapping[str, str]], Awaitable[Sequence[Message]]]
    """Returns the messages for the user and the arguments. Raises ToolError for invalid arguments."""
    arguments: tuple[Argument, ...] = ()
    may: Rights = everybody


@asynccontextmanager
async def never_changes() -> AsyncIterator[AsyncIterator[None]]:
    """Yield no changes: for a resource that cannot be watched."""

    async def nothing() -> AsyncIterator[None]:
        changes: tuple[None, ...] = ()
        for change in changes:
            yield change

    yield nothing()


@record
class Resource:
    """A readable resource (Goa-AI, Resource and WatchableResource)."""

    name: str
    uri: str
    mime: str
    read: Callable[[Actor], Awaitable[str | bytes]]
    """Returns the content for the user. Raises ToolError if it is unavailable."""
    description: str = ""
    may: Rights = everybody
    changes: Callable[[], AbstractAsyncContextManager[AsyncIterator[None]]] = never_changes
    """Yields each time that it changed, while the block is open: for its subscribers."""
    subscribed: Callable[[Actor, str], Awaitable[None]] | None = None
    """Called with the subscriber and the URI of a subscription (Goa-AI, Subscription); raises ToolError to refuse it.
    """


@record
class Notification:
    """A notification that clients get unasked (Goa-AI, Notification): each value that `sends` yields."""

    name: str
    description: str
    sends: Callable[[], AbstractAsyncContextManager[AsyncIterator[Mapping[str, Any]]]]
    may: Rights = everybody


@record
class Declared:
    """The declarations of one piece of code."""

    prompts: tuple[DeclaredPrompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    notifications: tuple[Notification, ...] = field(default=())
    settings: Mapping[str, str] = field(default_factory=dict)
    """Defaults for keys of `mcp.server`: `name`, `version`, `protocol_version`."""


def together(parts: Sequence[Declared]) -> Declared:
    """Merge declarations; of two with the same name or URI the first stays."""
    prompts = {each.name: each for part in reversed(parts) for each in reversed(part.prompts)}
    resources = {each.uri: each for part in reversed(parts) for each in reversed(part.resources)}
    notifications = {each.name: each for part in reversed(parts) for each in reversed(part.notifications)}
    return Declared(
        tuple(prompts[name] for name in sorted(prompts)),
        tuple(resources[uri] for uri in sorted(resources)),
        tuple(notifications[name] for name in sorted(notifications)),
    )
