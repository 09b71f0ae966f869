"""Tools over MCP: the same rights, texts and audit as everywhere, in the protocol's own terms."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jsonschema  # type: ignore[import-untyped]  # no stubs are installed
import pytest
from mcp_types import TextContent
from pydantic import Field

from goclaw.common.auth.users import User
from goclaw.common.config.tools import CliToolSettings
from goclaw.common.core.redact import remember
from goclaw.common.specs import Annotations, Risk, SideEffect
from goclaw.errors import ToolError
from goclaw.tools.approval.sentences import describe_effect
from goclaw.tools.builtin.cli_source import cli_tool
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.registry import BuiltIn
from goclaw.tools.toolkit.results import Result
from tests.gateway.servers.mcp.exporting import living, world_of
from tests.gateway.servers.mcp.house import ANN, BOB, house
from tests.parts import Trail, acting

ERAS = ["legacy", "2026-07-28"]


class Sum(Result):
    total: Annotated[int, Field(description="All of them.")]
    note: str = ""


@tool(side_effect=SideEffect.NONE, title="Add up")
async def add(ctx: ToolContext, numbers: list[int], note: str = "") -> Sum:
    """Add numbers."""
    return Sum(total=sum(numbers), note=note)


@tool(side_effect=SideEffect.SPAWNS)
async def launch(ctx: ToolContext) -> str:
    """Start something great."""
    return "launched"


def said(result: Any) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_goes_out_with_its_schemas_and_hints(tmp_path: Path, era: str) -> None:
    command = CliToolSettings(command="wc", description="Count.", title="Count words", read_only=True, open_world=False)
    tools = [add, cli_tool("count_words", command)]
    async with house(tmp_path, tools=tools) as home, home.client(mode=era) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        hints = listed["count_words"].annotations
        assert hints is not None and listed["count_words"].title == "Count words"
        assert (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint) == (True, True, False)
        found = listed["add"]
        assert (found.title, found.description) == ("Add up", "Add numbers.")
        assert found.input_schema == add.spec.schema and found.output_schema == add.spec.result_schema
        assert found.annotations is not None
        assert (found.annotations.read_only_hint, found.annotations.idempotent_hint) == (True, True)
        assert listed["exec"].annotations and listed["exec"].annotations.open_world_hint is not None
        result = await client.call_tool("add", {"numbers": [1, 2]})
        assert (result.structured_content, result.is_error) == ({"total": 3, "note": ""}, False)
        jsonschema.validate(result.structured_content, found.output_schema)


async def test_a_tool_may_destroy_unless_it_only_reads_or_says_otherwise(tmp_path: Path) -> None:
    def keeping(name: str, side_effect: SideEffect, hints: Annotations | None = None) -> Tool:
        async def keep(ctx: ToolContext) -> str:
            """Keep it."""
            return "kept"

        return tool(side_effect=side_effect, name=name, annotations=hints)(keep)

    tools = [
        keeping("silent", SideEffect.MUTATING),
        keeping("gentle", SideEffect.MUTATING, Annotations(destructive=False)),
        keeping("rough", SideEffect.MUTATING, Annotations(destructive=True)),
        keeping("reading", SideEffect.READ_ONLY),
    ]
    async with house(tmp_path, tools=tools) as home, home.client() as client:
        listed = (await client.list_tools()).tools
    told = {each.name: each.annotations.destructive_hint for each in listed if each.annotations}
    expected = {"silent": True, "gentle": False, "rough": True, "reading": None}
    assert {name: told[name] for name in expected} == expected
    silent, gentle = tools[0].spec, tools[1].spec
    assert silent.risk is gentle.risk is Risk.MEDIUM
    assert describe_effect(silent, silent.risk) == describe_effect(gentle, gentle.risk) == "", "asking stays as it is"


@pytest.mark.promise("P-roles")
@pytest.mark.promise("P-tools-per-user")
@pytest.mark.parametrize("era", ERAS)
async def test_a_user_sees_and_may_call_exactly_what_users_json_allows(tmp_path: Path, era: str) -> None:
    users = [User(ANN, allowed_tools=frozenset({"read", "add"})), User(BOB)]
    async with house(tmp_path, users=users, tools=[add]) as home, home.client(mode=era) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["add", "read"]
        assert (await client.call_tool("add", {"numbers": [1]})).structured_content == {"total": 1, "note": ""}
        forbidden = await client.call_tool("write", {"path": "a", "content": "b"})
        unknown = await client.call_tool("nothing", {"path": "a", "content": "b"})
        assert (said(forbidden), said(unknown)) == ("unknown tool: write", "unknown tool: nothing")
        assert forbidden.is_error and unknown.is_error
        home.put_users(User(BOB))
        assert said(await client.call_tool("add", {"numbers": [1]})) == "unknown tool: add"


async def test_what_is_not_offered_is_not_there_for_anybody(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        assert {"read", "exec", "search"} <= listed and not {"message", "agent", "ask_user", "command"} & listed
        assert said(await client.call_tool("todo_write", {"todos": []})) == "unknown tool: todo_write"
        assert not {"tool_search", "tool_call"} & listed, "clients are told of every tool"
        by_call = {"name": "todo_write", "arguments": {"todos": []}}
        assert said(await client.call_tool("tool_call", by_call)) == "unknown tool: todo_write"


async def test_what_cannot_work_is_not_offered_and_says_why_when_it_is_called_all_the_same(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        assert "web_fetch" in listed and not {"ssh_exec", "web_search"} & listed
        refused = await client.call_tool("ssh_exec", {"host": "web1", "command": "df"})
    assert refused.is_error and said(refused).startswith("ssh_exec is not set up")


async def test_tools_that_need_a_conversation_are_offered_by_no_settings(tmp_path: Path) -> None:
    async with living(world_of(tmp_path, [], BuiltIn().tools(), {"tools": ["-read"]})) as home, home.client() as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        assert {"agent", "config", "todo_write"} <= listed
        assert not {"ask_user", "command", "exit_plan_mode", "message", "schedule"} & listed
        refused = await client.call_tool("ask_user", {"questions": [{"question": "Tea?"}]})
    assert refused.is_error and said(refused) == "nobody can be asked over MCP"


async def test_what_one_agent_alone_has_is_for_no_client(tmp_path: Path) -> None:
    own = replace(add, spec=replace(add.spec, local_id="clerk.tools.add"))
    world = world_of(tmp_path, [], [own], {"tools": ["add", "clerk.tools.add"]})
    async with living(world) as home, home.client() as client:
        assert (await client.list_tools()).tools == []
        refused = await client.call_tool("add", {"a": 1, "b": 2})
    assert refused.is_error and said(refused) == "unknown tool: add"


@pytest.mark.promise("P-audit")
async def test_each_call_is_in_the_audit_log_with_its_way_in(tmp_path: Path) -> None:
    async with house(tmp_path, tools=[add]) as home, home.client(BOB) as client:
        await client.call_tool("add", {"numbers": [1]})
        await client.call_tool("nothing", {})
        entries = [(each.actor.key, each.actor.entry, each.object, each.allowed) for each in home.audited]
        assert entries == [(BOB, "mcp", "add", True), (BOB, "mcp", "nothing", False)]


async def test_what_goes_wrong_is_an_error_of_the_tool_in_our_words(tmp_path: Path) -> None:
    async def fail() -> str:
        raise ToolError("the moon is not there; wait for the night")

    async with house(tmp_path, tools=[acting("moon", fail), add]) as home, home.client() as client:
        failed = await client.call_tool("moon", {})
        assert (said(failed), failed.is_error) == ("the moon is not there; wait for the night", True)
        wrong = await client.call_tool("add", {"numbers": "three"})
        assert wrong.is_error and 'field "numbers"' in said(wrong)


async def test_what_has_to_be_asked_for_is_refused_with_the_remedy(tmp_path: Path) -> None:
    async with house(tmp_path, tools=[launch]) as home, home.client() as client:
        refused = await client.call_tool("launch", {})
        assert refused.is_error and said(refused).startswith("approval required: launch has critical risk; ")
        assert "policy.auto_allow" in said(refused)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_cancelled_ends_its_tool(tmp_path: Path, era: str) -> None:
    trail = Trail()
    async with house(tmp_path, tools=[acting("slow", trail.leave_slowly)]) as home, home.client(mode=era) as client:
        calling = asyncio.create_task(client.call_tool("slow", {}))
        await trail.begun.wait()
        calling.cancel()
        await asyncio.wait({calling})
        while not trail.cancelled:  # noqa: ASYNC110 -- what a client takes back has no event
            await asyncio.sleep(0)
        assert said(await client.call_tool("nothing", {})) == "unknown tool: nothing"
        assert [each.result for each in home.audited if each.object == "slow"] == ["failed"]


async def test_a_call_has_its_time_and_no_more(tmp_path: Path) -> None:
    trail = Trail()

    @tool(side_effect=SideEffect.NONE, timeout=0.05)
    async def dawdle(ctx: ToolContext) -> str:
        """Take its time."""
        return await trail.leave_slowly()

    async with house(tmp_path, tools=[dawdle]) as home, home.client() as client:
        late = await client.call_tool("dawdle", {})
        assert (late.is_error, said(late)) == (True, "dawdle timed out after 0.05 s") and trail.cancelled == 1


async def test_a_long_call_tells_that_it_still_runs(tmp_path: Path) -> None:
    trail, told = Trail(), list[tuple[float, str | None]]()
    two = asyncio.Event()

    async def take(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))
        if len(told) == 2:
            two.set()

    async with (
        house(tmp_path, tools=[acting("slow", trail.leave_slowly)]) as home,
        home.client(mode="legacy") as client,
    ):
        calling = asyncio.create_task(client.call_tool("slow", {}, progress_callback=take))
        await trail.begun.wait()
        while not two.is_set():
            home.world.clock.advance(5)
            await asyncio.sleep(0)
        trail.gate.set()
        assert said(await calling) == "done"
    assert [message for _, message in told[:2]] == ["slow", "slow"] and told[0][0] < told[1][0]


async def test_a_secret_is_masked_in_the_fields_too(tmp_path: Path) -> None:
    remember("hunter2-hunter2")
    async with house(tmp_path, tools=[add]) as home, home.client() as client:
        result = await client.call_tool("add", {"numbers": [], "note": "it is hunter2-hunter2"})
        assert "hunter2" not in str(result)


async def test_a_result_that_breaks_its_schema_is_an_error_that_says_that_the_tool_ran(tmp_path: Path) -> None:
    @tool(side_effect=SideEffect.MUTATING)
    async def book(ctx: ToolContext) -> Sum:
        """Book a table."""
        return {"table": 7}  # type: ignore[return-value]  # that is the bug

    async with house(tmp_path, tools=[book]) as home, home.client() as client:
        result = await client.call_tool("book", {})
        assert (result.structured_content, result.is_error) == (None, True)
        assert said(result).startswith('{"table":7}\n[book ran, but its result is not what it declares: ')


async def test_what_a_hook_keeps_back_leaves_no_fields(tmp_path: Path) -> None:
    async def keep(event: HookEvent) -> HookAnswer:
        return HookAnswer(suppress=True)

    hooks = Hooks([Registered("keep", frozenset({"post_tool"}), keep)])
    async with house(tmp_path, tools=[add], hooks=hooks) as home, home.client() as client:
        result = await client.call_tool("add", {"numbers": [40, 2]})
        assert (result.structured_content, result.is_error) == (None, True) and "42" not in said(result)


async def test_files_are_read_and_written_in_the_users_workspace(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as client:
        written = await client.call_tool("write", {"path": "a.txt", "content": "one\n"})
        assert written.structured_content == {"path": "a.txt", "size": 4, "created": True}
        assert (home.files / "a.txt").read_text() == "one\n"
        read = await client.call_tool("read", {"path": "a.txt"})
        assert said(read) == "     1\tone" and read.structured_content and read.structured_content["total"] == 1


@pytest.mark.parametrize("era", ERAS)
async def test_every_built_in_tool_describes_itself_validly(tmp_path: Path, era: str) -> None:
    async with house(tmp_path, users=[User(ANN)]) as home, home.client(mode=era) as client:
        for each in (await client.list_tools()).tools:
            assert each.output_schema and each.output_schema["type"] == each.input_schema["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(each.input_schema)
            jsonschema.Draft202012Validator.check_schema(each.output_schema)
