"""An exported tool at work, and a kill at every write: it is taken up where it was, and nothing is done twice."""

from pathlib import Path

import pytest

from goclaw.messages import AssistantMessage, ToolCall, UserMessage
from tests.harness import World
from tests.parts import Trail, acting
from tests.sessions.agents import agents_of, asks_for, results, says
from tests.sessions.exporting import PLAN, exporting, planning, world_with
from tests.sessions.looking import unless_dead

WRITES = 23
"""More than a whole such turn has."""
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


@pytest.mark.parametrize("kind", ["die_before", "die_after"])
@pytest.mark.parametrize("number", range(1, WRITES))
async def test_exported_tools_are_taken_up_where_they_were(tmp_path: Path, kind: str, number: int) -> None:
    noting, logging = Trail("noted"), Trail("logged")
    world = world_of(tmp_path, noting, logging)
    async with world.running(**{kind: number}) as core:
        await unless_dead(core, core.say("do it", message_id="1"))
        await core.settled()
    async with world.running() as core:
        await core.say("do it", message_id="1")
        await core.settled()
        (session,) = await agents_of(core)
        theirs, told = await core.messages(session), results(await core.messages())
    assert told[0] == '{"plan":"cake"}' and len(told) == 2
    assert noting.times <= 1 and logging.times <= 1, "what must not run twice did"
    assert [type(each) for each in theirs[:2]] == [UserMessage, AssistantMessage]
    assert len(theirs) == 6, "each step is there once: task, call, result, answer, objection, answer"
    assert world.texts()[-1:] == ["All is well."]


async def test_a_whole_turn_has_fewer_writes_than_are_tried(tmp_path: Path) -> None:
    world = world_of(tmp_path, Trail("noted"), Trail("logged"))
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        assert core.database.writes < WRITES
