"""Names of other systems: resolved before anything is decided, under the rights of the tool that they mean."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.config_lint import warnings
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.events import Actor, ToolStarted
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.common.core.selection import Toolsets
from goclaw.common.specs import SideEffect
from goclaw.llm.scripted import Answer
from goclaw.testing import open_bench
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Registered
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.registry import BuiltIn, Registry, meant, unwrap
from tests.conversation.sessions.approving import reconfigure, results
from tests.harness import World
from tests.parts import Tools

ANNA = Actor("memory:anna", "memory")


@tool(side_effect=SideEffect.NONE, name="exec", tags=("shell",))
async def run(ctx: ToolContext, command: str, timeout: int = 30) -> str:
    """Say what would run."""
    return f"{command} for {timeout} s"


@tool(side_effect=SideEffect.NONE, name="bash")
async def own_bash(ctx: ToolContext, command: str) -> str:
    """A tool of the operator's."""
    return f"own {command}"


def access_of(known: Sequence[Tool], user: User, **config: Any) -> tuple[Access, Registry]:
    access = Access(Users([user]), Config.model_validate(config))
    return access, Registry([Tools(known)], access)


def test_every_other_name_means_a_tool_that_there_is_or_that_comes_and_is_none_itself() -> None:
    later = {"agent", "config", "send_message", "team_create", "team_delete", "list_mcp_resources", "read_mcp_resource"}
    assert set(catalog.ALIASES.values()) <= set(catalog.TOOLS) | later
    assert not set(catalog.ALIASES) & set(catalog.TOOLS)


async def test_a_call_by_another_name_is_one_of_the_tool_everywhere(tmp_path: Path) -> None:
    async with open_bench(tmp_path, run) as bench:
        result = await bench.call("Bash", {"command": "ls", "description": "List", "timeout": 2_000})
    assert (result.content, result.name) == ("ls for 2 s", "exec")
    assert [(entry.object, entry.detail) for entry in bench.audited] == [("exec", "command=ls timeout=2")]
    started = [event.name for event in bench.events if isinstance(event, ToolStarted)]
    assert started == ["exec"]


async def test_without_aliases_there_is_no_such_tool(tmp_path: Path) -> None:
    async with open_bench(tmp_path, run, tools={"aliases": False}) as bench:
        assert (await bench.call("Bash", {"command": "ls"})).content == '{"error": "unknown tool: Bash"}'
        assert not (await bench.call("exec", {"command": "ls"})).is_error


async def test_a_tool_that_is_really_called_so_comes_first(tmp_path: Path) -> None:
    async with open_bench(tmp_path, run, own_bash) as bench:
        assert (await bench.call("bash", {"command": "ls"})).content == "own ls"
        assert (await bench.call("Bash", {"command": "ls"})).content == "ls for 30 s"


async def test_what_is_not_there_and_what_is_not_allowed_read_alike_under_the_name_that_was_said(
    tmp_path: Path,
) -> None:
    async with open_bench(tmp_path / "a") as bench:
        absent = await bench.call("Bash", {"command": "ls"})
    async with open_bench(tmp_path / "b", run, tools={"disabled": ["exec"]}) as bench:
        forbidden = await bench.call("Bash", {"command": "ls"})
    assert absent.content == forbidden.content == '{"error": "unknown tool: Bash"}'


@pytest.mark.parametrize("disabled", ["Bash", "bash", "exec", "tag:shell"])
async def test_a_tool_is_disabled_by_either_name_for_both(tmp_path: Path, disabled: str) -> None:
    async with open_bench(tmp_path, run, tools={"disabled": [disabled]}) as bench:
        for name in ("exec", "Bash", "bash"):
            assert (await bench.call(name, {"command": "ls"})).is_error


@pytest.mark.parametrize("allowed", ["Bash", "bash", "exec"])
def test_allowed_tools_take_either_name(allowed: str) -> None:
    user = User(ANNA.key, allowed_tools=frozenset({allowed}))
    access, registry = access_of([run], user)
    assert access.authorize(ANNA, "tool.use", "exec").allowed
    assert [spec.name for spec in registry.visible_to(ANNA)] == ["exec"]
    assert registry.find("Bash", ANNA) is run


def test_a_name_that_a_tool_really_has_allows_no_other_one() -> None:
    access, _ = access_of([run, own_bash], User(ANNA.key, allowed_tools=frozenset({"bash"})))
    assert access.authorize(ANNA, "tool.use", "bash").allowed
    assert not access.authorize(ANNA, "tool.use", "exec").allowed
    access, _ = access_of([run, own_bash], User(ANNA.key), tools={"disabled": ["bash"]})
    assert not access.authorize(ANNA, "tool.use", "exec").allowed


