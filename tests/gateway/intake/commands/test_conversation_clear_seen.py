"""Who watches a conversation sees that it was cleared, wherever that was asked for."""

from pathlib import Path

from goclaw.common.core.events import Notice
from goclaw.gateway.intake.commands.conversation import CLEARED
from tests.harness import Answer, World


async def test_a_clear_is_shown_to_whoever_watches(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hello")])
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
        said = await core.command("/clear")
        assert said.startswith("Conversation cleared.")
        await core.settled()
        notices = [event for event in core.seen if isinstance(event, Notice)]
    assert [(notice.session, notice.text) for notice in notices] == [("memory:here", CLEARED)]
    assert world.texts() == ["Hello", said], "the chat has its answer, and no more"
