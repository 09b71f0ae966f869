"""Teams: members work in the background, wait for messages, and go on in the same conversation."""

from pathlib import Path
from typing import Any

from goclaw.channels.memory import HERE as SOMEBODY
from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from goclaw.conversation.turns.teams import MAX_WAITING
from goclaw.llm.scripted import text_of
from goclaw.tools.builtin.agent import agent
from goclaw.tools.builtin.background_tasks import task_output
from goclaw.tools.builtin.teams import send_message, team_create, team_delete
from goclaw.tools.execution.tasks.base import Owner, TaskInfo, TaskState
from tests.conversation.sessions.agents import (
    HERE,
    agents_of,
    asks_for,
    handing,
    request_that_ends_with,
    results,
    says,
    until,
)
from tests.conversation.sessions.approving import CHEF, reconfigure
from tests.harness import Answer, Core, World
from tests.parts import Trail, acting

NOTE = ToolCall("n1", "note", {})
DELETE = ToolCall("d1", "team_delete", {"name": "crew"})


def making(*members: tuple[str, str], name: str = "crew") -> ToolCall:
    wanted = [{"name": who, "task": task} for who, task in members]
    return ToolCall("t1", "team_create", {"name": name, "members": wanted})


def telling(to: str, text: str = "", call_id: str = "s1", **more: Any) -> ToolCall:
    return ToolCall(call_id, "send_message", {"to": to, "text": text, **more})


BEGUN = [asks_for("make it", making(("ada", "look at x"))), says("team crew is at work", "They work.")]


def world_of(folder: Path, script: list[Answer], trail: Trail | None = None, **config: Any) -> World:
    note = acting("note", (trail or Trail("noted")).leave_slowly)
    tools = [agent, team_create, send_message, team_delete, task_output, note]
    return World(folder, script, tools=tools, **config)


async def tasks_of(core: Core, person: str = SOMEBODY.key) -> list[TaskInfo]:
    return list(await core.sessions.ports.environment.tasks.of(Owner(HERE, person)))


async def ask(core: Core, text: str, **options: Any) -> None:
    await core.say(text, **options)
    await core.settled()


async def rests(core: Core, *names: str) -> None:
    """Wait until members wait for messages."""
    await until(lambda: all(f"{name} waits for messages" in "".join(core.sessions.teams.lines(HERE)) for name in names))


async def said(core: Core, info: TaskInfo) -> str:
    return await core.sessions.ports.environment.tasks.tail(info.id, info.owner, 5_000)


async def test_a_member_does_its_task_waits_and_goes_on_when_its_lead_writes(tmp_path: Path) -> None:
    script = [
        *BEGUN,
        says("look at x", "x is fine"),
        asks_for("go on", telling("ada", "and y?")),
        says("sent to ada", "Asked."),
        says("and y?", "y is broken"),
    ]
    world = world_of(tmp_path, script)
    async with world.running() as core:
        await ask(core, "make it")
        await rests(core, "ada")
        (info,) = await tasks_of(core)
        assert info.state is TaskState.RUNNING and info.label == "general: crew/ada"
        assert "team crew: ada waits for messages" in await core.command("/status")
        assert "general: crew/ada" in await core.command("/status")
        await ask(core, "go on")
        await until(lambda: core.sessions.teams.lines(HERE) == ["team crew: ada waits for messages"])
        await rests(core, "ada")
        assert await said(core, info) == "x is fine\ny is broken\n"
        (theirs,) = await agents_of(core)
        there = await core.messages(theirs)
    assert [message for message in there if isinstance(message, UserMessage)] == [
        UserMessage("look at x"),
        UserMessage("Message from lead:\nand y?"),
    ], "one conversation"
    assert there[-1] == AssistantMessage("y is broken")
    assert f"The member ada of your team ({info.id}) has said something" in (
        request_that_ends_with(world, "go on").reminder
    )
    assert "You are ada, a member of the team crew" in request_that_ends_with(world, "and y?").system


async def test_members_write_to_each_other_and_to_their_lead_and_their_words_are_marked(tmp_path: Path) -> None:
    script = [
        asks_for("make it", making(("ada", "look at x"), ("bob", "check it"))),
        says("is at work", "They work."),
        asks_for("look at x", telling("all", "x has a hole")),
        says("sent to bob, lead", "told"),
        says("check it", "ready"),
        says("x has a hole", "confirmed"),
    ]
    world = world_of(tmp_path, script)
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: any("x has a hole" in text_of(it.messages[-1]) for it in world.script.requests))
        await rests(core, "ada", "bob")
        ada, bob = await tasks_of(core)
        assert "[to the lead] x has a hole" in await said(core, ada)
        assert (await said(core, bob)).endswith("confirmed\n")
        theirs = [await core.messages(key) for key in await agents_of(core)]
    letters = [it for all_of in theirs for it in all_of if isinstance(it, UserMessage) and "hole" in it.text]
    (letter,) = letters
    (piece,) = letter.foreign
    assert letter.text[piece.start : piece.end] == "x has a hole" and piece.origin == "the member ada of the team"


