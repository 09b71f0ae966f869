"""Which agent answers: by command, by /agent, by route, else main; each with its own prompt, models, tools, policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.conversation.turns.turn_context import ASK_AN_ADMIN
from goclaw.llm.scripted import text_of
from goclaw.tools.builtin.agent import agent
from tests.conversation.sessions.agents import asks_for, handing, says, until
from tests.conversation.sessions.approving import ANNA, BOB, CHEF, GUEST, PEOPLE, reconfigure
from tests.harness import OWNER, Answer, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

AGENTS: dict[str, Any] = {
    "main": {"prompt": "You are main."},
    "kinds": {
        "clerk": {"description": "Files letters.", "prompt": "You are the clerk.", "tools": ["note"]},
        "cook": {"description": "Cooks.", "prompt": "You are the cook.", "policy": {"max_tool_calls": 1}},
    },
    "routes": [
        {"agent": "cook", "command": "cook"},
        {"agent": "clerk", "user": [ANNA]},
        {"agent": "cook", "chat": ["memory:kitchen*"]},
    ],
}
ROLES = {"guest": {"agents": ["clerk"]}}


def world_of(folder: Path, answers: Sequence[Answer] = (), **config: Any) -> World:
    config = {"agents": AGENTS, "roles": ROLES, **config}
    tools = [agent, acting("note", Trail("noted").leave), acting("look", Trail("looked").leave)]
    return World(folder, answers or [Answer("Hello.")] * 9, tools=tools, users=PEOPLE, **config)


async def said(core: Core, by: str, text: str = "hi", session: str = "", chat: str = "here") -> None:
    """Somebody says something, and it is answered."""
    await core.say(text, actor=Actor(by, "memory", name=by), session=session or by, chat=chat)
    await core.settled()


def who(world: World, at: int = -1) -> str:
    """Who was asked, by what it was told to be."""
    return world.script.requests[at].system.rpartition("You are ")[2]


async def test_two_people_are_answered_by_two_agents_each_with_its_own_prompt_and_tools(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await said(core, ANNA)
        await said(core, BOB)
    assert [who(world, at) for at in (0, 1)] == ["the clerk.", "main."]
    shown = [[spec.name for spec in request.tools] for request in world.script.requests]
    assert shown == [["note"], ["agent", "note", "look"]]


async def test_the_first_route_that_fits_counts_and_its_chat_may_be_a_pattern(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await said(core, BOB, chat="kitchen-2", session=BOB)
        await said(core, ANNA, chat="kitchen-2", session=ANNA)
    assert [who(world, at) for at in (0, 1)] == ["the cook.", "the clerk."]


async def test_a_command_of_a_route_asks_its_agent_once(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await said(core, ANNA, "/cook a soup")
        await said(core, ANNA)
        listed = [info.name for info in core.gateway.commands(Actor(ANNA, "memory"))]
    assert [who(world, at) for at in (0, 1)] == ["the cook.", "the clerk."]
    assert "/cook a soup" in text_of(world.script.requests[0].messages[-1]) and "cook" in listed
    assert [entry.object for entry in world.audited if entry.action == "command.run"] == ["cook"]


async def test_a_command_of_a_route_is_unknown_to_whom_its_agent_is_not_for(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        guest = Actor(GUEST, "memory")
        assert "Unknown command: /cook" in await core.command("/cook a soup", actor=guest, session=GUEST)
        assert "cook" not in [info.name for info in core.gateway.commands(guest)]
    assert world.script.requests == []


async def test_agent_chooses_for_the_session_and_the_choice_survives_a_restart(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    anna = Actor(ANNA, "memory")
    async with world.running() as core:
        assert "cook answers in this conversation" in await core.command("/agent cook", actor=anna, session=ANNA)
        await said(core, BOB)
    async with world.running() as core:
        await said(core, ANNA)
        assert "Agent: cook (set by /agent)" in await core.command("/status", actor=anna, session=ANNA)
        assert "A turn: at most 1 tool calls" in (await core.gateway.status(ANNA, OWNER))["text"]
        assert "clerk answers here (by agents.routes)" in await core.command("/agent default", actor=anna, session=ANNA)
        await said(core, ANNA)
    assert [who(world, at) for at in (0, 1, 2)] == ["main.", "the cook.", "the clerk."]


@pytest.mark.parametrize(
    ("by", "session", "text", "answer"),
    [
        (ANNA, ANNA, "/agent", "clerk answers here (by agents.routes)."),
        (ANNA, ANNA, "/agent cok", "You have no agent 'cok'. Did you mean cook?"),
        (GUEST, GUEST, "/agent cook", "You have no agent 'cook'. Available: clerk."),
        (GUEST, GUEST, "/agent", "No agent is available to you here. An admin can change that."),
        (BOB, BOB, "/agent main", "main answers in this conversation, starting with the next message."),
        (GUEST, GUEST, "/agents", "- clerk: Files letters.\n\n"),
        (ANNA, ANNA, "/agents", "- clerk: Files letters. (answers here)\n- cook: Cooks. (/cook)"),
    ],
)
async def test_what_the_commands_say(tmp_path: Path, by: str, session: str, text: str, answer: str) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        assert answer in await core.command(text, actor=Actor(by, "memory"), session=session)


async def test_nobody_chooses_for_the_conversation_of_another_person(tmp_path: Path) -> None:
    world = world_of(tmp_path, roles={**ROLES, "steerer": {"sessions": "all"}})
    world.users._users[BOB] = User(BOB, roles=frozenset({"steerer"}))
    async with world.running() as core:
        said_to = await core.command("/agent cook", actor=Actor(BOB, "memory"), session=ANNA)
        assert "Only the owner of this conversation" in said_to
        await core.command("/agent cook", actor=Actor(CHEF, "memory"), session=ANNA)
        await said(core, ANNA)
    assert who(world) == "the cook."


async def test_whoever_has_no_agent_is_told_so_and_no_model_is_asked(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await said(core, GUEST)
    assert "No agent is available to you here" in world.texts()[0] and world.script.requests == []


async def test_a_choice_that_became_impossible_is_said_and_routes_hold_again(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    anna = Actor(ANNA, "memory")
    async with world.running() as core:
        await core.command("/agent cook", actor=anna, session=ANNA)
    reconfigure(world, agents={**AGENTS, "kinds": {"clerk": AGENTS["kinds"]["clerk"]}})
    async with world.running() as core:
        await said(core, ANNA)
        assert "clerk; cook, chosen with /agent, no longer exists" in await core.command(
            "/status", actor=anna, session=ANNA
        )
    assert who(world) == "the clerk."


async def test_a_choice_lapses_with_the_right_to_the_agent(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    anna = Actor(ANNA, "memory")
    async with world.running() as core:
        await core.command("/agent cook", actor=anna, session=ANNA)
        await said(core, ANNA)
        world.users._users[ANNA] = User(ANNA, roles=frozenset({"guest"}))
        await said(core, ANNA)
    assert [who(world, at) for at in (0, 1)] == ["the cook.", "the clerk."]


async def test_a_route_to_an_agent_that_is_not_there_lets_nobody_less_bound_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(tmp_path, agents={**AGENTS, "routes": [{"agent": "ghost"}]})
    async with world.running() as core:
        await said(core, ANNA)
    assert world.texts()[0] == ASK_AN_ADMIN and world.script.requests == []
    assert "agent ghost to answer, but there is no such agent" in caplog.text


async def test_its_own_policy_ends_its_turn(tmp_path: Path) -> None:
    note = ToolCall("n", "note", {})
    world = world_of(tmp_path, [asks_for("soup", note, ToolCall("m", "look", {}))])
    async with world.running() as core:
        await said(core, BOB, "/cook soup")
    assert "tool calls in one turn" in world.texts()[0]


async def test_its_own_models_answer_unless_the_person_chose_one(tmp_path: Path) -> None:
    kinds = {"cook": {"model": "scripted:one", "fallbacks": ["scripted:two"]}}
    world = world_of(
        tmp_path, agents={"main": {"model": "scripted:main"}, "kinds": kinds, "routes": AGENTS["routes"][:1]}
    )
    asked: list[Sequence[str]] = []
    chosen = [""]

    async def answering(session: str, first: Sequence[str]) -> Any:
        asked.append(first)
        return world.script

    async def choice(session: str) -> str:
        return chosen[0]

    world.models.answering = answering  # type: ignore[method-assign]  # what the real one opens is tried elsewhere
    world.models.choice_for = choice  # type: ignore[method-assign]  # the same
    async with world.running() as core:
        await said(core, BOB, "/cook soup")
        await said(core, BOB)
        chosen[0] = "scripted:chosen"
        await said(core, BOB, "/cook soup")
        chosen[0] = ""
        await core.command("/agent cook", actor=Actor(BOB, "memory"), session=BOB)
        await core.command("/status", actor=Actor(BOB, "memory"), session=BOB)
    assert list(dict.fromkeys(asked)) == [("scripted:one", "scripted:two"), ()]
    assert asked[-2:] == [(), ("scripted:one", "scripted:two")], "the status tells of the model that would answer"


async def test_a_message_for_another_agent_does_not_join_the_turn_that_runs(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [asks_for("begin", ToolCall("n", "note", {})), says("noted", "Done."), says("soup", "Soup.")]
    world = world_of(tmp_path, script, queue={"mode": "steer"})
    world.tools = type(world.tools)([acting("note", trail.leave_slowly)])
    async with world.running() as core:
        bob = Actor(BOB, "memory")
        await core.say("begin", actor=bob, session=BOB)
        await until(lambda: trail.times)
        await core.say("/cook soup", actor=bob, session=BOB)
        trail.gate.set()
        await core.settled()
    assert world.texts() == ["Done.", "Soup."] and who(world) == "the cook."


async def test_a_role_says_also_which_agents_are_started_for_a_task(tmp_path: Path) -> None:
    roles = {"guest": {"agents": ["main", "clerk"]}}
    script = [asks_for("do it", handing("x", kind="cook")), says("this person may use no kind of agent", "I may not.")]
    world = world_of(tmp_path, script, roles=roles)
    async with world.running() as core:
        await said(core, GUEST, "do it")
    assert world.texts() == ["I may not."]
    system = world.script.requests[0].system
    assert "- clerk: Files letters." in system and "- cook" not in system


async def test_a_turn_that_is_taken_up_stays_with_its_agent(tmp_path: Path) -> None:
    world = world_of(tmp_path, [asks_for("good day", ToolCall("n", "note", {})), says("noted", "Hello.")])

    async def hi(core: Core) -> None:
        await core.say("good day", actor=Actor(ANNA, "memory"), session=ANNA, message_id="1")
        await core.settled()

    moments = await recorded(world, hi)
    for moment in moments:
        with moment.restored():
            begun = len(world.script.requests)
            routes = AGENTS["routes"] if begun else []
            reconfigure(world, agents={**AGENTS, "routes": routes and [{"agent": "cook"}]})
            async with world.running() as core:
                await hi(core)
            if begun:
                assert {who(world, at) for at in range(len(world.script.requests))} == {"the clerk."}
            assert world.texts()[-1:] == ["Hello."]
    assert moments[-1].write >= 7, "every write was tried"


async def test_a_turn_of_main_stays_with_it_when_a_route_comes_before_it_is_taken_up(tmp_path: Path) -> None:
    trail = Trail("noted")
    world = world_of(
        tmp_path,
        [asks_for("good day", ToolCall("n", "note", {})), says("noted", "Hello.")],
        agents={"main": AGENTS["main"]},
    )
    world.tools = type(world.tools)([acting("note", trail.leave_slowly)])
    async with world.running() as core:
        await core.say("good day", actor=Actor(BOB, "memory"), session=BOB)
        await until(lambda: trail.times)
    trail.gate.set()
    reconfigure(world, agents={**AGENTS, "routes": [{"agent": "cook"}]})
    async with world.running() as core:
        await core.settled()
        await said(core, BOB)
    assert [who(world, at) for at in (0, 1, 2)] == ["main.", "main.", "the cook."]


async def test_a_turn_whose_agent_is_not_for_the_person_any_more_is_not_taken_up_by_it(tmp_path: Path) -> None:
    trail = Trail("noted")
    world = world_of(tmp_path, [asks_for("good day", ToolCall("n", "note", {})), says("noted", "Hello.")])
    world.tools = type(world.tools)([acting("note", trail.leave_slowly)])
    async with world.running() as core:
        await core.say("good day", actor=Actor(BOB, "memory"), session=BOB)
        await until(lambda: trail.times)
    world.users._users[BOB] = User(BOB, roles=frozenset({"guest"}))
    async with world.running() as core:
        await core.settled()
    assert "No agent is available to you here" in world.texts()[0] and len(world.script.requests) == 1


async def test_where_main_answers_the_choice_costs_no_write(tmp_path: Path) -> None:
    """However many agents there are."""
    writes = []
    for name, agents in (("alone", {"main": AGENTS["main"]}), ("many", {**AGENTS, "routes": []}), ("routed", AGENTS)):
        (tmp_path / name).mkdir()
        async with world_of(tmp_path / name, agents=agents).running() as core:
            before = core.database.writes
            await said(core, BOB)
            writes.append(core.database.writes - before)
    assert len(set(writes)) == 1, writes


async def test_the_choice_goes_when_the_conversation_is_forgotten(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    anna = Actor(ANNA, "memory")
    async with world.running() as core:
        await core.command("/agent cook", actor=anna, session=ANNA)
        await said(core, ANNA)
        await core.sessions.forgetter.forget(ANNA)
        assert await core.sessions.choices.agents.choice_for(ANNA) == ""
