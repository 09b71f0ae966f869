"""What code adds to the MCP server: prompts, resources and notifications. Plain declarations; nothing is served here.

An installed package names a `Declared` as `mcp.<name>` in the entry-point group `goclaw.plugins`:

    async def review(actor: Actor, given: Mapping[str, str]) -> Sequence[Message]:
        return [Message("user", f"Review {given['file']}.")]

    DECLARED = Declared(prompts=(Prompt("review", "Review a file.", review, (Argument("file"),)),))
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from typing import Any, Literal

from goclaw.events import Actor
from goclaw.records import record

Rights = Callable[[Actor], bool]
"""Whether an actor may have something. Asked at every use."""


def everybody(actor: Actor) -> bool:
    """Whoever may come in at all."""
    return True


@record
class Argument:
    """What a prompt is given."""

    name: str
    description: str = ""
    required: bool = True
    values: tuple[str, ...] = ()
    """What may be offered while somebody types it."""


@record
class Message:
    """One message of a prompt. The protocol knows no `system`: such a one goes out as the user's."""

    role: Literal["user", "assistant", "system"]
    text: str


@record
class DeclaredPrompt:
    """A prompt that code makes (Goa-AI, DynamicPrompt) or that is always the same (StaticPrompt)."""

    name: str
    description: str
    render: Callable[[Actor, Mapping[str, str]], Awaitable[Sequence[Message]]]
    """From who asks and the arguments to the messages. Raises ToolError for what is wrong with them."""
    arguments: tuple[Argument, ...] = ()
    may: Rights = everybody


@asynccontextmanager
async def never_changes() -> AsyncIterator[AsyncIterator[None]]:
    """Of a resource that nobody can watch."""

    async def nothing() -> AsyncIterator[None]:
        changes: tuple[None, ...] = ()
        for change in changes:
            yield change

    yield nothing()


@record
class Resource:
    """Something to read (Goa-AI, Resource and WatchableResource)."""

    name: str
    uri: str
    mime: str
    read: Callable[[Actor], Awaitable[str | bytes]]
    """For who asks. Raises ToolError where it cannot be had."""
    description: str = ""
    may: Rights = everybody
    changes: Callable[[], AbstractAsyncContextManager[AsyncIterator[None]]] = never_changes
    """Yields each time that it changed, while the block is open: for who subscribed to it."""
    subscribed: Callable[[Actor, str], Awaitable[None]] | None = None
    """Told of a subscription to it (Goa-AI, Subscription), with its URI; raises ToolError to refuse it."""


@record
class Notification:
    """Something that clients are told unasked (Goa-AI, Notification): what `sends` yields, each time."""

    name: str
    description: str
    sends: Callable[[], AbstractAsyncContextManager[AsyncIterator[Mapping[str, Any]]]]
    may: Rights = everybody


@record
class Declared:
    """Everything that one piece of code declares."""

    prompts: tuple[DeclaredPrompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    notifications: tuple[Notification, ...] = field(default=())
    settings: Mapping[str, str] = field(default_factory=dict)
    """Keys of `mcp.server`, where the operator says nothing else: `name`, `version`, `protocol_version`."""


def together(parts: Sequence[Declared]) -> Declared:
    """All of them as one; of two with the same name or URI the first stays."""
    prompts = {each.name: each for part in reversed(parts) for each in reversed(part.prompts)}
    resources = {each.uri: each for part in reversed(parts) for each in reversed(part.resources)}
    notifications = {each.name: each for part in reversed(parts) for each in reversed(part.notifications)}
    return Declared(
        tuple(prompts[name] for name in sorted(prompts)),
        tuple(resources[uri] for uri in sorted(resources)),
        tuple(notifications[name] for name in sorted(notifications)),
    )
