"""The parts of registries that are loaded only if they are configured: the lines of `catalog.REGISTRIES`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import aiohttp

from goclaw.common.config.registries import RegistrySettings
from goclaw.common.config.schema import Config
from goclaw.common.config.state import Facts
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.specs import ToolSpec


class Tell(Protocol):
    """Reports the result of each fetch from a registry: the fault; empty: none.

    `changed`: versions changed their content, which only a person can judge.
    """

    def __call__(self, registry: str, problem: str, *, changed: bool) -> None: ...


class KeepSynced(Protocol):
    """Keeps the catalogues of registries in sync, until cancelled. `state`: the state folder."""

    async def __call__(
        self,
        registries: Mapping[str, RegistrySettings],
        state: Path,
        *,
        http: aiohttp.ClientSession,
        clock: Clock,
        tell: Tell,
    ) -> None: ...


class FaultReporter(Protocol):
    """Reports a fault to the operator.

    `what` has the fault, and `why`; an empty text ends it. `for_good`: waiting does not help.
    """

    def __call__(self, what: str, why: str, *, for_good: bool = False) -> None: ...


@record
class PublishPorts:
    """The services that publishing uses."""

    config: Config
    clock: Clock
    specs: Callable[[], Sequence[ToolSpec]]
    """Returns all tools that exist now."""
    address: Callable[[], str]
    """Returns the public address of our MCP server; empty: it has none now."""
    report: FaultReporter
    facts: Facts


class KeepPublished(Protocol):
    """Publishes to registries by name, until cancelled."""

    async def __call__(self, registries: Iterable[str], ports: PublishPorts, http: aiohttp.ClientSession) -> None: ...


@record
class SyncPart:
    """The line `syncing`."""

    run: KeepSynced


@record
class PublisherPart:
    """The line `publishing`."""

    run: KeepPublished
