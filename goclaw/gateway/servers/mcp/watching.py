"""Subscriptions: streams of 2026-07-28, connections of older clients, and monitors, served by one hub.

A change is sent only to users who may read the resource at the moment when it changed.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from goclaw.common.core.events import Actor
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.errors import GoclawError
from goclaw.gateway.servers.mcp.backend import Change, Changed, ListChanged, McpBackend, ServerNotification
from goclaw.gateway.servers.mcp.files import WHOLE, Interests, follow_files
from goclaw.gateway.servers.mcp.uris import STATUS
from goclaw.tools.mcp.declared import Notification, Resource
from goclaw.tools.toolkit.registry import same

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Seconds between two looks for changed tools or rights: as often as users.json is read."""
MAX_PEERS = 128
"""Connections of older clients that are remembered; the one silent for longest is dropped."""
MAX_URIS = 200
"""Subscriptions of one connection."""
MAX_LISTENING = 64
"""Streams and monitors at once."""
MAX_WAITING = 1_000
"""Maximum changes queued for one of them; a slower client is cut off and reads again."""
LEVEL: Final = "notice"
"""The level of the log messages that carry declared notifications to older clients."""
SEND_SECONDS = 5.0
"""Seconds for a connection to take one notification."""
_EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}

Listener = Callable[[Change], None]
There = Callable[[Actor, str], Awaitable[bool]]
"""Returns whether an actor could read a URI's resource now or once it exists."""


@dataclass(slots=True)
class _Peer:
    """A connection of a client that speaks an older version."""

    actor: Actor
    session: ServerSession
    uris: set[str] = field(default_factory=set)
    listens: bool = True
    """Whether it gets notifications that code declares."""


