"""What an edited message does, and what it never does: see `Engine.replace`."""

import asyncio
from pathlib import Path

from goclaw.common.auth.users import User
from goclaw.common.core.events import AcceptKind, Actor
from goclaw.common.core.messages import UserMessage
from tests.harness import Answer, Core, World
from tests.kills import recorded

ANNA = Actor("telegram:5", "telegram", name="Anna")
HERS = {"actor": ANNA, "session": "telegram:5"}


async def said(core: Core, session: str = "memory:here") -> list[str]:
    return [message.text for message in await core.messages(session) if isinstance(message, UserMessage)]


def busy_world(folder: Path) -> World:
    """A model that answers the first message when the test says."""
    world = World(folder, [Answer("One."), Answer("Two."), Answer("Three.")], users=[User("telegram:5")])
    world.script.gate = asyncio.Event()
    return world


async def test_the_last_edit_of_a_message_that_waits_is_what_is_answered(tmp_path: Path) -> None:
    world = busy_world(tmp_path)
    async with world.running() as core:
        await core.say("first", ref="r1")
        assert (await core.say("secnd", message_id="2", ref="r2")).turn == "memory:2"
        for text, update in (("seconds", "e1"), ("second", "e2")):
            receipt = await core.say(text, message_id=update, ref="r2", edited=True)
            assert receipt.kind is AcceptKind.REPLACED
        again = await core.say("seconds", message_id="e1", ref="r2", edited=True)
        assert again.kind is AcceptKind.DUPLICATE
        assert world.script.gate
        world.script.gate.set()
        await core.settled()
        assert await said(core) == ["first", "second"]
    assert world.texts() == ["One.", "Two."]


async def test_an_edit_of_what_was_answered_starts_nothing_and_goes_with_the_next_message(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("One."), Answer("Two.")])
    async with world.running() as core:
        await core.say("first", ref="r1")
        await core.settled()
        assert (await core.say("1st", ref="r1", edited=True)).kind is AcceptKind.NOTED
        await core.settled()
        assert await said(core) == ["first"] and world.texts() == ["One."]
        await core.say("and now?")
        await core.settled()
        assert (await said(core))[1].endswith('edited an earlier message: "first" → "1st"]\nand now?')
    assert world.texts() == ["One.", "Two."]


async def test_an_edit_runs_no_command(tmp_path: Path) -> None:
    world = busy_world(tmp_path)
    async with world.running() as core:
        await core.say("first", ref="r1")
        assert (await core.say("/stop", ref="r1", edited=True)).kind is AcceptKind.NOTED
        assert core.engine.running("memory:here")
    assert world.texts() == []


async def test_an_edit_needs_the_rights_of_a_message(tmp_path: Path) -> None:
    world = busy_world(tmp_path)
    async with world.running() as core:
        await core.say("first", **HERS)
        await core.say("second", ref="r2", **HERS)
        stranger = Actor("telegram:666", "telegram")
        receipt = await core.say("sell", ref="r2", edited=True, actor=stranger, session="telegram:5")
        assert receipt.kind is AcceptKind.IGNORED
        assert world.script.gate
        world.script.gate.set()
        await core.settled()
        assert await said(core, "telegram:5") == ["first", "second"]


async def test_a_kill_at_any_write_leaves_the_old_or_the_new_words_never_both(tmp_path: Path) -> None:
    world = busy_world(tmp_path)

    async def talking(core: Core) -> None:
        await _talk(core, world)
        await core.settled()

    for moment in await recorded(world, talking):
        with moment.restored():
            async with world.running() as core:
                await talking(core)
            async with world.running() as core:
                await core.settled()
                first, second = await said(core)
                assert first == "first" and second in ("secnd", "second")


async def _talk(core: Core, world: World) -> None:
    await core.say("first", message_id="1", ref="r1")
    await core.say("secnd", message_id="2", ref="r2")
    await core.say("second", message_id="3", ref="r2", edited=True)
    assert world.script.gate
    world.script.gate.set()