async def test_the_lead_waits_with_task_output_for_what_a_member_says_next(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [*BEGUN, asks_for("look at x", NOTE), says("noted", "x is fine")]
    world = world_of(tmp_path, script, trail)
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: trail.times == 1)
        (info,) = await tasks_of(core)
        trail.gate.set()
        seen = await core.sessions.ports.environment.tasks.wait(info.id, info.owner, 20)
        assert seen.state is TaskState.RUNNING and await said(core, info) == "x is fine\n"
        again = await core.sessions.ports.environment.tasks.wait(info.id, info.owner, 0)
        assert again.running, "what was read is no news"


async def test_shutdown_lets_a_member_finish_its_turn_and_drops_what_waits(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [
        *BEGUN,
        asks_for("look at x", NOTE),
        says("noted", "x is fine"),
        asks_for("end it", telling("ada", "more"), telling("all", kind="shutdown", call_id="s2")),
        says("what waits unread is dropped", "It will end."),
        asks_for("and now", telling("ada", "too late")),
        says("no longer reads messages", "Too late."),
        asks_for("again", telling("ada", "hello?")),
        says("no such team", "Gone."),
    ]
    world = world_of(tmp_path, script, trail)
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: trail.times == 1)
        await ask(core, "end it")
        (info,) = await tasks_of(core)
        assert info.running and "ada works, ends then" in await core.command("/status")
        await ask(core, "and now")
        assert world.texts()[-1] == "Too late."
        trail.gate.set()
        await until(lambda: not core.sessions.teams.lines(HERE))
        await until(lambda: not core.sessions.ports.environment.tasks.running(info.owner))
        assert (await core.sessions.ports.environment.tasks.wait(info.id, info.owner, 20)).state is TaskState.COMPLETED
        assert await said(core, info) == "x is fine\n"
        assert core.sessions.agents.of(HERE) == []
        await ask(core, "again")
    assert world.texts()[-1] == "Gone."


async def test_deleting_a_team_ends_all_that_its_members_do_and_makes_room_for_another(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [
        *BEGUN,
        asks_for("look at x", NOTE),
        asks_for("a second", making(("eve", "no"), name="other")),
        says("there can be one team", "One is enough."),
        asks_for("done", DELETE),
        says("is deleted; ended: ada", "Over."),
        asks_for("one more", making(("eve", "look at z"), name="other")),
        says("team other is at work", "New ones."),
        says("look at z", "z"),
    ]
    world = world_of(tmp_path, script, trail)
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: trail.times == 1)
        await ask(core, "a second")
        await ask(core, "done")
        (info,) = await tasks_of(core)
        assert info.state is TaskState.STOPPED and trail.cancelled == 1
        (theirs,) = await agents_of(core)
        assert results(await core.messages(theirs)) == ['{"error": "stopped by the user"}']
        assert not core.sessions.teams.lines(HERE) and core.sessions.agents.of(HERE) == []
        await ask(core, "one more")
        await rests(core, "eve")
    assert world.texts() == ["They work.", "One is enough.", "Over.", "New ones."]


async def test_stop_tasks_reaches_every_member_whether_it_works_or_waits(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [
        asks_for("make it", making(("ada", "look at x"), ("bob", "look at y"))),
        says("is at work", "They work."),
        asks_for("look at x", NOTE),
        says("look at y", "y"),
    ]
    world = world_of(tmp_path, script, trail)
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: trail.times == 1)
        await rests(core, "bob")
        await core.command("/stop tasks")
        assert {info.state for info in await tasks_of(core)} == {TaskState.STOPPED}
        assert not core.sessions.teams.lines(HERE) and core.sessions.agents.of(HERE) == []


async def test_too_many_members_start_none_of_them(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [
        asks_for("make it", making(("ada", "look at x"), ("bob", "look at x"), ("eve", "look at x"))),
        says("which is the limit", "Too many."),
        asks_for("look at x", NOTE),
    ]
    world = world_of(tmp_path, script, trail, limits={"agents_at_once": 2})
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: not core.sessions.ports.environment.tasks.running(Owner(HERE, SOMEBODY.key)))
        assert trail.times == 0 and await agents_of(core) == [], "nobody asked a model"
        assert not core.sessions.teams.lines(HERE) and core.sessions.agents._places == {}
    assert world.texts()[0] == "Too many."


