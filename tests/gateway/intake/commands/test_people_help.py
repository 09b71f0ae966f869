"""`/help`, `/start`, `/whoami`, `/tool`: the small ones."""

import re
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core import catalog
from goclaw.common.core.events import Actor
from goclaw.common.specs import SideEffect
from goclaw.gateway.intake.commands.people import GROUPS
from goclaw.llm.demo import DemoModel
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.harness import World

ANNA = Actor("telegram:5", "telegram", name="Anna")


@tool(side_effect=SideEffect.READ_ONLY)
async def echo(ctx: ToolContext, text: str) -> str:
    """Say it again."""
    return f"echo: {text}"


AGENTS = {"kinds": {"poet": {"description": "Writes verse"}}}


async def test_help_lists_every_command_of_the_catalogue_that_does_something(tmp_path: Path) -> None:
    async with World(tmp_path, model=DemoModel(), agents=AGENTS).running() as core:
        head, *lines = (await core.command("/help")).splitlines()
    assert head == "Available commands:"
    lines = [line for line in lines if line.startswith("/")]
    names = [line.split(" - ")[0][1:] for line in lines]
    assert names[:6] == ["help", "status", "stop", "clear", "compact", "model"]
    assert sorted(names) == sorted(catalog.COMMANDS)
    summaries = dict(line.split(" - ", 1) for line in lines)
    # The words of the tools contract.
    assert summaries["/status"] == "Show session status and compaction health"
    assert summaries["/compact"] == "Force context compaction immediately"
    assert summaries["/clear"] == "Clear conversation history and reset session"
    assert summaries["/help"] == "Show available commands"


async def test_help_groups_the_commands_under_headings(tmp_path: Path) -> None:
    async with World(tmp_path, agents=AGENTS).running() as core:
        first, *others = (await core.command("/help")).split("\n\n")
    assert [block.splitlines()[0] for block in others] == list(GROUPS), "every command of the catalogue has its group"
    assert first.count("\n/") == 6 and "Approvals\n/mode - Show or change the permission mode" in "\n".join(others)


async def test_help_shows_commands_of_agents_under_a_heading_of_their_own(tmp_path: Path) -> None:
    agents = {**AGENTS, "routes": [{"agent": "poet", "command": "verse"}]}
    async with World(tmp_path, agents=agents).running() as core:
        assert (await core.command("/help")).endswith("\n\nOther\n/verse - Ask poet")


async def test_help_names_only_what_this_person_may_use(tmp_path: Path) -> None:
    roles = {"guest": {"commands": ["help", "status", "whoami"]}}
    world = World(tmp_path, users=[User("telegram:5", roles=frozenset({"guest"}))], roles=roles)
    async with world.running() as core:
        text = await core.command("/help", actor=ANNA, session="telegram:5")
    assert re.findall("^/[a-z]+", text, re.MULTILINE) == [
        "/help",
        "/status",
        "/whoami",
    ]


async def test_help_shows_what_is_for_admins_to_admins_alone(tmp_path: Path) -> None:
    users = [User("telegram:5"), User("telegram:7", roles=frozenset({"admin"}))]
    async with World(tmp_path, users=users).running() as core:
        shown = [
            "/pair - " in await core.command("/help", actor=Actor(key, "telegram"), session=key)
            for key in ("telegram:5", "telegram:7")
        ]
    assert shown == [False, True]


async def test_help_leaves_out_what_does_nothing_for_this_person(tmp_path: Path) -> None:
    roles = {"child": {"approves": "none"}}
    users = [User("telegram:5", roles=frozenset({"child"})), User("telegram:7")]
    async with World(tmp_path, users=users, roles=roles, memory={"enabled": False}).running() as core:
        said = [
            await core.command("/help", actor=Actor(key, "telegram"), session=key)
            for key in ("telegram:5", "telegram:7")
        ]
        child, grown = (set(re.findall(r"^/[a-z]+", text, re.MULTILINE)) for text in said)
        assert (await core.command("/tool x {}")).startswith("/tool works with the demo"), "it runs all the same"
    assert not grown & {"/tool", "/agent", "/agents", "/memory"}, "no demo, one agent, no memory"
    assert grown - child == {"/approve"}, "who may approve nothing needs no /approve"


async def test_what_everybody_may_run_is_what_each_listed_person_may_run(tmp_path: Path) -> None:
    roles = {"guest": {"commands": ["help", "status", "whoami"]}}
    chief, guest = User("telegram:7", roles=frozenset({"admin"})), User("telegram:5", roles=frozenset({"guest"}))
    found = []
    for index, users in enumerate(([], [chief], [chief, guest])):
        (folder := tmp_path / str(index)).mkdir()
        async with World(folder, users=users, roles=roles).running() as core:
            found.append({info.name for info in core.gateway.commands(None)})
    assert found[0] == set() and {"pair", "forget", "status"} < found[1]
    assert found[2] == {"help", "status", "whoami"}


@pytest.mark.parametrize(("name", "greeting"), [("Anna", "Hello Anna!"), ("", "Hello there!")])
async def test_start_greets_and_points_to_help(tmp_path: Path, name: str, greeting: str) -> None:
    world = World(tmp_path, users=[User("telegram:5")])
    async with world.running() as core:
        text = await core.command("/start", actor=Actor("telegram:5", "telegram", name=name), session="telegram:5")
    assert text.startswith(greeting) and "/help" in text


async def test_whoami_begins_with_the_name_and_shows_the_session_to_admins(tmp_path: Path) -> None:
    users = [User("telegram:5", session="team"), User("telegram:7", name="Ben", roles=frozenset({"admin"}))]
    world = World(tmp_path, users=[*users, User("telegram:8")])
    async with world.running() as core:
        anna = await core.command("/whoami", actor=ANNA, session="telegram:5")
        ben = await core.command("/whoami", actor=Actor("telegram:7", "telegram", name="benny"), session="telegram:7")
        nameless = await core.command("/whoami", actor=Actor("telegram:8", "telegram"), session="telegram:8")
    assert anna == "You are Anna (telegram:5).\nRole: user"
    assert ben == "You are Ben (telegram:7).\nSession: telegram:7\nRole: admin", "as an admin calls him"
    assert nameless == "You are telegram:8.\nRole: user"


async def test_tool_runs_a_real_tool_on_the_demo_model(tmp_path: Path) -> None:
    world = World(tmp_path, model=DemoModel(), tools=[echo])
    async with world.running() as core:
        await core.say('/tool echo {"text": "hi"}')
        await core.settled()
        await core.say('/tool nothing {"text": "hi"}')
        await core.settled()
    assert "echo: hi" in world.texts()[0]
    assert "unknown tool: nothing" in world.texts()[1]


async def test_tool_is_nothing_for_a_real_model(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        assert (await core.command("/tool echo {}")).startswith("/tool works with the demo model only.")
