"""What publishing to registries stands on. What does it is loaded only where something is published."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import aiohttp

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.records import record
from goclaw.specs import ToolSpec


class FaultReporter(Protocol):
    """Tells the operator what is wrong.

    `what` it is with, and `why`; an empty text: nothing any more. `for_good`: waiting mends nothing.
    """

    def __call__(self, what: str, why: str, *, for_good: bool = False) -> None: ...


@record
class PublisherPorts:
    """What publishing stands on."""

    config: Config
    clock: Clock
    http: aiohttp.ClientSession
    specs: Callable[[], Sequence[ToolSpec]]
    """All tools that there are now."""
    address: Callable[[], str]
    """Where others reach our MCP server now; empty: nowhere."""
    report: FaultReporter
    fact: Callable[[str], Awaitable[Any]]
    """What is remembered over restarts under a name; None: nothing."""
    learn: Callable[[str, Any], Awaitable[None]]


@record
class PublisherPart:
    """The line `publishing` of `catalog.REGISTRIES`: tells the registries of these names, until it is cancelled."""

    run: Callable[[PublisherPorts, Iterable[str]], Awaitable[None]]
