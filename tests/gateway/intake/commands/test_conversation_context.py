"""`/context` says what the next request would hold, as the request then holds it."""

import re
from dataclasses import replace
from pathlib import Path

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.llm.base import Usage
from goclaw.llm.token_counts import estimate_text, estimate_tools
from tests.harness import Answer, World
from tests.parts import Trail, acting

ANNA = Actor("telegram:5", "memory")


def tokens(text: str, part: str) -> int:
    """What the answer says of one part."""
    found = re.search(rf"^  {part}: ([\d,]+)", text, re.MULTILINE)
    assert found, text
    return int(found[1].replace(",", ""))


async def test_it_says_before_anything_was_said_what_the_first_request_then_holds(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hi there.")], tools=[acting("look", Trail().leave)])
    async with world.running() as core:
        text = await core.command("/context")
        await core.say("hello")
        await core.settled()
        (request,) = world.script.requests
    assert text.startswith("Context of scripted:test\n  Next request: ")
    assert tokens(text, "Prompt") == estimate_text(request.system)
    assert tokens(text, "Tools") == estimate_tools(request.tools) > 0
    assert tokens(text, "Conversation") == 0 and ", 0 messages" in text
    assert tokens(text, "Reserve") == 30_000
    assert tokens(text, "Free") == 200_000 - 30_000 - tokens(text, "Next request")


async def test_the_parts_make_what_status_says_once_the_provider_has_counted(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hi", usage=Usage(input=124_000, output=1_000))])
    async with world.running() as core:
        await core.say("hello")
        await core.settled()
        text = await core.command("/context")
    parts = [tokens(text, part) for part in ("Prompt", "Tools", "Notes", "Conversation")]
    assert sum(parts) == tokens(text, "Next request") == 125_000
    assert ", 2 messages" in text and "/compact summarises the conversation" in text


async def test_whoever_may_use_fewer_tools_is_shown_fewer(tmp_path: Path) -> None:
    tools = [acting(name, Trail().leave) for name in ("look", "listen")]
    guests = [User("telegram:5", allowed_tools=frozenset({"look"})), User("telegram:6")]
    world = World(tmp_path, tools=tools, users=guests)
    async with world.running() as core:
        anna = await core.command("/context", actor=ANNA, session=ANNA.key)
        ben = await core.command("/context", actor=replace(ANNA, key="telegram:6"), session="telegram:6")
    assert 0 < tokens(anna, "Tools") < tokens(ben, "Tools")
