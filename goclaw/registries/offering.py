"""What this gateway offers to registries, as documents: sets of tools that are published, and the agents behind them.

A document says of a tool what our MCP server says of it, so that whoever pins one finds the other. Registries keep what
a version was for ever; one that nobody chose is made from the content, so that each change is another version.
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
"""Begins a version that is made from the content. It is none of https://semver.org, where the order of such versions
would be that of their letters: as it is, the one that was published last is the newest."""
_DIGITS = 12


@record
class OfferedDocument:
    """A document for a registry."""

    place: str
    """What it is of, in the configuration."""
    kind: EntryKind
    name: str
    version: str
    document: Mapping[str, Any]
    sha256: str

    @property
    def is_made(self) -> bool:
        """Whether nobody chose its version."""
        return self.version.startswith(MADE)


@record
class RegistryOffer:
    """All that a registry is to be told."""

    offered: tuple[OfferedDocument, ...]
    problems: Mapping[str, str]
    """What cannot be offered now: its place in the configuration, and why."""


def offer(config: Config, registry: str, specs: Sequence[ToolSpec], address: str) -> RegistryOffer:
    """What a registry is to be told. `specs`: all tools that there are; `address`: that of our MCP server."""
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
    """Raises ValueError: it cannot be offered as it is now."""
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
    """Tools that a set names and that are not there: a server that is down, a package that is gone."""
    names = [part for part in parsed(tuple(selection))[0] if not part.startswith((TAG, SET))]
    return [name for name in names if name not in known and ALIASES.get(name) not in known]


def _tool(spec: ToolSpec) -> ToolEntry:
    """What MCP clients are told of it (`goclaw.servers.mcp.tools`)."""
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
    """An agent that exports some of what is told, beside the first of it: `team/planner` for `team/plans`."""
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
    """Raises ValueError: an entry cannot be like that."""
    entry = entry_of(fields)
    document = entry.document()
    if entry.version == MADE:
        document["version"] = f"{MADE}{digest(document)[:_DIGITS]}"
    return OfferedDocument(place, entry.kind, entry.name, document["version"], document, digest(document))


def _remote(address: str) -> Mapping[str, Any]:
    """Our MCP server, to which nobody comes without a token."""
    return {"url": address, "headers": ["Authorization"]}
