"""The dependencies of publishing to registries. The publisher is loaded only if anything is published."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import aiohttp

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.records import record
from goclaw.specs import ToolSpec


class FaultReporter(Protocol):
    """Reports a fault to the operator.

    `what` has the fault, and `why`; an empty text ends it. `for_good`: waiting does not help.
    """

    def __call__(self, what: str, why: str, *, for_good: bool = False) -> None: ...


@record
class PublisherPorts:
    """The dependencies of a publisher."""

    config: Config
    clock: Clock
    http: aiohttp.ClientSession
    specs: Callable[[], Sequence[ToolSpec]]
    """Returns all tools that exist now."""
    address: Callable[[], str]
    """Returns the public address of our MCP server; empty: it has none now."""
    report: FaultReporter
    fact: Callable[[str], Awaitable[Any]]
    """Returns the value stored under a name over restarts; None: none."""
    learn: Callable[[str, Any], Awaitable[None]]


@record
class PublisherPart:
    """The line `publishing` of `catalog.REGISTRIES`: publishes to registries by name, until cancelled."""

    run: Callable[[PublisherPorts, Iterable[str]], Awaitable[None]]
