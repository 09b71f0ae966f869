"""Publishing to registries: at the start, on changes, and again where a registry was down.

Each registry has a loop of its own, so that a hanging one delays no other. Nothing is withdrawn automatically: an entry
that is not offered any more stays in a registry until a person withdraws it there.

The documents are those of tool sets, and of the agents underlying them. A document describes a tool as our MCP server
does, so that a pin of one matches the other. Registries keep the content of a version forever; a version that is not
configured is derived from the content, so that each change is a new one.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from goclaw.common.config.exports import Publication
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import ALIASES
from goclaw.common.core.records import record
from goclaw.common.core.selection import SET, TAG, Toolsets, parse
from goclaw.common.core.supervise import run_with_restarts
from goclaw.common.specs import ToolSpec
from goclaw.errors import StateError
from goclaw.extensions.registries.base import EntryKind, RegistryError, ToolEntry, digest, entry_of
from goclaw.extensions.registries.client import RegistryClient
from goclaw.extensions.registries.syncing import MAX_PAUSE
from goclaw.tools.toolkit.registry_parts import PublisherPart, PublishPorts

log = logging.getLogger(__name__)


MADE_PREFIX = "content-"
"""The prefix of versions derived from the content. Deliberately invalid for https://semver.org, whose order would be
that of the letters: so the version published last is the newest."""
_DIGITS = 12

LOOK_SECONDS = 30.0
"""Seconds between two looks at the tools."""
ADDRESS_SECONDS = 1.0
"""Seconds between two looks at whether the MCP server listens: it does a moment after the start."""
FACT = "published"
"""The name of the stored fact: `registry/kind/name` and the version published last."""
_CONFLICT, _FORBIDDEN = 409, 403


@record
class OfferedDocument:
    """A document for a registry."""

    place: str
    """Its key in the configuration."""
    kind: EntryKind
    name: str
    version: str
    document: Mapping[str, Any]
    sha256: str

    @property
    def is_made(self) -> bool:
        """Return whether the version is derived from the content."""
        return self.version.startswith(MADE_PREFIX)


@record
class RegistryOffer:
    """The documents for one registry."""

    offered: tuple[OfferedDocument, ...]
    problems: Mapping[str, str]
    """Documents that cannot be offered now: the key in the configuration, and why."""


def offer(config: Config, registry: str, specs: Sequence[ToolSpec], address: str) -> RegistryOffer:
    """Return the documents for a registry. `specs`: all existing tools; `address`: that of our MCP server."""
    sets: dict[str, OfferedDocument] = {}
    agents: dict[str, list[str]] = {}
    problems: dict[str, str] = {}
    for each in config.publications:
        if registry not in each.settings.publish_to:
            continue
        try:
            if first := sets.get(each.name):
                raise ValueError(f"{first.place} has the name {each.name} there; give one of the two a `publish_as`")
            sets[each.name] = _toolset(config, each, specs, address)
        except ValueError as error:
            problems[each.place] = str(error)
        else:
            agents.setdefault(each.agent, []).append(each.name)
    found = [*sets.values()]
    for name in filter(None, agents):
        place = "agents.main" if name == "main" else f"agents.kinds.{name}"
        try:
            found.append(_agent(place, name, config.agents.everyone[name].description, agents[name], address))
        except ValueError as error:
            problems[place] = str(error)
    return RegistryOffer(tuple(found), problems)


def _toolset(config: Config, each: Publication, specs: Sequence[ToolSpec], address: str) -> OfferedDocument:
    """Return the document of a tool set. Raises ValueError if it cannot be offered now."""
    known = {spec.name for spec in specs}
    if missing := _missing(config.toolsets.get(each.word.removeprefix(SET), ()), known):
        raise ValueError(f"there is no tool {', '.join(missing)} now, so the set is not whole")
    sets = Toolsets(config.toolsets, lambda name: name if name in known else "")
    tools = [spec for spec in specs if _picks(sets, [each.word], spec)]
    tools = [spec for spec in tools if not _picks(sets, config.tools.disabled, spec, unknown=True)]
    if not tools:
        raise ValueError("there is no tool in it")
    agent = config.agents.everyone.get(each.agent)
    return _checked_document(
        each.place,
        kind=EntryKind.TOOLSET,
        name=each.name,
        version=each.settings.version or MADE_PREFIX,
        description=each.settings.description or (agent.description if agent else ""),
        tags=each.settings.tags,
        tools=[_tool(spec).model_dump(exclude_defaults=True) for spec in tools],
        remotes=[_remote(address)],
    )


def _picks(sets: Toolsets, selection: Sequence[str], spec: ToolSpec, *, unknown: bool = False) -> bool:
    return sets.picks(selection, spec.name, lambda: spec.tags, unknown=unknown)


def _missing(selection: Sequence[str], known: Set[str]) -> list[str]:
    """Return tools that a set names but that do not exist: a server is down, a package was removed."""
    names = [part for part in parse(tuple(selection))[0] if not part.startswith((TAG, SET))]
    return [name for name in names if name not in known and ALIASES.get(name) not in known]


def _tool(spec: ToolSpec) -> ToolEntry:
    """Return a tool's definition as MCP clients get it (`goclaw.gateway.servers.mcp.tools`)."""
    return ToolEntry(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        input_schema=spec.schema,
        output_schema=dict(spec.result_schema) or None,
        read_only=spec.annotations.read_only,
        destructive=spec.annotations.may_destroy,
        tags=tuple(sorted(spec.tags)),
    )


