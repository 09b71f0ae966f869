"""/queue says and sets what becomes of a message that comes while a turn runs."""

from pathlib import Path

import pytest

from tests.harness import OWNER, World


async def test_it_says_what_is_in_force_and_what_can_be_chosen(tmp_path: Path) -> None:
    world = World(tmp_path, queue={"mode": "collect"})
    async with world.running() as core:
        text = await core.command("/queue")
    first, *choices = text.splitlines()
    assert first == "Queue mode: collect. When a message arrives while I work:"
    assert [line.split(":")[0].strip() for line in choices] == [
        f"/queue {mode}" for mode in ("queue", "collect", "steer", "interrupt", "default")
    ]
    assert choices[-1].endswith("as configured (collect)")


async def test_a_choice_holds_for_its_session_and_over_restarts(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        said = await core.command("/queue Steer ")
        assert said == (
            "Queue mode: steer. When a message arrives while I work, "
            "it joins the turn before the next request to the model."
        )
    async with world.running() as core:
        assert (await core.command("/queue")).startswith("Queue mode: steer.")
        assert (await core.command("/queue", chat="elsewhere")).startswith("Queue mode: queue.")
        assert await core.command("/queue default") == "Queue mode: queue, as configured (queue.mode)."
        assert (await core.command("/queue")).startswith("Queue mode: queue.")


async def test_an_unknown_mode_changes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        await core.command("/queue interrupt")
        said = await core.command("/queue faster")
        assert said == "There is no queue mode 'faster'. Send one of: queue, collect, steer, interrupt, default."
        assert (await core.command("/queue")).startswith("Queue mode: interrupt.")


@pytest.mark.parametrize("mode", ["queue", "steer"])
async def test_the_status_tells_a_mode_that_is_not_the_usual_one(tmp_path: Path, mode: str) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        await core.command(f"/queue {mode}")
        text, numbers = await core.command("/status"), await core.gateway.status("memory:here", OWNER)
    assert ("  Queue mode: steer" in text.splitlines()) == (mode == "steer")
    assert "Queue mode: queue" not in text
    assert numbers["queue_mode"] == mode
