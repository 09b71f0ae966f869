"""The keys of `tools.pinned`: sets of tools of one MCP server, each of them as it has to be.

The pin is the set's alone: the server's other tools, and one that is not as it has to be, stay available to other
selections, and are no part of the set.
"""

from collections.abc import Iterator, Mapping

from pydantic import Field

from goclaw.config.mcp_servers import PinnedTool, ServerName
from goclaw.config.section import Section, replaceable


class PinnedSetSettings(Section):
    """A set of tools of one MCP server."""

    server: ServerName = Field(description="The server, a name of `mcp.servers`.", examples=["files"])
    tools: dict[str, PinnedTool] = Field(
        default_factory=dict, description="Its tools by the server's names, each as it has to be to belong to the set."
    )
    replace: bool = replaceable()

    def members(self, name: str) -> tuple[str, ...]:
        """Return the selection that the set of this name stands for."""
        return tuple(f"tag:{pin_tag(name, tool)}" for tool in self.tools)


PinnedSets = dict[str, PinnedSetSettings]


def pin_tag(toolset: str, tool: str) -> str:
    """Return the tag of a server's tool that matches its pin: `docs:find`. No name of either has a colon."""
    return f"{toolset}:{tool}"


def pins_of(sets: Mapping[str, PinnedSetSettings], server: str, tool: str) -> Iterator[tuple[str, PinnedTool]]:
    """Yield the sets that pin a tool of a server, with the pins."""
    for name, settings in sets.items():
        if settings.server == server and tool in settings.tools:
            yield name, settings.tools[tool]
