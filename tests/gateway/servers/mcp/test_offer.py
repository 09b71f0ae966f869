"""What the server is as a whole: who it says it is, what it can, and what a call costs."""

import cProfile
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.lowlevel.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from goclaw import __version__
from tests.gateway.servers.mcp.house import house
from tests.gateway.servers.mcp.test_tools import add

CALLS = 10
MOST_STEPS = 5_000
"""Functions that a call may run over the library's own: some two thousand do; what is made anew each time shows."""


async def list_bare(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name="add", input_schema=add.spec.schema)])


async def call_bare(ctx: Any, params: Any) -> CallToolResult:
    data = {"total": 3, "note": ""}
    return CallToolResult(content=[TextContent(text=str(data))], structured_content=data)


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_call_costs_little_more_than_the_librarys_own(tmp_path: Path, era: Any) -> None:
    bare = Server("bare", on_list_tools=list_bare, on_call_tool=call_bare)
    async with house(tmp_path, tools=[add]) as home, home.client(mode=era) as ours, Client(bare, mode=era) as theirs:
        cost, own = [await steps(client) for client in (ours, theirs)]
        assert cost - own < MOST_STEPS


async def steps(client: Client) -> float:
    """How many functions run for a call, once what is done once has been."""
    await client.call_tool("add", {"numbers": [1, 2]})
    with cProfile.Profile() as profile:
        for _ in range(CALLS):
            await client.call_tool("add", {"numbers": [1, 2]})
    return sum(entry.callcount for entry in profile.getstats()) / CALLS


async def test_the_server_says_who_it_is(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"name": "claw", "version": "7.1", "instructions": "Ask before you write."}
    async with house(tmp_path, **settings) as home, home.client(mode="legacy") as client:
        assert client.server_info and (client.server_info.name, client.server_info.version) == ("claw", "7.1")
        assert client.instructions == "Ask before you write."
        known = client.server_capabilities
        assert known.tools and known.resources and known.prompts and known.completions
        assert known.tools.list_changed and known.resources.subscribe and known.prompts.list_changed
    async with house(tmp_path) as home, home.client(mode="legacy") as client:
        assert client.server_info and client.server_info.version == __version__
