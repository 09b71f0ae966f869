"""Documents that this gateway publishes in registries: tool sets, and the agents behind them.

A document describes a tool as our MCP server does, so that a pin of one matches the other. Registries keep the content
of a version forever; a version that is not configured is derived from the content, so that each change is a new one.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from goclaw.catalog import ALIASES
from goclaw.config.exports import Publication
from goclaw.config.schema import Config
from goclaw.records import record
from goclaw.registries.base import EntryKind, ToolEntry, digest, entry_of
from goclaw.selection import SET, TAG, Toolsets, parsed
from goclaw.specs import ToolSpec

MADE = "content-"
"""The prefix of versions derived from the content. Deliberately invalid for https://semver.org, whose order would be
that of the letters: so the version published last is the newest."""
_DIGITS = 12


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
        return self.version.startswith(MADE)


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
    sets = Toolsets(config.toolsets, known.__contains__)
    tools = [spec for spec in specs if _picked(sets, [each.word], spec)]
    tools = [spec for spec in tools if not _picked(sets, config.tools.disabled, spec, unknown=True)]
    if not tools:
        raise ValueError("there is no tool in it")
    agent = config.agents.everyone.get(each.agent)
    return _offered(
        each.place,
        kind=EntryKind.TOOLSET,
        name=each.name,
        version=each.settings.version or MADE,
        description=each.settings.description or (agent.description if agent else ""),
        tags=each.settings.tags,
        tools=[_tool(spec).model_dump(exclude_defaults=True) for spec in tools],
        remotes=[_remote(address)],
    )


def _picked(sets: Toolsets, selection: Sequence[str], spec: ToolSpec, *, unknown: bool = False) -> bool:
    return sets.picks(selection, spec.name, lambda: spec.tags, unknown=unknown)


def _missing(selection: Sequence[str], known: Set[str]) -> list[str]:
    """Return tools that a set names but that do not exist: a server is down, a package was removed."""
    names = [part for part in parsed(tuple(selection))[0] if not part.startswith((TAG, SET))]
    return [name for name in names if name not in known and ALIASES.get(name) not in known]


def _tool(spec: ToolSpec) -> ToolEntry:
    """Return a tool's definition as MCP clients get it (`goclaw.servers.mcp.tools`)."""
    return ToolEntry(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        input_schema=spec.schema,
        output_schema=dict(spec.result_schema) or None,
        read_only=spec.annotations.read_only,
        destructive=spec.annotations.destructive,
        tags=tuple(sorted(spec.tags)),
    )


def _agent(place: str, name: str, description: str, sets: Sequence[str], address: str) -> OfferedDocument:
    """Return the document of an agent behind published tools, named after the first set: `team/planner` for
    `team/plans`."""
    namespace, slash, _ = sets[0].rpartition("/")
    return _offered(
        place,
        kind=EntryKind.AGENT,
        name=f"{namespace}{slash}{name}",
        version=MADE,
        description=description,
        toolsets=sets,
        remotes=[_remote(address)],
    )


def _offered(place: str, **fields: Any) -> OfferedDocument:
    """Return a checked document with its version. Raises ValueError for an invalid entry."""
    entry = entry_of(fields)
    document = entry.document()
    if entry.version == MADE:
        document["version"] = f"{MADE}{digest(document)[:_DIGITS]}"
    return OfferedDocument(place, entry.kind, entry.name, document["version"], document, digest(document))


def _remote(address: str) -> Mapping[str, Any]:
    """Return the address of our MCP server, which requires a token."""
    return {"url": address, "headers": ["Authorization"]}
