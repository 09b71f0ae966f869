"""Which tools a model is offered: those that can work, the same ones from a context's beginning to its end."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.core.plugins import load
from goclaw.llm.scripted import Answer
from goclaw.tools.toolkit.base import Tool
from tests.conversation.sessions.looking import talk
from tests.harness import World

NAMES = (
    "read",
    "ssh_exec",
    "web_search",
    "memory_search",
    "memory_list",
    "memory_get",
    "memory_read",
    "memory_write",
    "memory_delete",
    "memento",
    "transcript_search",
    "exit_plan_mode",
)
TOOLS = [load(catalog.TOOLS[name], Tool) for name in NAMES]
NO_MEMORY: dict[str, Any] = {"memory": {"enabled": False}}


def world_of(folder: Path, *answers: Answer, **config: Any) -> World:
    world = World(folder, answers, tools=TOOLS, **config)
    world.script.rest = Answer("Well.")
    return world


def offered(world: World) -> list[list[str]]:
    """The names of the tools in each request."""
    return [[spec.name for spec in request.tools] for request in world.script.requests]


async def test_what_cannot_work_is_not_offered_and_says_why_when_it_is_called_all_the_same(tmp_path: Path) -> None:
    calls = [ToolCall("1", "web_search", {"query": "tea"}), ToolCall("2", "memory_list", {})]
    calls += [ToolCall("3", "exit_plan_mode", {"plan": "1. Tea"}), ToolCall("4", "memory_read", {"key": "tea"})]
    world = world_of(tmp_path, Answer(calls=tuple(calls)), **NO_MEMORY)
    async with world.running() as core:
        await talk(core, "hello")
        results = [message.content for message in await core.messages() if isinstance(message, ToolResult)]
    assert offered(world) == [["read"], ["read"]]
    assert results[0].startswith('{"error": ')
    assert results[1] == '{"error": "memory search is disabled: set memory.enabled"}'
    assert results[2].startswith("there is no plan mode to leave: the mode is default.")
    assert results[3] == '{"error": "memory is disabled: set memory.enabled"}'


async def test_what_is_set_up_is_offered(tmp_path: Path) -> None:
    host = {"host": "web1", "user": "me", "identity_file": "/k", "known_hosts": "/h"}
    tools = {"ssh": {"hosts": {"web1": host}}, "web_search": {"provider": "duckduckgo"}}
    world = world_of(tmp_path)
    world.config = Config.model_validate({"state_dir": tmp_path / "state", "tools": tools})
    async with world.running() as core:
        await talk(core, "hello")
    assert offered(world) == [[name for name in NAMES if name != "exit_plan_mode"]]


async def test_conversations_that_are_not_indexed_are_not_offered_to_be_searched(tmp_path: Path) -> None:
    world = world_of(tmp_path, memory={"transcripts": False})
    async with world.running() as core:
        await talk(core, "hello")
    assert "memory_search" in offered(world)[0] and "transcript_search" not in offered(world)[0]


@pytest.mark.promise("P-cache-stable")
async def test_the_way_out_of_plan_mode_is_offered_from_when_it_is_entered_to_the_end_of_the_context(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, **NO_MEMORY)
    async with world.running() as core:
        await talk(core, "before", "/mode plan", "in it", "/mode default", "after it")
    async with world.running() as core:
        await talk(core, "after a restart", "/compact", "after a compaction", "/clear", "in a new context")
        await talk(core, "/mode plan", "in it again")
    without, with_it = ["read"], ["read", "exit_plan_mode"]
    said = [request for request in world.script.requests if request.tools]
    assert [[spec.name for spec in request.tools] for request in said] == [
        without,
        *[with_it] * 4,
        without,
        with_it,
    ]


async def test_an_agent_that_answers_no_person_is_not_offered_the_way_out_of_plan_mode(tmp_path: Path) -> None:
    agent = load(catalog.TOOLS["agent"], Tool)
    call = ToolCall("1", "agent", {"task": "look", "prompt": "Look around."})
    world = World(tmp_path, [Answer(calls=(call,))], tools=[*TOOLS, agent], policy={"mode": "plan"}, **NO_MEMORY)
    world.script.rest = Answer("Well.")
    async with world.running() as core:
        await talk(core, "hello")
    assert [set(names) for names in offered(world)[:1]] == [{"read", "agent", "exit_plan_mode"}]
    assert all("exit_plan_mode" not in names for names in offered(world)[1:-1])
