"""The analyst of docs/declare.md works as the page says: two registries, servers of others, and what it publishes."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.messages import ToolCall
from goclaw.common.net import open_client
from goclaw.common.specs import ToolSpec
from goclaw.conversation.agent.kinds import Kinds
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore
from goclaw.extensions.registries.client import RegistryClient
from goclaw.extensions.registries.publishing import Publisher
from goclaw.extensions.registries.syncing import sync
from goclaw.llm.scripted import Answer
from goclaw.tools.toolkit.parts import parts_of
from goclaw.tools.toolkit.registry_parts import PublishPorts
from goclaw.tools.toolkit.sources import open_sources
from tests import house
from tests.conversation.sessions.agents import asks_for, results, says
from tests.docs.pages import Page
from tests.extensions.registries.fake_registry import FakeRegistry, fake_registry, toolset
from tests.harness import Tools, World
from tests.plugin import install, packages, with_packages
from tests.tools.mcp.test_transports_http import listening

__all__ = ["packages"]

PAGE = Page(house.ROOT / "docs" / "declare.md")
(SOURCE,) = (block.text + "\n" for block in PAGE.blocks() if block.mark == "<!-- file: analyst.py -->")
LINE = re.search(r'`"(agents\.\w+)" = "(\w+:\w+)"`', PAGE.text)
SECONDS = 60.0


async def query(table: str) -> str:
    """Ask a table."""
    return f"{table} has 3 rows"


async def find(words: str) -> str:
    """Look for it."""
    return f"found {words}"


@asynccontextmanager
async def server_of(function: Any) -> AsyncIterator[str]:
    """An MCP server with this one tool, which only reads; its address."""
    made = MCPServer("others", version="1")
    made.tool(annotations={"readOnlyHint": True})(function)  # type: ignore[arg-type]  # it takes plain data
    at = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{at.getsockname()[1]}/mcp"
    async with listening(made.streamable_http_app(), at):
        yield address


def data_tools(version: str, address: str) -> dict[str, Any]:
    tool = {"name": "query", "description": "Ask a table.", "read_only": True}
    tool["input_schema"] = {
        "type": "object",
        "properties": {"table": {"type": "string"}},
        "required": ["table"],
    }
    return toolset("data-tools", version, tools=[tool], remotes=[{"url": address}])


def of_the_public_registry(names: Iterable[str], address: str) -> bytes:
    remotes = [{"type": "streamable-http", "url": address}]
    servers = [{"server": {"name": name, "version": "1.0.0", "description": "", "remotes": remotes}} for name in names]
    return json.dumps({"servers": servers, "metadata": {}}).encode()


@asynccontextmanager
async def registries() -> AsyncIterator[tuple[FakeRegistry, FakeRegistry]]:
    """Both, and the servers that they name."""
    async with AsyncExitStack() as stack:
        data, search = (
            await stack.enter_async_context(server_of(query)),
            await stack.enter_async_context(server_of(find)),
        )
        elsewhere = "http://127.0.0.1:1/mcp"
        listed = [data_tools("2.0.0", elsewhere), data_tools("2.1.0", data), data_tools("2.2.0", elsewhere)]
        corp = await stack.enter_async_context(fake_registry(*listed))
        public = await stack.enter_async_context(fake_registry())
        names = ("io.example/web-search", "io.example/experimental-search", "io.other/web-search")
        public.instead = [of_the_public_registry(names, search)]
        yield corp, public


async def told(config: Config, corp: FakeRegistry, specs: list[ToolSpec], http: Any) -> list[Any]:
    """What the registry of the house is told."""
    unused: Any = None
    publisher = Publisher(
        "corp",
        RegistryClient("corp", config.registries["corp"], http, SteppedClock()),
        {},
        PublishPorts(
            config,
            SteppedClock(),
            specs=lambda: specs,
            address=lambda: "https://tools.example.org/mcp",
            report=lambda what, why, *, for_good=False: pytest.fail(f"{what} {why}"),
            facts=unused,
        ),
    )
    await publisher.publish_new()
    return corp.put


async def test_the_analyst_works_with_tools_of_both_registries_and_publishes_its_own(
    packages: Path, tmp_path: Path
) -> None:
    assert LINE is not None
    async with asyncio.timeout(SECONDS), registries() as (corp, public), open_client() as http:
        source = SOURCE.replace("https://registry.corp.example", corp.url)
        source = source.replace("https://registry.public.example", public.url)
        install(packages, "analyst-agents", {"analyst": source}, {LINE[1]: LINE[2]})
        loaded = with_packages(tmp_path / "state")
        config, parts = loaded.config, parts_of(loaded.packaged)
        shelf = CatalogStore(config.state_dir / FILE)
        for name, settings in config.registries.items():
            await sync(name, settings, shelf, http, RealClock())
        assert {each.entry.name for each in shelf.entries("public")} == {"io.example/web-search"}
        async with open_sources(config, RealClock(), parts) as sources:
            await sources.ready()
            await sources.settled(SECONDS)
            assert sources.faults == {}
            tools = list(sources.tools())
            shown, answers = await conversation(tmp_path, config, tools)
        published = await told(config, corp, [each.spec for each in tools], http)
    assert shown == ["analyze", "mcp__data-tools__query", "mcp__web-search__find"]
    analysis, answer = sorted(answers, key=lambda text: "has" in text)
    assert "sales grows" in analysis and "sales has 3 rows" in answer
    kind = Kinds(config).of("analyst")
    assert kind is not None and (kind.rules.calls.total.most, kind.settings.policy.time_budget) == (10, 300)
    assert [(each["kind"], each["name"], each.get("tags")) for each in published] == [
        ("toolset", "analytics", ["analytics", "data"]),
        ("agent", "analyst", None),
    ]


async def conversation(folder: Path, config: Config, tools: list[Any]) -> tuple[list[str], list[str]]:
    """What the analyst is shown, and the results of its calls."""
    script: list[Answer] = [
        asks_for(
            "How are sales?",
            ToolCall("c1", "mcp__data-tools__query", {"table": "sales"}),
            ToolCall("c2", "analyze", {"dataset_id": "sales"}),
        ),
        says("sales", "They grow."),
    ]
    world = World(folder, script)
    routed = config.agents.model_validate({**config.agents.model_dump(), "routes": [{"agent": "analyst"}]})
    world.config = config.model_copy(update={"agents": routed, "state_dir": world.config.state_dir})
    world.tools = Tools(tools)
    async with world.running() as core:
        await core.say("How are sales?")
        await core.settled()
        answers = results(await core.messages())
    assert world.texts() == ["They grow."]
    return sorted(spec.name for spec in world.script.requests[0].tools), answers
