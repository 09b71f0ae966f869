"""A message that the agent sends by itself, and a kill at every write: it comes once, or says that it may be twice."""

from pathlib import Path

import pytest

from goclaw.channels.base import Doubt
from goclaw.llm.scripted import Answer
from goclaw.messages import ToolCall, ToolResult
from goclaw.tools.message import message
from tests.harness import World
from tests.sessions.looking import unless_dead

SEND = {"action": "send", "text": "by the way", "media_path": "a.txt"}
WRITES = 14
"""More than a whole such turn has."""


SCRIPT = [Answer(calls=(ToolCall("c1", "message", SEND),), when="send it"), Answer("done", when="sent to")]


@pytest.mark.parametrize("kind", ["die_before", "die_after"])
@pytest.mark.parametrize("number", range(1, WRITES))
async def test_it_is_never_sent_twice_in_silence(tmp_path: Path, kind: str, number: int) -> None:
    world = World(tmp_path, SCRIPT, tools=[message])
    (world.root / "a.txt").write_text("the file")
    async with world.running(**{kind: number}) as core:
        await unless_dead(core, core.say("send it", message_id="1"))
        await core.settled()
    async with world.running() as core:
        await core.say("send it", message_id="1")
        await core.settled()
        results = [each.content for each in await core.messages() if isinstance(each, ToolResult)]
    arrived = [heard for heard in world.room.all if heard.delivery.text == "by the way"]
    assert len({heard.delivery.id for heard in arrived}) == 1
    assert [heard.doubt is Doubt.NONE for heard in arrived] in ([True], [True, False], [False])
    assert len(results) == 1 and results[0].startswith("sent to memory:here, message id ")
    assert world.texts().count("done") >= 1


async def test_a_whole_turn_has_fewer_writes_than_are_tried(tmp_path: Path) -> None:
    world = World(tmp_path, SCRIPT, tools=[message])
    (world.root / "a.txt").write_text("the file")
    async with world.running() as core:
        await core.say("send it")
        await core.settled()
        assert core.database.writes < WRITES
