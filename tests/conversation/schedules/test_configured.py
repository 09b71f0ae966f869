"""The schedules of the configuration follow it from start to start, and keep their state."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Address
from goclaw.conversation.schedules.configured import follow_configuration
from goclaw.errors import StateError
from tests.conversation.schedules.jobs import HOUR, hourly, pass_time
from tests.harness import HERE, Answer, Core, World

TEA = {"every": "1h", "message": "Tea"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, [Answer("Done.")], users=[User("memory:ann", timezone="Europe/Berlin")])


async def follow(core: Core, schedules: dict[str, Any]) -> None:
    await follow_configuration(core.schedules, Config.model_validate({"schedules": schedules}).schedules)


async def test_what_is_new_is_added_and_what_is_gone_is_removed(world: World) -> None:
    async with world.running() as core:
        await follow(core, {"tea": TEA | {"user": "memory:ann"}, "up": {"cron": "0 9 * * *", "message": "Up"}})
        tea, up = sorted(await core.schedules.of(HERE), key=lambda each: each.job.name)
        assert (tea.job.actor.key, tea.job.address) == ("memory:ann", Address("memory", "ann"))
        assert not tea.job.actor.owner and up.job.actor.owner
        await pass_time(core, world, HOUR)
        assert world.texts() == ["Tea"]
        await follow(core, {"up": {"cron": "0 9 * * *", "message": "Up"}})
        assert [each.job.name for each in await core.schedules.of(HERE)] == ["up"]


async def test_a_schedule_that_stays_keeps_its_next_time_and_a_changed_time_is_computed_anew(world: World) -> None:
    async with world.running() as core:
        await follow(core, {"tea": TEA})
        (before,) = await core.schedules.of(HERE)
        world.clock.advance(60)
        await follow(core, {"tea": TEA | {"message": "Green tea"}})
        (after,) = await core.schedules.of(HERE)
        assert (after.id, after.next, after.job.text) == (before.id, before.next, "Green tea")
        await follow(core, {"tea": TEA | {"every": "2h"}})
        (later,) = await core.schedules.of(HERE)
        assert later.next == world.clock.now() + 2 * HOUR


async def test_one_that_is_paused_stays_so_when_its_time_changes_and_goes_on_at_the_new_one(world: World) -> None:
    async with world.running() as core:
        await follow(core, {"tea": TEA})
        await core.schedules.pause(HERE, "tea")
        await follow(core, {"tea": TEA | {"every": "2h"}})
        (stored,) = await core.schedules.of(HERE)
        assert (stored.state, stored.next) == ("paused", None)
        await pass_time(core, world, 3 * HOUR)
        assert world.texts() == []
        assert await core.schedules.resume(HERE, "tea") == world.clock.now() + HOUR, "two hours each, since the change"


async def test_its_result_may_go_to_a_url(world: World) -> None:
    async with world.running() as core:
        await follow(core, {"tea": TEA | {"user": "memory:ann", "to": "notify:ops"}})
        (tea,) = await core.schedules.of(HERE)
        assert tea.job.address == Address("notify", "ops")
        await pass_time(core, world, HOUR)
        (run,) = await core.schedules.runs(HERE, "tea")
        assert run.state == "done", "the configuration says so, and Ann need not be an admin"


async def test_only_the_file_changes_it(world: World) -> None:
    async with world.running() as core:
        await follow(core, {"tea": TEA})
        with pytest.raises(StateError, match=r"tea stands in the configuration of this gateway"):
            await core.schedules.remove(HERE, "tea")


async def test_a_persons_schedule_of_the_same_name_stays_and_a_time_that_has_passed_is_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.running() as core:
        await hourly(core, world, name="tea")
        await follow(core, {"tea": TEA | {"user": HERE.key}, "old": {"at": "2001-01-01T08:00", "message": "x"}})
        (stored,) = await core.schedules.of(HERE)
        assert not stored.job.configured
    assert ("schedules.tea in the configuration does not run: there is already a schedule named tea") in caplog.text
    assert "schedules.old in the configuration does not run: its time has passed" in caplog.text
