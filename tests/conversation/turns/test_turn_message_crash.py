"""A message that the agent sends by itself, and a kill at every write: it comes once, or says that it may be twice."""

from pathlib import Path

from goclaw.channels.base import Doubt
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.message import message
from tests.harness import Core, World
from tests.kills import recorded

SEND = {"action": "send", "text": "by the way", "media_path": "a.txt"}
SCRIPT = [Answer(calls=(ToolCall("c1", "message", SEND),), when="send it"), Answer("done", when="sent to")]


async def send_it(core: Core) -> None:
    await core.say("send it", message_id="1")
    await core.settled()


async def test_it_is_never_sent_twice_in_silence(tmp_path: Path) -> None:
    world = World(tmp_path, SCRIPT, tools=[message])
    (world.root / "a.txt").write_text("the file")
    moments = await recorded(world, send_it)
    for moment in moments:
        with moment.restored():
            await check_sent(world)
    assert moments[-1].write >= 8, "every write was tried"


async def check_sent(world: World) -> None:
    """The next life sends it, or says that it may be there already."""
    async with world.running() as core:
        await send_it(core)
        results = [each.content for each in await core.messages() if isinstance(each, ToolResult)]
    arrived = [heard for heard in world.room.all if heard.delivery.text == "by the way"]
    assert len({heard.delivery.id for heard in arrived}) == 1
    assert [heard.doubt is Doubt.NONE for heard in arrived] in ([True], [True, False], [False])
    assert len(results) == 1 and results[0].startswith("sent to memory:here, message id ")
    assert world.texts().count("done") >= 1