class Hub:
    """The distributor of changes. Made by `open_hub`."""

    def __init__(self, backend: McpBackend, may: Callable[[Actor, str], bool], there: There) -> None:
        """`may`: whether an actor may read a URI's resource; `there`: the same for resources that may not exist yet."""
        self._backend = backend
        self._may = may
        self._there = there
        self.files = Interests(backend.environment.workspace)
        """The subscriptions to files."""
        self._listeners: dict[object, tuple[Actor, Listener]] = {}
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._outgoing: asyncio.Queue[tuple[Change, str]] = asyncio.Queue(MAX_WAITING)
        """Changes with the key of their only receiver, if they have one."""
        self._rights = {each.name: each.may for each in backend.declared.notifications}

    def publish(self, change: Change, person: str = "") -> None:
        """Send a change to all subscribers who may know of it; with the key of a `person` to that one only."""
        for actor, listener in list(self._listeners.values()):
            if person in ("", actor.key) and self._concerns(actor, change):
                listener(change)
        if self._peers:
            try:
                self._outgoing.put_nowait((change, person))
            except asyncio.QueueFull:
                log.warning("MCP clients read no notifications; one was dropped")

    @asynccontextmanager
    async def listening(self, actor: Actor) -> AsyncIterator[asyncio.Queue[Change | None]]:
        """Yield changes that the actor may know of; None ends them, when this reader lags too far.

        Raises:
            MCPError: too many listen already.
        """
        waiting: asyncio.Queue[Change | None] = asyncio.Queue()

        def offer(change: Change) -> None:
            if waiting.qsize() < MAX_WAITING:
                waiting.put_nowait(change)
            else:
                self.leave(token)
                waiting.put_nowait(None)

        token = self.enter(actor, offer)
        try:
            if self._may(actor, WHOLE):
                await self.files.put(token, actor, (), everything=True)
            yield waiting
        finally:
            self.files.drop(token)
            self.leave(token)

    async def listen(
        self, actor: Actor, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream of 2026-07-28."""
        wanted = params.notifications
        asked = list(wanted.resource_subscriptions or ())[:MAX_URIS]
        uris = [uri for uri in asked if await self._there(actor, uri)]
        for uri in uris:
            await self._announce(actor, uri)
        honoured = wanted.model_copy(update={"resource_subscriptions": uris or None})
        stream = ListenHandler(_View(self, actor), max_buffered_events=MAX_WAITING)
        token = object()
        try:
            await self.files.put(token, actor, uris)
            return await stream(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            self.files.drop(token)

    def remember(self, key: str, actor: Actor, ctx: ServerRequestContext[Any, Any]) -> None:
        """Remember the connection of a message, for later notifications to its client."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        peer = self._peers.get(key)
        if peer is None or peer.actor != actor:
            peer = self._peers[key] = _Peer(actor, ctx.session)
            self.files.drop(key)
            # The library has no public notice that a connection has ended.
            if (connection := getattr(ctx.session, "_connection", None)) is not None:
                connection.exit_stack.callback(self._forget, key, peer)
        peer.session = ctx.session
        self._peers.move_to_end(key)
        while len(self._peers) > MAX_PEERS:
            self._forget(*next(iter(self._peers.items())))

    async def subscribe(self, key: str, uri: str) -> None:
        """Subscribe a client of an older version to a resource.

        Raises:
            MCPError: it has too many subscriptions, or the resource's declaration refuses it.
        """
        peer = self._peers.get(key)
        if peer and len(peer.uris) >= MAX_URIS:
            raise MCPError(INTERNAL_ERROR, f"at most {MAX_URIS} subscriptions")
        if peer:
            await self._announce(peer.actor, uri)
        if peer is None or self._peers.get(key) is not peer:
            raise MCPError(INTERNAL_ERROR, "the connection has ended or was silent for too long; open a new one")
        peer.uris.add(uri)
        await self._watch_files(key, peer)

    async def unsubscribe(self, key: str, uri: str) -> None:
        """End a subscription."""
        if peer := self._peers.get(key):
            peer.uris.discard(uri)
            await self._watch_files(key, peer)

    def set_log_level(self, key: str, level: str) -> None:
        """Set the level from which a client gets log messages, as which declared notifications are sent."""
        self._peers[key].listens = level in ("debug", "info", LEVEL)

    def has_subscribers(self) -> bool:
        """Return whether any resource has a subscriber."""
        return bool(self._listeners) or any(peer.uris for peer in self._peers.values())

    async def send(self) -> None:
        """Notify older clients, one change after the other, until cancelled."""
        while True:
            change, person = await self._outgoing.get()
            for key, peer in list(self._peers.items()):
                if person in ("", peer.actor.key) and self._is_for(peer, change):
                    await self._send(key, peer, change)

    async def _send(self, key: str, peer: _Peer, change: Change) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                match change:
                    case Changed(resource=uri):
                        await peer.session.send_resource_updated(uri)
                    case ListChanged(kind="tools"):
                        await peer.session.send_tool_list_changed()
                    case ListChanged(kind="prompts"):
                        await peer.session.send_prompt_list_changed()
                    case ListChanged():
                        await peer.session.send_resource_list_changed()
                    case ServerNotification(name=name, payload=payload):
                        params = LoggingMessageNotificationParams(level=LEVEL, logger=name, data=dict(payload))
                        await peer.session.send_notification(LoggingMessageNotification(params=params))
        except TimeoutError:
            self._forget(key, peer)

    async def _watch_files(self, key: str, peer: _Peer) -> None:
        await self.files.put(key, peer.actor, peer.uris)
        if self._peers.get(key) is not peer:
            self.files.drop(key)  # it went meanwhile

    def _forget(self, key: str, peer: _Peer) -> None:
        """Forget a connection that has ended, or is as good as that."""
        if self._peers.get(key) is peer:
            del self._peers[key]
            self.files.drop(key)

    def _is_for(self, peer: _Peer, change: Change) -> bool:
        if isinstance(change, Changed) and change.resource not in peer.uris:
            return False
        if isinstance(change, ServerNotification) and not peer.listens:
            return False
        return self._concerns(peer.actor, change)

    def _concerns(self, actor: Actor, change: Change) -> bool:
        match change:
            case Changed(resource=uri):
                return self._may(actor, uri)
            case ServerNotification(name=name):
                return name in self._rights and self._rights[name](actor)
        return True

    def enter(self, actor: Actor, listener: Listener) -> object:
        """Call `listener` with each change that the actor may know of, until `leave` with the returned token.

        Raises:
            MCPError: too many listen already.
        """
        if len(self._listeners) >= MAX_LISTENING:
            raise MCPError(INTERNAL_ERROR, "too many streams are open; close one, or try again later")
        token = object()
        self._listeners[token] = (actor, listener)
        return token

    def leave(self, token: object) -> None:
        """Call a listener no more."""
        self._listeners.pop(token, None)

    async def _announce(self, actor: Actor, uri: str) -> None:
        for resource in self._backend.declared.resources:
            if resource.uri == uri and resource.subscribed:
                try:
                    await resource.subscribed(actor, uri)
                except GoclawError as error:
                    raise MCPError(INVALID_PARAMS, str(error)) from None


class _View:
    """One actor's view of the hub. Implements `mcp.server.subscriptions.SubscriptionBus`."""

    def __init__(self, hub: Hub, actor: Actor) -> None:
        self._hub = hub
        self._actor = actor

    async def publish(self, event: ServerEvent) -> None:
        raise NotImplementedError("changes come from the hub")

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def on_change(change: Change) -> None:
            match change:  # the protocol has no event for others
                case Changed(resource=uri):
                    listener(ResourceUpdated(uri))
                case ListChanged(kind=kind):
                    listener(_EVENTS[kind]())

        return partial(self._hub.leave, self._hub.enter(self._actor, on_change))


@asynccontextmanager
async def open_hub(backend: McpBackend, may: Callable[[Actor, str], bool], there: There) -> AsyncIterator[Hub]:
    """Yield a hub that receives all changes, while the block runs."""
    hub = Hub(backend, may, there)
    tasks: dict[str, Callable[[], Awaitable[None]]] = {
        "telling MCP clients": hub.send,
        "changes for MCP clients": partial(_follow, hub, backend),
        "tools for MCP clients": partial(_poll_tools, hub, backend),
    }
    clock, workspace = backend.environment.clock, backend.environment.workspace
    if backend.settings.resources:
        tasks["files for MCP clients"] = partial(follow_files, hub.files, clock, workspace, hub.publish)
    for resource in backend.declared.resources:
        tasks[f"changes of {resource.uri}"] = partial(_follow_resource, hub, resource)
    for notification in backend.declared.notifications:
        tasks[f"notification {notification.name}"] = partial(_follow_notification, hub, notification)
    async with AsyncExitStack() as stack:
        for name, run in tasks.items():
            await stack.enter_async_context(background(run_with_restarts(name, run, clock), name))
        yield hub


async def _follow(hub: Hub, backend: McpBackend) -> None:
    """Publish the gateway's changes; a stream that ends because we lagged is reopened."""
    while True:
        async with backend.conversations.changes(hub.has_subscribers) as changes:
            async for change in changes:
                hub.publish(change)
                if change.event != "updated" and change.resource != STATUS:
                    hub.publish(ListChanged("resources"))
        await backend.environment.clock.sleep(LOOK_SECONDS)


async def _follow_resource(hub: Hub, resource: Resource) -> None:
    async with resource.changes() as changes:
        async for _ in changes:
            hub.publish(Changed(resource.uri, "updated"))


async def _follow_notification(hub: Hub, notification: Notification) -> None:
    async with notification.sends() as payloads:
        async for payload in payloads:
            hub.publish(ServerNotification(notification.name, payload))


async def _poll_tools(hub: Hub, backend: McpBackend) -> None:
    """Publish changes of tools and rights. This polls: the sources send no notice."""
    registry = backend.dispatcher.registry
    await registry.ready()
    people, specs = backend.people(), registry.specs()
    while True:
        await backend.environment.clock.sleep(LOOK_SECONDS)
        before, people = people, backend.people()
        listed, specs = specs, registry.specs()
        if people != before or not same(specs, listed):
            hub.publish(ListChanged("tools"))