def test_what_is_left_out_by_another_name_is_left_out() -> None:
    sets = Toolsets()
    assert not sets.picks(["-Bash"], "exec", lambda: frozenset())
    assert sets.picks(["-Bash"], "read", lambda: frozenset())
    really_called_so = Toolsets(None, lambda name: name)
    assert not really_called_so.picks(["-bash"], "exec", lambda: frozenset())


async def test_what_a_role_fixes_under_another_name_holds_for_the_tool() -> None:
    user = User(ANNA.key, roles=frozenset({"slow"}))
    access, _ = access_of([run], user, roles={"slow": {"inputs": {"Bash": {"timeout": 5}}}})
    decision = access.authorize(ANNA, "tool.use", "exec", {"command": "ls", "timeout": 300})
    assert decision.input == {"command": "ls", "timeout": 5}


async def test_a_hook_for_another_name_hears_of_the_tool() -> None:
    async def guard(event: HookEvent) -> HookAnswer:
        return HookAnswer()

    hook = Registered("guard", frozenset({"pre_tool"}), guard, frozenset({"Bash"}))
    assert hook.matches(HookEvent("pre_tool", "s", ANNA, "exec"))
    assert not hook.matches(HookEvent("pre_tool", "s", ANNA, "read"))


def test_another_name_is_no_misspelling() -> None:
    config = Config.model_validate({"tools": {"disabled": ["Bash", "Bahs"]}})
    found = list(warnings(config, [], {"exec": frozenset({"shell"})}, ()))
    assert len(found) == 1 and "`Bahs`" in found[0]


async def test_the_model_remembers_the_call_under_the_tools_own_name(tmp_path: Path) -> None:
    call = ToolCall("c1", "Bash", {"command": "ls"})
    world = World(tmp_path, [Answer(calls=(call,)), Answer("Done.")], tools=[run], users=[User(ANNA.key)])
    async with world.running() as core:
        await core.say("go", actor=ANNA, session=ANNA.key)
        await core.settled()
        assert await results(core, ANNA.key) == ["ls for 30 s"]
        kept = [message for message in await core.messages(ANNA.key) if isinstance(message, AssistantMessage)]
    assert kept[0].calls == (ToolCall("c1", "exec", {"command": "ls"}),)
    assert {tool.name for tool in world.script.requests[0].tools} == {"exec"}
    assert [entry.object for entry in used(world.audited)] == ["exec"]


async def test_whoever_may_not_use_the_tool_does_not_learn_what_another_name_means(tmp_path: Path) -> None:
    call = ToolCall("c1", "Bash", {"command": "ls"})
    world = World(tmp_path, [Answer(calls=(call,)), Answer("Done.")], tools=[run], users=[User(ANNA.key)])
    reconfigure(world, tools={"disabled": ["exec"]})
    async with world.running() as core:
        await core.say("go", actor=ANNA, session=ANNA.key)
        await core.settled()
        assert await results(core, ANNA.key) == ['{"error": "unknown tool: Bash"}']
    assert [(entry.object, entry.allowed) for entry in used(world.audited)] == [("exec", False)]


@pytest.mark.parametrize(
    ("name", "said", "taken"),
    [
        ("Bash", {"command": "ls", "timeout": 120_000}, {"command": "ls", "timeout": 120}),
        ("Bash", {"command": "ls", "timeout": 9_000_000}, {"command": "ls", "timeout": 300}),
        ("bash", {"command": "ls", "timeout": 60}, {"command": "ls", "timeout": 60}),
        ("Read", {"file_path": "a"}, {"file_path": "a"}),
        (
            "Grep",
            {"pattern": "x", "-i": True, "-C": 2, "head_limit": 5, "output_mode": "content"},
            {"case_sensitive": False, "pattern": "x", "context_lines": 2, "max_results": 5},
        ),
        ("grep", {"pattern": "x"}, {"case_sensitive": True, "pattern": "x"}),
        ("Grep", {"pattern": "x", "case_sensitive": False}, {"case_sensitive": False, "pattern": "x"}),
        (
            "TodoWrite",
            {"todos": [{"content": "a", "status": "pending", "activeForm": "doing a"}]},
            {"todos": [{"content": "a", "status": "pending"}]},
        ),
        (
            "AskUserQuestion",
            {"questions": [{"question": "?", "header": "H", "options": [{"label": "a", "description": "b"}, "c"]}]},
            {"questions": [{"question": "?", "title": "H", "options": ["a", "c"]}]},
        ),
        ("Task", {"prompt": "do", "subagent_type": "x"}, {"task": "do", "kind": "x"}),
        ("KillShell", {"shell_id": "t1"}, {"task_id": "t1"}),
        ("BashOutput", {"bash_id": "t1", "task_id": "t2"}, {"bash_id": "t1", "task_id": "t2"}),
        ("WebFetch", {"url": "u", "prompt": "p"}, {"url": "u"}),
        ("exec", {"command": "ls", "description": "stays"}, {"command": "ls", "description": "stays"}),
    ],
)
def test_arguments_are_taken_as_they_are_there(name: str, said: dict[str, Any], taken: dict[str, Any]) -> None:
    tool_name = catalog.ALIASES.get(name, name)
    assert meant(ToolCall("c", name, said), tool_name) == ToolCall("c", tool_name, taken)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
