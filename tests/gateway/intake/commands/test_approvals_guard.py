"""/guard shows what the agent has read, and makes a file one's own again."""

from pathlib import Path

import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.read import read
from tests.harness import World


@pytest.mark.promise("P-guard")
async def test_it_shows_what_was_read_and_the_label_of_a_file_can_be_taken_away(tmp_path: Path) -> None:
    world = World(
        tmp_path, [Answer(calls=(ToolCall("c1", "read", {"path": "notes.md"}),)), Answer("Read.")], tools=[read]
    )
    world.root.mkdir(parents=True, exist_ok=True)
    (world.root / "notes.md").write_text("Buy rice.\n")
    async with world.running() as core:
        none = await core.command("/guard")
        assert none.splitlines()[:3] == [
            "Words of others in this conversation: none",
            "Private text in this conversation: none",
            "Files in which others may have written: none",
        ]
        await core.say("What do my notes say?", message_id="1")
        await core.settled()
        assert "Private text in this conversation: notes.md" in await core.command("/guard")
        labels = core.sessions.file_labels
        await labels.add(str(world.root.resolve()), {"notes.md": "1:1"})
        assert "Files in which others may have written: notes.md" in await core.command("/guard")
        assert (await core.command("/guard clear other.md")).startswith("other.md has no label.")
        assert await core.command("/guard clear notes.md") == "notes.md counts as yours again."
        assert "Files in which others may have written: none" in await core.command("/guard")
