"""What keeping catalogues stands on. What does it is loaded only where `registries` is configured."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import aiohttp

from goclaw.clock import Clock
from goclaw.config.registries import RegistrySettings
from goclaw.records import record


class Tell(Protocol):
    """Hears how the last fetch of a registry went, each time: what is wrong; empty: nothing any more.

    `changed`: versions are not what they were, which only a person can judge.
    """

    def __call__(self, registry: str, problem: str, *, changed: bool) -> None: ...


@record
class SyncPorts:
    """What it stands on."""

    registries: Mapping[str, RegistrySettings]
    state: Path
    """The state folder."""
    http: aiohttp.ClientSession
    clock: Clock
    tell: Tell


@record
class SyncPart:
    """The line of the catalogue: keeps all of them in sync, until it is cancelled."""

    run: Callable[[SyncPorts], Awaitable[None]]
