"""A window that is too small for a conversation: who is told what uses it, and what helps."""

from pathlib import Path

import pytest

from goclaw.common.core import catalog
from goclaw.common.core.events import Notice
from goclaw.common.core.plugins import load
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import Usage
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.tools.toolkit.base import Tool
from tests.conversation.sessions.looking import talk
from tests.harness import OWNER, World

BUILT_IN = [load(path, Tool) for path in catalog.TOOLS.values()]
TOO_SMALL = "The window of 1,024 tokens is too small for a conversation: prompt "
COUNTED = Answer("Well.", usage=Usage(input=30, output=3))
"""By a server that leaves out what it had cached."""


def world_of(folder: Path, *answers: Answer, window: int = 1_024) -> World:
    model = ScriptedModel(answers, rest=COUNTED, context_window=window)
    return World(folder, tools=BUILT_IN, model=model)


@pytest.mark.promise("P-context-fits")
async def test_the_first_answer_of_a_context_says_what_uses_the_window_and_what_helps(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await talk(core, "hello", "and then?", "/clear", "hello again")
        shown = [event for event in core.seen if isinstance(event, Notice) and event.text.startswith(TOO_SMALL)]
    told = [text for text in world.texts() if text.startswith(TOO_SMALL)]
    assert len(told) == len(shown) == 2, "once in each context"
    first, *helps = told[0].splitlines()
    assert all(part in first for part in ("tools 3", "reserve 256", "for the conversation")), first
    assert helps[0] == "What helps:" and "larger window" in helps[1] and "tools.disabled" in told[0]
    assert world.texts().count("Well.") == 3


async def test_a_window_with_room_is_no_matter_of_anybody(tmp_path: Path) -> None:
    world = world_of(tmp_path, window=2_048)
    async with world.running() as core:
        await talk(core, "hello")
        assert world.texts() == ["Well."]
        assert await core.sessions.inspection.no_room(OWNER) == ""
        assert "Window:" not in await core.command("/status")
        assert (await core.gateway.status("memory:here", OWNER))["fits"] is True


async def test_a_request_that_did_not_fit_is_explained(tmp_path: Path) -> None:
    world = world_of(tmp_path, *[Answer(error=ModelErrorKind.OVERFLOW, message="too long")] * 2)
    async with world.running() as core:
        await talk(core, "hello")
    (text,) = world.texts()
    assert text.startswith(f"scripted:test: too long\n\n{TOO_SMALL}") and "\nWhat helps:\n- " in text


async def test_what_does_not_fit_because_of_what_was_said_is_explained_by_that(tmp_path: Path) -> None:
    too_long = Answer(error=ModelErrorKind.OVERFLOW, message="too long")
    world = world_of(tmp_path, *[too_long] * 2, window=8_192)
    async with world.running() as core:
        await talk(core, "word " * 7_000)
    (text,) = world.texts()
    assert "The window of 8,192 tokens holds: prompt " in text and "conversation " in text
    assert "- /compact summarises the conversation" in text


@pytest.mark.promise("P-context-fits")
async def test_status_says_no_small_share_of_a_window_in_which_nothing_fits(tmp_path: Path) -> None:
    async with world_of(tmp_path).running() as core:
        before = await core.command("/status")
        await talk(core, "hello")
        after, numbers = await core.command("/status"), await core.gateway.status("memory:here", OWNER)
    for text in (before, after):
        tokens = next(line for line in text.splitlines() if line.startswith("  Tokens: "))
        assert " / 1,024 (" in tokens and float(tokens.rpartition("(")[2].rstrip("%)")) > 40, tokens
        assert f"\n  Window: {TOO_SMALL}" in text
    assert numbers["fits"] is False


async def test_context_says_it_as_well(tmp_path: Path) -> None:
    async with world_of(tmp_path).running() as core:
        assert f"\n\n{TOO_SMALL}" in await core.command("/context")


async def test_the_start_has_one_line_of_it(tmp_path: Path) -> None:
    async with world_of(tmp_path).running() as core:
        line = await core.sessions.inspection.no_room(OWNER)
    assert line.startswith(f"scripted:test: {TOO_SMALL}") and " What helps: " in line and "\n" not in line
