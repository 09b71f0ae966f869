"""What the server of a model said of it, as people read it."""

from pathlib import Path

import pytest

from goclaw.common.core.events import Notice
from goclaw.durable.store.settings import Settings
from goclaw.llm.served import NO_TOOLS, TEXT_CALLS, CallStyle, WindowOrigin
from tests.harness import Answer, World

SPEC = "scripted:test"


async def test_a_model_without_tools_gets_none_and_that_is_said_once_in_a_chat(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    world.models.served.open(SPEC, "http://here").learn(tools=False)
    async with world.running() as core:
        await core.say("hi")
        await core.say("and?")
        await core.settled()
        noticed = [event.text for event in core.seen if isinstance(event, Notice)]
    assert [list(request.tools) for request in world.script.requests] == [[], []]
    assert noticed == [NO_TOOLS.format(spec=SPEC)]
    assert [text for text in world.texts() if text not in ("one", "two")] == [NO_TOOLS.format(spec=SPEC)]


async def test_status_shows_admins_where_the_window_comes_from(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.models.served.open(SPEC, "http://here").learn(window=200_000, origin=WindowOrigin.SERVER)
    async with world.running() as core:
        text = await core.command("/status")
    assert "  Model window: 200,000 tokens, according to the server\n" in text


async def test_what_was_learnt_of_a_server_is_kept_over_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one")])
    entry = world.models.served.open(SPEC, "http://here")
    entry.learn(window=8_192, origin=WindowOrigin.REFUSAL, left_out=("stream_options",))
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    later = World(tmp_path)
    kept = later.models.served.open(SPEC, "http://here")
    async with later.running():
        assert (kept.facts.window, kept.facts.left_out) == (8_192, ("stream_options",))


STYLES = {
    CallStyle.STRUCTURED: "  Model trial: it calls tools\n",
    CallStyle.TEXT: "  Model trial: it calls tools as text, which GoClaw reads\n",
    CallStyle.NONE: "  Model trial: it answers but makes no calls: good for conversation, not for tools\n",
}


@pytest.mark.parametrize("style", CallStyle)
async def test_status_shows_admins_how_the_model_calls_tools(tmp_path: Path, style: CallStyle) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        await Settings(core.database).learn(f"{TEXT_CALLS}:{SPEC}", style)
        shown = await core.command("/status")
    assert STYLES.get(style, "") in shown and ("Model trial" in shown) == (style in STYLES)
