"""The dependencies of catalogue synchronisation, which is loaded only if `registries` is configured."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import aiohttp

from goclaw.clock import Clock
from goclaw.config.registries import RegistrySettings
from goclaw.records import record


class Tell(Protocol):
    """Reports the result of each fetch from a registry: the fault; empty: none.

    `changed`: versions changed their content, which only a person can judge.
    """

    def __call__(self, registry: str, problem: str, *, changed: bool) -> None: ...


@record
class SyncPorts:
    """The dependencies of the synchronisation."""

    registries: Mapping[str, RegistrySettings]
    state: Path
    """The state folder."""
    http: aiohttp.ClientSession
    clock: Clock
    tell: Tell


@record
class SyncPart:
    """The line of the catalogue: keeps all registries in sync, until it is cancelled."""

    run: Callable[[SyncPorts], Awaitable[None]]
