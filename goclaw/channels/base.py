"""The seam between the gateway and any place where people write."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.events import Actor, Attachment, Delivery, GatewayPort, Receipt


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


@dataclass(frozen=True, slots=True)
class ChannelPorts:
    """What a channel may use of the outside world."""

    http: aiohttp.ClientSession
    clock: Clock
    load_blob: Callable[[str], Awaitable[bytes]]
    """Bytes of a blob by its key, for files that go out."""


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