def _agent(place: str, name: str, description: str, sets: Sequence[str], address: str) -> OfferedDocument:
    """Return the document of an agent underlying published tools, named after the first set: `team/planner` for
    `team/plans`."""
    namespace, slash, _ = sets[0].rpartition("/")
    return _checked_document(
        place,
        kind=EntryKind.AGENT,
        name=f"{namespace}{slash}{name}",
        version=MADE_PREFIX,
        description=description,
        toolsets=sets,
        remotes=[_remote(address)],
    )


def _checked_document(place: str, **fields: Any) -> OfferedDocument:
    """Return a checked document with its version. Raises ValueError for an invalid entry."""
    entry = entry_of(fields)
    document = entry.document()
    if entry.version == MADE_PREFIX:
        document["version"] = f"{MADE_PREFIX}{digest(document)[:_DIGITS]}"
    return OfferedDocument(place, entry.kind, entry.name, document["version"], document, digest(document))


def _remote(address: str) -> Mapping[str, Any]:
    """Return the address of our MCP server, which requires a token."""
    return {"url": address, "headers": ["Authorization"]}


@dataclass(slots=True, eq=False)
class Publisher:
    """The publisher for one registry."""

    registry: str
    client: RegistryClient
    told: dict[str, str]
    """The stored fact about all registries (`FACT`), which is updated here."""
    ports: PublishPorts
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
            await self.publish_new()
            if self.told != before:
                try:
                    await self.ports.facts.learn(FACT, self.told)
                except StateError as error:
                    log.warning("it could not be written down what the registry %s was told: %s", self.registry, error)
            await self.ports.clock.sleep(LOOK_SECONDS if self.ports.address() else ADDRESS_SECONDS)

    async def publish_new(self) -> None:
        """Publish documents that the registry does not have yet, unless it asked for a pause."""
        address = self.ports.address()
        if not address or self.ports.clock.monotonic() < self._again_at:
            return
        wanted = await asyncio.to_thread(offer, self.ports.config, self.registry, self.ports.specs(), address)
        problems = {place: (why, False) for place, why in wanted.problems.items()}
        self._report_all(problems | await self._publish_all(self._due(wanted)))

    async def _publish_all(self, due: Sequence[OfferedDocument]) -> dict[str, tuple[str, bool]]:
        """Publish these; return the faults: the place, the reason, and whether the refusal is final."""
        problems: dict[str, tuple[str, bool]] = {}
        for at, each in enumerate(due):
            try:
                await self._publish(each)
            except RegistryError as error:
                interval = self.ports.config.registries[self.registry].sync_interval
                pause = max(interval, min(error.retry_after or 0, MAX_PAUSE))
                self._again_at = self.ports.clock.monotonic() + pause
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

    async def _publish(self, each: OfferedDocument) -> None:
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
            self.ports.report(self._title(place), "")
        for place, (why, for_good) in problems.items():
            self.ports.report(self._title(place), f"is not published: {why}", for_good=for_good)
        self._reported = set(problems)

    def _title(self, place: str) -> str:
        return f"{place} in the registry {self.registry}"


def _remedy(each: OfferedDocument, error: RegistryError) -> str:
    if error.status == _CONFLICT and not each.is_made:
        return f"; give it another `version` ({each.place}.version)"
    if error.status == _FORBIDDEN and each.kind is EntryKind.TOOLSET:
        return f"; if the name is somebody else's there, set {each.place}.publish_as"
    return ""


async def publish(registries: Iterable[str], ports: PublishPorts, http: aiohttp.ClientSession) -> None:
    """Publish to these registries, until cancelled; see `KeepPublished`. Raises `StateError`."""
    told = dict(await ports.facts.fact(FACT) or {})
    async with asyncio.TaskGroup() as group:
        for name in registries:
            client = RegistryClient(name, ports.config.registries[name], http, ports.clock)
            work = run_with_restarts(f"publishing to {name}", Publisher(name, client, told, ports).run, ports.clock)
            group.create_task(work, name=f"publishing to {name}")


PUBLISHER = PublisherPart(publish)
