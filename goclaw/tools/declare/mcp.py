"""The declaration of an MCP server, in the terms of the source document: tools, resources, prompts, notifications.

`mcp_server` compiles to three things: `declared`, which a package names `mcp.<name>` in the entry-point group
`goclaw.plugins` and which GoClaw's server then offers, under this name, version and protocol version unless the
operator says others; `tools`, a toolset like any other (`toolsets.<name>`); and `settings`, these as keys of
`mcp.server`. A one-file plugin binds the whole to a name.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, TypeAdapter

from goclaw.common.config.mcp import McpServerSettings
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.specs import SideEffect
from goclaw.tools.declare.options import Option, collect, refuse_leftovers
from goclaw.tools.declare.tools import ToolDeclaration, tool
from goclaw.tools.declare.tools import passthrough as forwarded
from goclaw.tools.declare.toolsets import toolset as made_toolset
from goclaw.tools.mcp.declared import Argument, Declared, DeclaredPrompt, Message, Notification, Resource
from goclaw.tools.toolkit.binding import Method
from goclaw.tools.toolkit.parts import ServerPart

T = TypeVar("T")
Stream = Callable[[], AbstractAsyncContextManager[AsyncIterator[T]] | AsyncIterator[T]]
"""An `async def` with `yield`, or a function that returns an async context manager around an iterator."""
_ANY: TypeAdapter[Any] = TypeAdapter(Any)


@record
class Subscribed:
    """The handler of subscriptions to a resource."""

    word: ClassVar[str] = "subscription"
    forms: ClassVar[tuple[str, ...]] = ("mcp_server",)
    resource: str
    handle: Callable[[Actor, str], Awaitable[None]]


class ServerOption(Option, forms=("mcp_server",)):
    """Stands in `mcp_server`."""


ServerWord = ServerOption | ToolDeclaration | Resource | DeclaredPrompt | Notification | Subscribed


def mcp_server(name: str, version: str, *words: ServerWord) -> ServerPart:
    """Declare a server and its offers.

    Raises:
        ValueError: something occurs twice or belongs elsewhere, or a subscription is to nothing that can be watched.
    """
    kinds = (ServerOption, ToolDeclaration, Resource, DeclaredPrompt, Notification, Subscribed)
    refuse_leftovers(words, kinds, name, "mcp_server")
    said = collect([word for word in words if isinstance(word, ServerOption)], name)
    resources = {word.name: word for word in words if isinstance(word, Resource)}
    for word in words:
        if isinstance(word, Subscribed):
            if word.resource not in resources:
                raise ValueError(f"{name}: subscription to {word.resource}, which is no resource of it")
            resources[word.resource] = replace(resources[word.resource], subscribed=word.handle)
    for what, kind in (("resource", Resource), ("prompt", DeclaredPrompt), ("notification", Notification)):
        names = [word.name for word in words if isinstance(word, kind)]
        if twice := [each for at, each in enumerate(names) if each in names[:at]]:
            raise ValueError(f"{name}: the {what} {twice[0]} is there twice")
    settings = {"name": name, "version": version, **said}
    return ServerPart(
        McpServerSettings.model_validate({"enabled": True, **settings}),
        made_toolset(name, *(word for word in words if isinstance(word, ToolDeclaration))),
        Declared(
            prompts=tuple(word for word in words if isinstance(word, DeclaredPrompt)),
            resources=tuple(resources.values()),
            notifications=tuple(word for word in words if isinstance(word, Notification)),
            settings=settings,
        ),
    )


mcp = mcp_server
"""The same by its short name."""


def protocol_version(version: str) -> ServerOption:
    """Set the only version of the protocol to accept."""
    return ServerOption("protocol_version", version)


def mcp_tool(name: str, description: str, method: Method, *, side_effect: SideEffect) -> ToolDeclaration:
    """Declare a tool bound to a method, with the method's own arguments and result."""
    return tool(name, description, forwarded(method, side_effect=side_effect))


