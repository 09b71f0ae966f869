"""Kill the process at every write of a call, and let the caller repeat it: nothing is lost, and nothing doubled."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import Doubt
from tests.conversation.sessions.looking import unless_dead
from tests.gateway.servers.webhooks.calling import caller, world_with
from tests.harness import Answer, Core, World

BODY = {"title": "A fix"}


async def live(world: World, die_before: int | None = None) -> tuple[int, int]:
    """A life in which the call comes; returns the status that its caller heard (0: none), and the number of writes."""
    heard = [0]

    async def called(core: Core) -> None:
        async with caller(world, core) as service:
            heard[0] = (await service.call(BODY, X_GitHub_Delivery="72d3162e")).status
            await core.settled()

    async with world.running(die_before=die_before) as core:
        await unless_dead(core, called(core))
        return heard[0], core.database.writes


@pytest.mark.parametrize("kind", ["message", "task"])
@pytest.mark.promise("P-webhook-once")
async def test_a_kill_at_any_write_neither_loses_nor_doubles_a_call(tmp_path: Path, kind: str) -> None:
    def made(name: str) -> World:
        folder = tmp_path / name
        folder.mkdir()
        settings: dict[str, Any] = {kind: "Read {{ body.title }}"}
        return world_with(folder, Answer("Done."), Answer("Done."), **settings)

    expected = "Done." if kind == "task" else "Read A fix"
    _, writes = await live(made("whole"))
    assert writes >= 2
    for number in range(1, writes + 1):
        world, where = made(str(number)), f"killed before write {number} of {writes}"
        first, _ = await live(world, die_before=number)
        second, _ = await live(world)
        assert (first, second) in {(0, 202), (0, 200), (202, 200)}, where
        certain = [heard.delivery.text for heard in world.room.all if heard.doubt is Doubt.NONE]
        assert world.texts() and set(world.texts()) == {expected}, where
        assert len(certain) <= 1 and len(world.texts()) <= 2, where
