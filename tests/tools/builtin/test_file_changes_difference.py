"""What a call changed, for people."""

from pathlib import Path

from goclaw.common.core.events import ToolFinished
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.edit import edit
from goclaw.tools.builtin.file_changes import COMPARED, difference
from tests.harness import World

CALL = ToolCall("c", "edit", {"path": "a.txt", "old_string": "two", "new_string": "zwei"})


async def test_an_edit_keeps_the_whole_diff_for_people_and_tells_the_model_the_preview(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("", calls=(CALL,), when="go"), Answer("Done.")], tools=[edit])
    (world.root / "a.txt").write_text("one\ntwo\nthree\n")
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        [result] = [message for message in await core.messages() if isinstance(message, ToolResult)]
        [kept] = result.artifacts
        content = (await core.sessions.ports.environment.blobs.get(kept.blob)).decode()
        assert [event.hint for event in core.seen if isinstance(event, ToolFinished)] == ["Edited a.txt: two → zwei"]
    assert (kept.name, kept.mime) == ("a.txt.diff", "text/x-diff")
    assert content.splitlines() == ["--- before", "+++ after", "@@ -1,3 +1,3 @@", " one", "-two", "+zwei", " three"]
    assert "+zwei" not in repr(world.script.requests)
    assert [heard.delivery.media_name for heard in world.room.all] == ["", "a.txt.diff"]


async def test_a_change_is_told_in_one_line() -> None:
    for before, after, told in (
        ("one\ntwo\n", "one\n  zwei\n", "two → zwei"),
        ("one\n", "one\ntwo\nthree\n", "+2 -0 lines"),
        ("--- a\nb\n", "+++ a\nb\n", "--- a → +++ a"),
        ("x" * 61, "y", "+1 -1 lines"),
        ("same", "same", ""),
        ("x\n" * COMPARED, "", ""),
    ):
        assert (await difference("a", before, after)).brief() == told


async def test_of_a_very_long_file_only_its_length_is_told() -> None:
    long = "x\n" * COMPARED
    assert (await difference("a", long, "")).lines == ["400,000 characters became 0"]
