"""Publishing to registries: at the start, on changes, and again where a registry was down.

Each registry has a loop of its own, so that a hanging one delays no other. Nothing is withdrawn automatically: an entry
that is not offered any more stays in a registry until a person withdraws it there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.registries.base import EntryKind, RegistryError
from goclaw.registries.client import RegistryClient
from goclaw.registries.offering import OfferedDocument, RegistryOffer, offer
from goclaw.registries.parts import FaultReporter, PublisherPart
from goclaw.registries.syncing import MAX_PAUSE
from goclaw.specs import ToolSpec
from goclaw.state import Facts
from goclaw.supervise import keep_running

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""Seconds between two looks at the tools."""
ADDRESS_SECONDS = 1.0
"""Seconds between two looks at whether the MCP server listens: it does a moment after the start."""
FACT = "published"
"""The name of the stored fact: `registry/kind/name` and the version published last."""
_CONFLICT, _FORBIDDEN = 409, 403


class PublishClient(Protocol):
    """The requests to a registry. Both raise `RegistryError`."""

    async def publish(self, document: Mapping[str, Any]) -> bool: ...

    async def withdraw(self, kind: EntryKind, name: str, version: str) -> bool: ...


@dataclass(slots=True, eq=False)
class Publisher:
    """The publisher for one registry."""

    registry: str
    client: PublishClient
    told: dict[str, str]
    """The stored fact about all registries (`FACT`), which is updated here."""
    config: Config
    clock: Clock
    specs: Callable[[], Sequence[ToolSpec]]
    address: Callable[[], str]
    report: FaultReporter
    facts: Facts
    _seen: dict[tuple[EntryKind, str], str] = field(default_factory=dict)
    """The digest of each document at the last look."""
    _known: dict[tuple[EntryKind, str], str] = field(default_factory=dict)
    """The digest of each document that the registry has for certain."""
    _again_at: float = 0.0
    _reported: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            before = dict(self.told)
            await self.look()
            if self.told != before:
                await self._remember()
            await self.clock.sleep(LOOK_SECONDS if self.address() else ADDRESS_SECONDS)

    async def look(self) -> None:
        """Publish documents that the registry does not have yet, unless it asked for a pause."""
        address = self.address()
        if not address or self.clock.monotonic() < self._again_at:
            return
        wanted = await asyncio.to_thread(offer, self.config, self.registry, self.specs(), address)
        problems = {place: (why, False) for place, why in wanted.problems.items()}
        self._report_all(problems | await self._tell_all(self._due(wanted)))

    async def _tell_all(self, due: Sequence[OfferedDocument]) -> dict[str, tuple[str, bool]]:
        """Publish these; return the faults: the place, the reason, and whether the refusal is final."""
        problems: dict[str, tuple[str, bool]] = {}
        for at, each in enumerate(due):
            try:
                await self._tell(each)
            except RegistryError as error:
                pause = max(self.config.registries[self.registry].sync_interval, min(error.retry_after or 0, MAX_PAUSE))
                self._again_at = self.clock.monotonic() + pause
                problems[each.place] = (f"{error}{_remedy(each, error)}", bool(error.status))
                if not error.status:  # it does not answer: nor would it for the others
                    return problems | {other.place: (str(error), False) for other in due[at:]}
        return problems

    def _due(self, wanted: RegistryOffer) -> list[OfferedDocument]:
        """Return new and changed documents. A change counts when two looks agree: servers, and their tools, come and
        go."""
        due = []
        for each in wanted.offered:
            key = (each.kind, each.name)
            is_settled = self._seen.get(key, each.sha256) == each.sha256
            self._seen[key] = each.sha256
            if is_settled and self._known.get(key) != each.sha256:
                due.append(each)
        return due

    async def _tell(self, each: OfferedDocument) -> None:
        """Publish one document. Raises RegistryError."""
        fact = f"{self.registry}/{each.kind}/{each.name}"
        is_new = await self.client.publish(each.document)
        if not is_new and each.is_made and self.told.get(fact, each.version) != each.version:
            # It existed before, and another version since: only a new publication becomes the newest.
            await self.client.withdraw(each.kind, each.name, each.version)
            await self.client.publish(each.document)
        self._known[(each.kind, each.name)] = each.sha256
        self.told[fact] = each.version
        log.info("%s is in the registry %s: %s %s", each.place, self.registry, each.name, each.version)

    def _report_all(self, problems: Mapping[str, tuple[str, bool]]) -> None:
        for place in self._reported - problems.keys():
            self.report(self._title(place), "")
        for place, (why, for_good) in problems.items():
            self.report(self._title(place), f"is not published: {why}", for_good=for_good)
        self._reported = set(problems)

    def _title(self, place: str) -> str:
        return f"{place} in the registry {self.registry}"

    async def _remember(self) -> None:
        try:
            await self.facts.learn(FACT, self.told)
        except StateError as error:
            log.warning("it could not be written down what the registry %s was told: %s", self.registry, error)


def _remedy(each: OfferedDocument, error: RegistryError) -> str:
    """Return what the operator can do about it here."""
    if error.status == _CONFLICT and not each.is_made:
        return f"; give it another `version` ({each.place}.version)"
    if error.status == _FORBIDDEN and each.kind is EntryKind.TOOLSET:
        return f"; if the name is somebody else's there, set {each.place}.publish_as"
    return ""


async def publish(
    registries: Iterable[str],
    config: Config,
    *,
    http: aiohttp.ClientSession,
    clock: Clock,
    specs: Callable[[], Sequence[ToolSpec]],
    address: Callable[[], str],
    report: FaultReporter,
    facts: Facts,
) -> None:
    """Publish to these registries, until cancelled; see `KeepPublished`. Raises `StateError`."""
    told = dict(await facts.fact(FACT) or {})
    async with asyncio.TaskGroup() as group:
        for name in registries:
            client = RegistryClient(name, config.registries[name], http, clock)
            publisher = Publisher(
                name,
                client,
                told,
                config=config,
                clock=clock,
                specs=specs,
                address=address,
                report=report,
                facts=facts,
            )
            work = keep_running(f"publishing to {name}", publisher.run, clock)
            group.create_task(work, name=f"publishing to {name}")


PUBLISHER = PublisherPart(publish)