NAMES = st.sampled_from(
    ["timeout", "todos", "questions", "options", "-i", "-C", "bash_id", "task_id", "header", "label"]
)
INNER = st.dictionaries(NAMES, PLAIN | st.lists(PLAIN, max_size=2), max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(catalog.ALIASES)),
    st.dictionaries(NAMES, PLAIN | st.lists(PLAIN | INNER, max_size=2), max_size=4),
)
def test_whatever_is_said_the_call_stays_one_and_what_was_said_is_not_changed(name: str, said: dict[str, Any]) -> None:
    before = json.dumps(said)
    call = meant(ToolCall("c", name, said), catalog.ALIASES[name])
    assert call.name == catalog.ALIASES[name]
    assert json.dumps(said) == before


def test_arguments_under_another_name_fit_the_tool() -> None:
    tools = {each.spec.name: each for each in BuiltIn().tools()}
    given: dict[str, dict[str, Any]] = {
        "Bash": {"command": "ls", "description": "x", "timeout": 5_000, "run_in_background": True},
        "Read": {"file_path": "a", "offset": 1, "limit": 2},
        "Write": {"file_path": "a", "content": "b"},
        "Edit": {"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": True},
        "MultiEdit": {"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]},
        "Glob": {"pattern": "*.py", "path": "."},
        "Grep": {"pattern": "x", "glob": "*.py", "output_mode": "content", "-n": True, "-i": True, "head_limit": 3},
        "LS": {"path": ".", "ignore": ["x"]},
        "NotebookEdit": {"notebook_path": "a.ipynb", "new_source": "x", "edit_mode": "insert", "cell_type": "code"},
        "TodoWrite": {"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]},
        "AskUserQuestion": {"questions": [{"question": "?", "header": "h", "multiSelect": False, "options": []}]},
        "ExitPlanMode": {"plan": "x"},
        "WebFetch": {"url": "https://example.org", "prompt": "x"},
        "WebSearch": {"query": "x"},
        "TaskOutput": {"task_id": "t-1", "block": True, "timeout": 30_000},
        "TaskStop": {"task_id": "t-1"},
        "goa_command": {"command": "status"},
        "ssh_bash": {"host": "a", "command": "ls", "timeout": 5},
        "bash": {"command": "ls", "workdir": ".", "env": {"A": "b"}, "timeout": 60},
    }
    for name, said in given.items():
        tool_name = catalog.ALIASES[name]
        tools[tool_name].arguments.model_validate(dict(meant(ToolCall("c", name, said), tool_name).input))


def used(audited: Sequence[AuditEntry]) -> list[AuditEntry]:
    return [entry for entry in audited if entry.action == "tool.use"]


def by_call(name: object, arguments: object) -> ToolCall:
    return ToolCall("c1", "tool_call", {"name": name, "arguments": arguments})


def test_a_call_within_calls_of_tool_call_is_the_innermost_one() -> None:
    inner = {"name": "exec", "arguments": {"command": "ls"}}
    expected = ToolCall("c1", "exec", {"command": "ls"})
    assert unwrap(by_call("exec", {"command": "ls"})) == expected
    assert unwrap(by_call("tool_call", inner)) == unwrap(by_call("tool_call", json.dumps(inner))) == expected
    assert unwrap(ToolCall("c1", "tool_call", {"name": "exec"})) == ToolCall("c1", "exec", {})


@pytest.mark.parametrize(
    "wrong",
    [
        by_call(7, {}),
        by_call("exec", "ls"),
        by_call("exec", "[]"),
        by_call("exec", "[" * 100_000),
        by_call("exec", '"\ud800"'),
        ToolCall("c1", "tool_call", {"x": 1}),
    ],
)
def test_what_names_no_call_is_left_for_the_validation(wrong: ToolCall) -> None:
    assert unwrap(wrong) is wrong
