"""`command`: the agent gives a slash command for the person it works for, and never more than that person may."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from goclaw.common.config.tools import FOR_PEOPLE_ONLY
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Risk
from goclaw.errors import GoclawError
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.gateway_control import command
from tests.conversation.sessions.approving import reconfigure, results
from tests.harness import World
from tests.tools.builtin.memory_support import surroundings

ANNA = Actor("memory:anna", "memory")


def giving(folder: Path, *texts: str, user: User | None = None, **config: Any) -> World:
    """A model that gives each command in an answer of its own."""
    calls = [ToolCall(f"c{number}", "command", {"command": text}) for number, text in enumerate(texts)]
    answers = [*(Answer(calls=(call,)) for call in calls), Answer("Done.")]
    world = World(folder, answers, tools=[command], users=[user or User("memory:anna")])
    reconfigure(world, **config)
    return world


async def told(world: World) -> list[str]:
    async with world.running() as core:
        await core.say("go", actor=ANNA, session=ANNA.key)
        await core.settled()
        return await results(core, ANNA.key)


async def test_a_command_is_answered_as_if_the_person_had_sent_it(tmp_path: Path) -> None:
    world = giving(tmp_path, "/whoami", "STATUS", "/queue steer", "usage  day")
    whoami, status, queue, usage = await told(world)
    assert whoami.startswith("You are memory:anna.\nRole: ")
    assert status.startswith("Session Status")
    assert queue.startswith("Queue mode: steer.")
    assert "requests" in usage or "request" in usage
    entries = [entry for entry in world.audited if entry.action == "command.run"]
    assert [(entry.object, entry.actor.key, entry.allowed) for entry in entries] == [
        ("whoami", "memory:anna", True),
        ("status", "memory:anna", True),
        ("queue", "memory:anna", True),
        ("usage", "memory:anna", True),
    ]


async def test_what_the_person_may_not_is_no_command_and_what_never_may_be_given_neither(tmp_path: Path) -> None:
    roles = {"guest": {"commands": ["whoami"]}}
    guest = User("memory:anna", roles=frozenset({"guest"}))
    world = giving(
        tmp_path, "/status", "/stop", "/approve x", "/nothing", "no command at all?", user=guest, roles=roles
    )
    assert set(await told(world)) == {'{"error": "no such command here; available: /whoami"}'}
    assert not any(entry.allowed for entry in world.audited if entry.action == "command.run")


async def test_only_what_the_operator_allows_may_be_given(tmp_path: Path) -> None:
    world = giving(tmp_path, "/status", "/help", tools={"command": {"allowed": ["help"]}})
    status, help_ = await told(world)
    assert "available: /help" in status and "/help" in help_


@pytest.mark.parametrize("name", FOR_PEOPLE_ONLY)
def test_what_decides_about_the_agent_or_waits_for_its_turn_can_never_be_allowed(name: str) -> None:
    for written in (name, f"/{name}", name.upper()):
        with pytest.raises(ValueError, match="for people only"):
            Config.model_validate({"tools": {"command": {"allowed": [written]}}})


async def test_a_command_of_a_package_needs_to_be_allowed_by_name(tmp_path: Path) -> None:
    async def run(context: CommandContext) -> Reply:
        return Reply(f"pong {context.arguments}")

    for allowed, said in ([], "no such command"), (["ping"], "pong now"):
        folder = tmp_path / said.replace(" ", "")
        folder.mkdir()
        world = giving(folder, "/ping now", tools={"command": {"allowed": allowed}})
        async with world.running() as core:
            core.gateway.known["ping"] = Command("ping", "Say pong", run)  # type: ignore[index]  # a dict
            await core.say("go", actor=ANNA, session=ANNA.key)
            await core.settled()
            assert said in (await results(core, ANNA.key))[0]


@pytest.mark.parametrize(
    ("given", "risk"),
    [
        ("/status", Risk.LOW),
        ("usage day", Risk.LOW),
        ("/queue", Risk.LOW),
        ("/queue steer", Risk.MEDIUM),
        (" ", Risk.LOW),
    ],
)
def test_what_changes_something_is_judged_as_a_change(given: str, risk: Risk) -> None:
    assert command.risk
    assert command.risk(command.arguments.model_validate({"command": given}), None) is risk  # type: ignore[arg-type]  # it asks no context


@pytest.mark.parametrize(
    "given", [{}, {"command": 1}, {"command": ""}, {"command": "x" * 1_001}, {"command": "\ud800"}, {"text": "/status"}]
)
async def test_bad_input_gives_no_command(tmp_path: Path, given: dict[str, Any]) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(GoclawError):
            await around.call(command, given)


async def test_on_a_command_line_nobody_answers_commands(tmp_path: Path) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(GoclawError, match="nobody here who answers commands"):
            await around.call(command, {"command": "/status"})
