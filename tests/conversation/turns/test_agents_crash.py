"""An agent at work, and a kill at every write: its work is taken up where it was, and nothing is done twice."""

from pathlib import Path

from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from goclaw.tools.builtin.agent import agent
from tests.conversation.sessions.agents import agents_of, asks_for, handing, results, says, until
from tests.harness import Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

SCRIPT = [
    asks_for("do it", handing("first task", "c1"), handing("second task", "c2")),
    asks_for("first task", ToolCall("n1", "note", {})),
    asks_for("second task", ToolCall("n1", "look", {})),
    says("noted", "one is fine"),
    says("outcome unknown", "one is fine"),
    says("looked", "two is fine"),
    says("two is fine", "All is well."),
]


def world_of(folder: Path, noting: Trail) -> World:
    note = acting("note", noting.leave, idempotent=False)
    return World(folder, SCRIPT, tools=[agent, note, acting("look", Trail("looked").leave)])


async def do_it(core: Core) -> None:
    await core.say("do it", message_id="1")
    await core.settled()


async def test_agents_are_taken_up_where_they_were(tmp_path: Path) -> None:
    noting = Trail("noted")
    world = world_of(tmp_path, noting)
    moments = await recorded(world, do_it, noting)
    for moment in moments:
        with moment.restored():
            await check_taken_up(world, noting)
    assert moments[-1].write >= 15, "every write was tried"


async def check_taken_up(world: World, noting: Trail) -> None:
    """The next life brings it to its end."""
    async with world.running() as core:
        await do_it(core)
        sessions = await agents_of(core)
        theirs = [await core.messages(session) for session in sessions]
        told = results(await core.messages())
    assert sorted(told) == ["one is fine", "two is fine"]
    assert noting.times <= 1, "what must not run twice did"
    assert len(sessions) == 2
    for messages in theirs:
        assert [type(each) for each in messages[:2]] == [UserMessage, AssistantMessage]
        assert len(messages) == 4, "each step is there once"
    assert world.texts()[-1:] == ["All is well."]


async def test_a_disk_that_is_full_meanwhile_holds_the_agent_up_and_loses_nothing(tmp_path: Path) -> None:
    noting = Trail("noted")
    note = acting("note", noting.leave_slowly, idempotent=False)
    world = World(tmp_path, SCRIPT, tools=[agent, note, acting("look", Trail("looked").leave)])
    async with world.running() as core:
        await core.say("do it")
        await until(lambda: noting.times)
        core.database.full = True
        noting.gate.set()
        await core.waits_for_the_disk()
        core.database.full = False
        await core.settled_in(world.clock)
        sessions = await agents_of(core)
        theirs = [await core.messages(session) for session in sessions]
    assert noting.times == 1 and world.texts()[-1:] == ["All is well."]
    assert [len(messages) for messages in theirs] == [4, 4]