def resource(name: str, uri: str, mime_type: str, read: Method, *, description: str = "") -> Resource:
    """A resource with the result of `read` (for the asker, if it takes an `Actor`); non-text values become JSON."""
    wants_actor = len(inspect.signature(read).parameters) > 0

    async def found(actor: Actor) -> str | bytes:
        value = await (_call(read, actor) if wants_actor else _call(read))
        match value:
            case str() | bytes():
                return value
            case BaseModel():
                return value.model_dump_json()
        return json.dumps(_ANY.dump_python(value, mode="json"), ensure_ascii=False)

    return Resource(name, uri, mime_type, found, description)


def watchable_resource(
    name: str, uri: str, mime_type: str, read: Method, changes: Stream[None], *, description: str = ""
) -> Resource:
    """Declare a resource that clients can subscribe to: `changes` yields at each change.

    Raises:
        ValueError: `changes` is no such function.
    """
    made = resource(name, uri, mime_type, read, description=description)
    return replace(made, changes=_opening(changes, f"{name}: changes"))


def static_prompt(name: str, description: str, *messages: tuple[str, str] | str) -> DeclaredPrompt:
    """Declare a prompt that is always the same: role and text of each message, as pairs or one after the other."""
    parts = [part for each in messages for part in ((each,) if isinstance(each, str) else each)]
    if len(parts) % 2:
        raise ValueError(f"{name}: the last message, by the {parts[-1]}, has no text")
    said = [_message(role, text) for role, text in zip(parts[::2], parts[1::2], strict=True)]

    async def render(actor: Actor, given: Mapping[str, str]) -> Sequence[Message]:
        return said

    return DeclaredPrompt(name, description, render)


def dynamic_prompt(name: str, description: str, method: Method) -> DeclaredPrompt:
    """Declare a prompt made by a method: it takes texts, and returns `(role, text)` pairs or one text."""
    parameters = inspect.signature(method).parameters.values()
    taken = tuple(Argument(each.name, required=each.default is each.empty) for each in parameters)

    async def render(actor: Actor, given: Mapping[str, str]) -> Sequence[Message]:
        known = {each.name: given[each.name] for each in taken if each.name in given}
        found = await _call(method, **known)
        return [_message("user", found)] if isinstance(found, str) else [_message(role, text) for role, text in found]

    return DeclaredPrompt(name, description, render, taken)


def notification(name: str, description: str, sends: Stream[Mapping[str, Any]]) -> Notification:
    """Declare a notification for clients: it is sent for each mapping that `sends` yields.

    Raises:
        ValueError: `sends` is no such function.
    """
    return Notification(name, description, _opening(sends, f"{name}: sends"))


def _opening(stream: Stream[T], what: str) -> Callable[[], AbstractAsyncContextManager[AsyncIterator[T]]]:
    """Return the function that opens a stream. Raises ValueError: `stream` has another form."""
    if inspect.isasyncgenfunction(stream):
        return lambda: aclosing(stream())
    if inspect.iscoroutinefunction(stream) or inspect.isgeneratorfunction(stream):
        raise ValueError(f"{what} must be an `async def` with `yield`, or a function with @asynccontextmanager")
    return stream  # type: ignore[return-value]  # no async generator: it opens its stream itself


def subscription(resource_name: str, method: Callable[[str], Any]) -> Subscribed:
    """Declare the handler of subscriptions to a watchable resource. It gets the URI; ToolError refuses it."""

    async def handle(actor: Actor, uri: str) -> None:
        await _call(method, uri)

    return Subscribed(resource_name, handle)


def _message(role: str, text: str) -> Message:
    if role not in ("user", "assistant", "system"):
        raise ValueError(f"a message is by the user, the assistant or the system, not by {role!r}")
    return Message(role, text)  # type: ignore[arg-type]  # it is one of the three


async def _call(method: Method, *given: Any, **named: Any) -> Any:
    if inspect.iscoroutinefunction(method):
        return await method(*given, **named)
    return await asyncio.to_thread(method, *given, **named)
