"""Conversations in memory: the least recently used one goes, but never under the feet of a turn."""

import asyncio
from pathlib import Path

import pytest

from goclaw.conversation.sessions import state
from tests.harness import PATIENCE, Answer, World


async def test_a_conversation_that_was_dropped_from_memory_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "SESSIONS_IN_MEMORY", 1)
    world = World(tmp_path, [Answer(str(number)) for number in range(4)])
    async with world.running() as core:
        for chat in ("a", "b", "a", "b"):
            await core.say("hello", chat=chat)
            await core.settled()
    assert [len(request.messages) for request in world.script.requests] == [1, 1, 3, 3]


async def test_conversations_are_dropped_by_their_bytes_and_come_back_from_disk_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "BYTES_IN_MEMORY", 20_000)
    world = World(tmp_path, [Answer("long " * 500)] * 5)
    async with world.running() as core:
        contexts, windows = core.sessions.contexts, {}
        for chat in ("a", "b", "c", "d"):
            await core.say("hello", chat=chat)
            await core.settled()
            windows[chat] = (await contexts.session(f"memory:{chat}")).window
        assert [chat for chat in windows if contexts.find(f"memory:{chat}")] == ["c", "d"]
        again = (await contexts.session("memory:a")).window
        assert again is not windows["a"]
        assert again.entries == windows["a"].entries
        await core.say("hello", chat="a")
        await core.settled()
    assert len(world.script.requests[-1].messages) == 3


async def test_a_running_turn_keeps_its_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "SESSIONS_IN_MEMORY", 1)
    slow = Answer("the slow answer", when="slow")
    world = World(tmp_path, [slow, *(Answer(str(number)) for number in range(4))])
    gate = world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("slow", chat="a")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        world.script.gate = None
        for chat in ("b", "c", "d"):
            await core.say("hello", chat=chat)
            while (await core.room.heard()).delivery.address.chat != chat:
                pass
        assert await core.command("/status", chat="a")
        gate.set()
        await core.settled()
        await core.say("and now?", chat="a")
        await core.settled()
        grown = (await core.sessions.contexts.session("memory:a")).window
        assert len(grown.entries) == 4
    assert len(world.script.requests[-1].messages) == 3