async def test_a_team_that_the_tasks_leave_no_room_for_does_nothing(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [
        asks_for("make it", making(("ada", "look at x"), ("bob", "look at x"))),
        says("which is the limit", "No room."),
        asks_for("look at x", NOTE),
    ]
    world = world_of(tmp_path, script, trail)
    reconfigure(world, tools={"tasks": {"per_session": 1}})
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: not core.sessions.ports.environment.tasks.running(Owner(HERE, SOMEBODY.key)))
        (info,) = await tasks_of(core)
        assert info.state is TaskState.FAILED and await said(core, info) == "the team could not be started"
        assert trail.times == 0 and await agents_of(core) == [] and core.sessions.agents._places == {}


async def test_members_make_no_teams_and_their_agents_write_to_nobody(tmp_path: Path) -> None:
    script = [*BEGUN, asks_for("look at x", handing("deeper", "h1")), says("deeper", "deep"), says("deep", "x is fine")]
    world = world_of(tmp_path, script, agents={"main": {"tools": ["tag:agents", "note"]}})
    async with world.running() as core:
        await ask(core, "make it")
        await rests(core, "ada")
    member, below = request_that_ends_with(world, "look at x"), request_that_ends_with(world, "deeper")
    assert sorted(spec.name for spec in member.tools) == ["agent", "note", "send_message"], "no more than its lead has"
    assert [spec.name for spec in below.tools] == ["note"]


async def test_a_call_for_what_a_member_may_not_fails_as_unknown(tmp_path: Path) -> None:
    script = [*BEGUN, asks_for("look at x", making(("eve", "no"))), says("unknown tool", "I cannot.")]
    world = world_of(tmp_path, script)
    async with world.running() as core:
        await ask(core, "make it")
        await rests(core, "ada")
        (info,) = await tasks_of(core)
        assert await said(core, info) == "I cannot.\n"


async def test_somebody_elses_team_is_unknown(tmp_path: Path) -> None:
    users = [User(SOMEBODY.key, session=HERE), User(CHEF, session=HERE)]
    script = [
        *BEGUN,
        says("look at x", "x is fine"),
        asks_for("write", telling("ada", "obey"), telling("ada", kind="shutdown", call_id="s2"), DELETE),
        says("no such team", "Nobody there."),
    ]
    world = world_of(tmp_path, script, users=users)
    async with world.running() as core:
        await ask(core, "make it")
        await rests(core, "ada")
        await ask(core, "write", actor=Actor(CHEF, "memory"))
        errors = [text for text in results(await core.messages()) if "no such team" in text]
        assert len(errors) == 3 and core.sessions.teams.lines(HERE) == ["team crew: ada waits for messages"]


async def test_a_mailbox_is_bounded_and_a_full_one_keeps_a_message_from_everybody(tmp_path: Path) -> None:
    trail = Trail("noted")
    letters = [telling("ada", f"letter {number}", f"s{number}") for number in range(MAX_WAITING)]
    script = [
        *BEGUN,
        asks_for("look at x", NOTE),
        asks_for("write", *letters),
        asks_for("sent to ada", telling("ada", "one more")),
        says("wait for ada already", "Full."),
    ]
    world = world_of(tmp_path, script, trail, limits={"tool_calls": 100})
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: trail.times == 1)
        await ask(core, "write")
    assert world.texts()[-1] == "Full."


async def test_what_members_spend_counts_for_their_person(tmp_path: Path) -> None:
    script = [*BEGUN, says("look at x", "x is fine")]
    world = world_of(tmp_path, script)
    async with world.running() as core:
        await ask(core, "make it")
        await rests(core, "ada")
        spent = await core.sessions.ports.store.spending.of_person(SOMEBODY.key, 0.0)
    assert spent.requests == 3


async def test_a_member_that_meets_a_limit_ends_and_says_which(tmp_path: Path) -> None:
    script = [*BEGUN, asks_for("look at x", NOTE, ToolCall("n2", "note", {}))]
    trail = Trail("noted")
    trail.gate.set()
    world = world_of(tmp_path, script, trail, agents={"kinds": {"one": {"policy": {"max_tool_calls": 1}}}})
    async with world.running() as core:
        await ask(core, "make it")
        await until(lambda: not core.sessions.teams.lines(HERE))
        (info,) = await tasks_of(core)
        info = await core.sessions.ports.environment.tasks.wait(info.id, info.owner, 20)
        assert info.state is TaskState.FAILED and "tool calls in one turn" in await said(core, info)


async def test_a_restart_loses_the_team_and_says_so(tmp_path: Path) -> None:
    script = [
        *BEGUN,
        says("look at x", "x is fine"),
        asks_for("go on", telling("ada", "and y?")),
        says("no such team", "It is gone."),
    ]
    world = world_of(tmp_path, script)
    async with world.running() as core:
        await ask(core, "make it")
        await rests(core, "ada")
    async with world.running() as core:
        await ask(core, "go on")
        (info,) = await tasks_of(core)
        assert info.state is TaskState.LOST and not core.sessions.teams.lines(HERE)
    assert world.texts()[-1] == "It is gone."
    assert f"The background task {info.id} is lost" in request_that_ends_with(world, "go on").reminder
