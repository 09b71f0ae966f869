"""An exported tool at work, and a kill at every write: it is taken up where it was, and nothing is done twice."""

from pathlib import Path

from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from tests.conversation.sessions.agents import agents_of, asks_for, results, says
from tests.conversation.sessions.exporting import PLAN, exporting, planning, world_with
from tests.harness import Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

LOG = {"description": "Log a message.", "arguments": {}, "passthrough": {"tool": "write_log"}}
SCRIPT = [
    asks_for("do it", planning()),
    says("write_log", "All is well."),
    asks_for("Plan for a party", ToolCall("n1", "note", {})),
    says("noted", "cake"),
    says("outcome unknown", "cake"),
    says("cannot be used", '{"plan": "cake"}'),
    asks_for('{"plan":"cake"}', ToolCall("c2", "log", {})),
    says("logged", "All is well."),
]


def world_of(folder: Path, noting: Trail, logging: Trail) -> World:
    """An agent that acts, answers wrongly first, and a call that is handed on to what must not run twice."""
    tools = {"create_plan": {**PLAN, "result": {"plan": "string"}}, "log": LOG}
    write = acting("write_log", logging.leave, idempotent=False)
    note = acting("note", noting.leave, idempotent=False)
    return world_with(folder, SCRIPT, [note, write], agents=exporting(tools))


async def do_it(core: Core) -> None:
    await core.say("do it", message_id="1")
    await core.settled()


async def test_exported_tools_are_taken_up_where_they_were(tmp_path: Path) -> None:
    noting, logging = Trail("noted"), Trail("logged")
    world = world_of(tmp_path, noting, logging)
    moments = await recorded(world, do_it, noting, logging)
    for moment in moments:
        with moment.restored():
            await check_taken_up(world, noting, logging)
    assert moments[-1].write >= 17, "every write was tried"


async def check_taken_up(world: World, noting: Trail, logging: Trail) -> None:
    """The next life brings it to its end."""
    async with world.running() as core:
        await do_it(core)
        (session,) = await agents_of(core)
        theirs, told = await core.messages(session), results(await core.messages())
    assert told[0] == '{"plan":"cake"}' and len(told) == 2
    assert noting.times <= 1 and logging.times <= 1, "what must not run twice did"
    assert [type(each) for each in theirs[:2]] == [UserMessage, AssistantMessage]
    assert len(theirs) == 6, "each step is there once: task, call, result, answer, objection, answer"
    assert world.texts()[-1:] == ["All is well."]
