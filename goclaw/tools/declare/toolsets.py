"""Toolsets in code: named groups of tools, some of them an MCP server's or a registry's."""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from goclaw.common.config.exports import PublishSettings
from goclaw.common.config.mcp import PinnedSetSettings, ServerName
from goclaw.common.core.selection import BUILT_IN
from goclaw.tools.declare.options import ToolsetOption, collect, refuse_leftovers
from goclaw.tools.declare.registries import FromRegistry, registry_parts
from goclaw.tools.declare.tools import ToolDeclaration, label
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.parts import ToolsetPart

PUBLISHED = PublishSettings.model_fields.keys()
_SERVER: TypeAdapter[str] = TypeAdapter(ServerName)


def toolset(
    first: "str | FromRegistry", *parts: "ToolDeclaration | Tool | ToolsetOption | FromRegistry"
) -> ToolsetPart:
    """Declare a named group of tools: declared ones, tools made by `@tool`, or those of an MCP server or a registry.

    Raises:
        ValueError: a tool of it does not hold together, or something stands elsewhere.
    """
    refuse_leftovers([first], (str, FromRegistry), "toolset", "toolset")
    name = first if isinstance(first, str) else first.toolset
    refuse_leftovers(parts, (ToolDeclaration, Tool, ToolsetOption, FromRegistry), name, "toolset")
    if name in {each.name for each in BUILT_IN}:
        raise ValueError(f"{name}: is the name of a built-in set, whose tools an agent would get; choose another one")
    origin = next((part for part in (first, *parts) if isinstance(part, FromRegistry)), None)
    said = collect([part for part in parts if isinstance(part, ToolsetOption)], name)
    if origin is not None:
        return _of_registry(name, origin, parts, said)
    labels: tuple[str, ...] = said.get("tags", ())
    told = registry_parts(said, name)
    declared = [part for part in parts if isinstance(part, ToolDeclaration)]
    given = tuple(part for part in parts if isinstance(part, Tool))
    server: str = said.get("from_mcp", "")
    if server and labels:
        raise ValueError(f"{name}: tags does not go with from_mcp; the operator says it (mcp.servers.{server}.tags)")
    pinned = None
    if server and declared:
        if given:
            raise ValueError(f"{name}: a set of pinned tools holds nothing else; put {given[0].spec.name} into another")
        pins = {each.name: each.pinned() for each in declared}
        pinned = PinnedSetSettings(server=server, tools=pins)
    selected: tuple[str, ...] = (f"tag:mcp-{server}",) if server else ()
    return ToolsetPart(
        name,
        said.get("description", ""),
        tools=(*(label(each, labels) for each in given), *(each.built(labels) for each in declared if not server)),
        also=pinned.members(name) if pinned else selected,
        tags=labels,
        pinned=pinned,
        publish=PublishSettings(**{word: said[word] for word in PUBLISHED & said.keys()}) if told else None,
        registries=told,
    )


def _of_registry(name: str, origin: FromRegistry, parts: tuple[Any, ...], said: dict[str, Any]) -> ToolsetPart:
    """Return a toolset of a registry, used as an MCP server of its name. Raises ValueError."""
    try:
        _SERVER.validate_python(name)
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ValueError(
            f"{name!r}: what is from a registry is here an MCP server, whose name {why}; say "
            'toolset("name", from_registry(...))'
        ) from None
    if foreign := [word for word in ("from_mcp", "publish_to", "publish_as") if word in said]:
        raise ValueError(f"{name}: {foreign[0]} does not go with from_registry")
    if any(isinstance(part, ToolDeclaration | Tool) for part in parts):
        raise ValueError(f"{name}: which tools there are says the registry, so none are declared here")
    labels: tuple[str, ...] = said.get("tags", ())
    return ToolsetPart(
        name,
        said.get("description", ""),
        also=(f"tag:mcp-{name}",),
        tags=labels,
        origin=origin.at(said.get("version", ""), labels),
        registries=(origin.registry,),
    )


def from_mcp(server: str) -> ToolsetOption:
    """Use the tools of a server of `mcp.servers`; tools declared with it pin the server's definitions."""
    return ToolsetOption("from_mcp", server)


def mcp_toolset(server: str, name: str, *tools: ToolDeclaration) -> ToolsetPart:
    """Declare a toolset of an MCP server; with tools, exactly these, and each as it is declared here.

    A server's schema is rarely what Python would write: give `args` and `returns` its own, or leave them out.
    """
    return toolset(name, from_mcp(server), *tools)
