"""The seam between the gateway and any place where people write."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
from aiohttp import web

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.events import Actor, Alerts, Attachment, Delivery, GatewayPort, Receipt, Unheard


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a channel can do; the gateway asks before it tries."""

    actions: frozenset[str] = frozenset({"send"})
    """Of `send`, `react`, `edit`, `delete`."""
    media: bool = False


class Channel(Protocol):
    """One way in and out."""

    @property
    def name(self) -> str:
        """As in `Address.channel` and session keys."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def run(self, gateway: GatewayPort) -> None:
        """Take messages in until cancelled. Acknowledge a message to the outside only after `gateway.accept` returned.

        Trouble that waiting may mend (network, conflicts) is handled inside; trouble that only the operator can mend
        is logged, shown by `health`, and ends this method without ending the daemon.
        """
        ...

    async def deliver(self, delivery: Delivery) -> Receipt:
        """Hand one message over. Called for one chat at a time, in order.

        Raises:
            DeliveryError: says whether and when to try again.
        """
        ...

    async def fetch(self, attachment: Attachment) -> bytes:
        """The bytes of a file that came with a message.

        Raises:
            DeliveryError: it cannot be had (too large, gone, network).
        """
        ...

    def health(self) -> str:
        """One line for `/status` and `goclaw status`: `polling, last answer 2 s ago`."""
        ...


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Routes:
    """What is to be served by the daemon's HTTP listener, which opens only when something is (see `servers.http`).

    Add while the channel opens; a request may come before `Channel.run` does. The listener has checked Host and Origin
    and bounds header, body and time; who is calling is the handler's to find out, before it reads the body.
    """

    added: list[tuple[str, str, Handler]] = field(default_factory=list)

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Serve `path` (as it is, no patterns) with `handler`."""
        self.added.append((method, path, handler))


@dataclass(frozen=True, slots=True)
class ChannelPorts:
    """What a channel may use of the outside world."""

    http: aiohttp.ClientSession
    clock: Clock
    load_blob: Callable[[str], Awaitable[bytes]]
    """Bytes of a blob by its key, for files that go out."""
    alerts: Alerts = field(default_factory=Unheard)
    """For faults that only the operator can mend."""
    routes: Routes = field(default_factory=Routes)


@dataclass(frozen=True, slots=True)
class ChannelPart:
    """A line of the catalogue: whether the configuration wants this channel, and how to open it."""

    name: str
    enabled: Callable[[Config], bool]
    open: Callable[[Config, ChannelPorts], AbstractAsyncContextManager[Channel]]


class Account(Protocol):
    """The bot at its service while no daemon runs: `goclaw setup` tries it out and meets its owner."""

    async def name(self) -> str:
        """What people find it by, `@claw_bot`: the service's own answer.

        Raises:
            ChannelError: the token is refused, or nobody can be asked.
        """
        ...

    async def meet(self, code: str) -> Actor:
        """Wait until somebody sends the bot exactly `code`, alone with it; returns who that is.

        Waits for ever: the caller sets the bound. What anybody else wrote stays unacknowledged, for the daemon.

        Raises:
            ChannelError: the code cannot arrive; the message says why and what helps.
        """
        ...


@dataclass(frozen=True, slots=True)
class AccountPart:
    """A line of the catalogue: how to open the account that the configuration names. Nothing is sent yet."""

    name: str
    open: Callable[[Config, aiohttp.ClientSession, Clock], Account]
    """Raises ConfigError when the configuration has no token."""
