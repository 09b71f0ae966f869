"""Ids of the tools that one agent alone has, and their names for its model.

A tool for everyone is known by its name. One of an agent's own toolset (`agent/set` in the configuration) has the id
`agent.set.tool`, so that two agents may each have a tool `answer`. No other name has a dot.
"""

import re
from collections.abc import Collection
from hashlib import sha256

_MAX_READABLE = 55
"""Characters before the digest: providers accept 64."""
_UNFIT = re.compile(r"[^A-Za-z0-9]+")


def local_id(toolset: str, tool: str) -> str:
    """Return the id of a tool in an agent's own toolset; empty: the toolset is no agent's."""
    return f"{toolset.replace('/', '.', 1)}.{tool}" if "/" in toolset else ""


def short_name(tool: str) -> str:
    """Return the declared name of the tool with this id."""
    return tool.rpartition(".")[2]


def agent_of(tool: str) -> str:
    """Return the agent that alone has the tool with this id; empty: it is for everyone."""
    return tool.rpartition(".")[0].partition(".")[0]


def wire_name(tool: str, taken: Collection[str]) -> str:
    """Return the name that the tool with this id has for the model of its agent.

    That is the declared one or, where it is `taken` or has the form of an MCP server's (`server__tool`), one with the
    set and a digest. It depends on the agent's declaration alone: stored conversations and prompt caches stay valid.
    """
    name = short_name(tool)
    if name not in taken and "__" not in name:
        return name
    readable = _UNFIT.sub("-", tool.partition(".")[2])
    return f"{readable[:_MAX_READABLE]}-{sha256(tool.encode()).hexdigest()[:8]}"
