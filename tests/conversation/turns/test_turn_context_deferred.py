"""A conversation in which Anthropic finds the tools of the index (`providers.anthropic.defer_tools`)."""

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config, ModelOptions, ModelsSettings, ProviderSettings
from goclaw.common.core import catalog
from goclaw.common.core.events import Actor
from goclaw.common.core.plugins import load
from goclaw.llm.base import ModelPorts
from goclaw.llm.open import open_model
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.offering import CORE
from tests.conversation.sessions.approving import results
from tests.conversation.sessions.looking import talk
from tests.harness import World
from tests.llm.asking import model_ports
from tests.llm.caching_provider import CachingProvider, caching_provider
from tests.llm.wires import ANTHROPIC, KEY

BUILT_IN = [load(path, Tool) for path in catalog.TOOLS.values()]
SAID: dict[str, Any] = {"type": "text", "text": "So it is. " * 40}
SEARCH = "tool_search_tool_bm25"


def searching(name: str, **arguments: Any) -> list[dict[str, Any]]:
    """An answer that searches for a tool, finds it, and calls it."""
    found = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": name}],
    }
    return [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": SEARCH, "input": {"query": name}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
        {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments},
    ]


@pytest.fixture
async def provider() -> AsyncIterator[CachingProvider]:
    async with caching_provider() as opened:
        yield opened


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


def world_of(folder: Path, provider: CachingProvider, ports: ModelPorts, **options: Any) -> World:
    settings = ProviderSettings(api_key=SecretStr(KEY), base_url=provider.url, defer_tools=True)
    models = ModelsSettings(options={ANTHROPIC.spec: ModelOptions(context_window=100_000)})
    model = open_model(ANTHROPIC.spec, Config(providers={"anthropic": settings}, models=models), ports)
    return World(folder, tools=BUILT_IN, model=model, **options)


@pytest.mark.promise("P-cache-stable")
async def test_a_tool_that_the_api_found_runs_and_what_is_cached_stays(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    provider.answers = [[SAID], searching("glob", pattern="*.md"), [SAID], [SAID]]
    world = world_of(tmp_path, provider, ports)
    (world.root / "tea.md").write_text("Green.")
    async with world.running() as core:
        await talk(core, "hello", "which notes are there?", "and now?")
        assert "tea.md" in (await results(core))[0]
    assert [entry.object for entry in world.audited if entry.action == "tool.use"] == ["glob"]
    bodies = [asked.body for asked in provider.asked]
    assert len(bodies) == 4 and all(body["tools"] == bodies[0]["tools"] for body in bodies)
    names = {tool["name"] for tool in bodies[0]["tools"] if not tool.get("defer_loading")}
    deferred = {tool["name"] for tool in bodies[0]["tools"] if tool.get("defer_loading")}
    assert names == CORE | {SEARCH} and {"glob", "todo_write", "agent"} <= deferred
    assert all(after.goes_on(before) for before, after in pairwise(provider.asked))
    assert "tool_search_tool_result" in str(bodies[-1]["messages"])


@pytest.mark.promise("P-tools-per-user")
async def test_what_somebody_may_not_use_is_neither_deferred_nor_run(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    provider.answers = [searching("glob", pattern="*"), [SAID]]
    allowed = frozenset({"tool_search", "tool_call", "read", "list"})
    world = world_of(tmp_path, provider, ports, users=[User("memory:anna", allowed_tools=allowed)])
    async with world.running() as core:
        await core.say("look", actor=Actor("memory:anna", "memory"), chat="anna")
        await core.settled()
        assert (await results(core, "memory:anna"))[0] == '{"error": "unknown tool: glob"}'
    assert [tool["name"] for tool in provider.asked[0].body["tools"]] == ["read", SEARCH, "list"]


async def test_plan_mode_changes_nothing_of_what_is_cached_and_is_left_by_a_deferred_tool(
    tmp_path: Path, provider: CachingProvider, ports: ModelPorts
) -> None:
    provider.answers = [[SAID], [SAID], [SAID]]
    async with world_of(tmp_path, provider, ports).running() as core:
        await talk(core, "hello", "/mode plan", "plan it", "/mode default", "go on")
    bodies = [asked.body for asked in provider.asked]
    planning = {tool["name"] for tool in bodies[1]["tools"] if tool.get("defer_loading")}
    assert "exit_plan_mode" in planning
    assert all(after.read == before.read + before.written for before, after in pairwise(provider.asked))
