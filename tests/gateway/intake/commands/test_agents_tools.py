"""`/tools`: what the sender may use, and everything about one of them."""

from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core import catalog
from goclaw.common.core.events import Actor
from goclaw.common.core.plugins import load
from goclaw.common.specs import Example, SideEffect
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.harness import World

ANNA, BOSS = Actor("telegram:5", "telegram"), Actor("telegram:7", "telegram")
USERS = [User("telegram:5", allowed_tools=frozenset({"count"})), User("telegram:7", roles=frozenset({"admin"}))]
FROM_ANNA = {"actor": ANNA, "session": "telegram:5", "chat": "5"}
FROM_BOSS = {"actor": BOSS, "session": "telegram:7", "chat": "7"}


@tool(
    side_effect=SideEffect.READ_ONLY,
    tags=["filesystem"],
    call_hint="Counting {{ path }}",
    examples=[Example("Count a note", {"path": "note.md"}, "3 words", {"note.md": "one two three"})],
)
async def count(ctx: ToolContext, path: str, limit: int = 5) -> str:
    """Count the words of a file. Nothing else.

    Words are what white space separates.
    """
    return "0"


@tool(side_effect=SideEffect.SPAWNS, tags=["shell"])
async def launch(ctx: ToolContext) -> str:
    """Start something."""
    return "started"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, users=USERS, tools=[count, launch])


async def test_everyone_is_shown_their_own_by_toolset(world: World) -> None:
    async with world.running() as core:
        assert await core.command("/tools", **FROM_ANNA) == (
            "**Filesystem**\n\n- `count` (low): Count the words of a file.\n\nThe risk of a call is in brackets. "
            "/tools NAME describes a tool and says when it asks for approval."
        )
        everything = await core.command("/tools", **FROM_BOSS)
    assert "**Shell**\n\n- `launch` (critical): Start something." in everything


async def test_a_phone_s_line_says_how_much_harm_at_most_and_leaves_out_by_what_the_model_finds_tools(
    tmp_path: Path,
) -> None:
    tools = [load(catalog.TOOLS[name], Tool) for name in ("exec", "tool_search", "tool_call")]
    async with World(tmp_path, tools=tools).running() as core:
        listed = await core.command("/tools")
        one = await core.command("/tools tool_search")
    assert "- `exec` (up to critical): Execute a shell command in the workspace." in listed
    assert "tool_search" not in listed and "tool_call" not in listed
    assert one.startswith("# tool_search")


async def test_what_the_agent_is_not_offered_is_shown_with_the_reason(tmp_path: Path) -> None:
    tools = [load(catalog.TOOLS[name], Tool) for name in ("ssh_exec", "exit_plan_mode")]
    async with World(tmp_path, tools=tools).running() as core:
        listed = await core.command("/tools")
        one = await core.command("/tools ssh_exec")
    assert "(not offered to the agent: ssh_exec is not set up: " in listed
    assert "(offered to the agent in the mode plan only)" in listed
    reason = "ssh_exec is not set up: the operator has configured no host (tools.ssh.hosts)"
    assert one.endswith(f"\n\nIt is not offered to the agent: {reason}.")


async def test_one_tool_is_shown_with_arguments_examples_rights_and_risk(world: World) -> None:
    async with world.running() as core:
        text = await core.command("/tools Count", **FROM_ANNA)
    assert text.startswith(
        "# count\n\nCount the words of a file. Nothing else.\n\nWords are what white space separates."
    )
    assert "| `path` | text, required |" in text and "| `limit` | whole number, else `5` |" in text
    assert 'Count a note:\n\n```\nwith \'note.md\' there\ncount {"path": "note.md"}\n→ 3 words\n```' in text
    assert "Side effect: read-only. Risk: low." in text
    assert "runs in `default`, `accept-edits`, `plan`, `bypass`." in text
    assert "People see `Counting {{ path }}`." in text and "From: built in." in text


@pytest.mark.promise("P-tools-per-user")
async def test_what_is_not_yours_reads_like_what_is_not_there(world: World) -> None:
    async with world.running() as core:
        for name in ("launch", "nothing"):
            assert await core.command(f"/tools {name}", **FROM_ANNA) == f"unknown tool: {name}. See /tools."
        assert (await core.command("/tools cuont", **FROM_ANNA)).endswith("Did you mean /tools count?")
        assert (await core.command("/tools launch", **FROM_BOSS)).startswith("# launch")


async def test_what_a_role_fixes_is_shown_to_who_has_it(tmp_path: Path) -> None:
    trainee = User("telegram:5", roles=frozenset({"trainee"}))
    roles = {"trainee": {"inputs": {"count": {"limit": 10}}}}
    async with World(tmp_path, users=[trainee, USERS[1]], tools=[count], roles=roles).running() as core:
        fixed = "In your calls these values are fixed:\n\n- `limit` is always `10`"
        assert (await core.command("/tools count", **FROM_ANNA)).endswith(fixed)
        assert "values are fixed" not in await core.command("/tools count", **FROM_BOSS)


async def test_only_admins_read_what_does_not_work(world: World) -> None:
    world.sources.report("plugin tools.bad (bad 1.0)", "cannot be loaded")
    async with world.running() as core:
        assert "bad" not in await core.command("/tools", **FROM_ANNA)
        assert "**Not working**\n\n- plugin tools.bad (bad 1.0): cannot be loaded" in await core.command(
            "/tools", **FROM_BOSS
        )


async def test_terminals_are_told_that_a_page_is_markdown_and_a_sentence_none(tmp_path: Path) -> None:
    async with World(tmp_path, tools=[count], users=USERS).running() as core:
        texts = ("/tools", "/tools count", "/tools launch", "/status")
        told = [(await core.say(text, **FROM_ANNA)).markdown for text in texts]
    assert told == [True, True, False, False]
