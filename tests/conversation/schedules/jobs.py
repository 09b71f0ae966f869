"""Jobs of the tests, made by the person in the chat `here`."""

import asyncio
import os
from dataclasses import replace
from typing import Any, Literal

from goclaw.common.core.events import Address
from goclaw.conversation.schedules.jobs import AnyRecurrence, Interval, Job, Once, StoredJob
from tests.harness import HERE, PATIENCE, Core, World, before_the_next_look
from tests.lanes import LONG
from tests.on_postgres import URL

Kind = Literal["message", "task"]
HOUR = 3600.0
DAY = 24 * HOUR


def job(when: AnyRecurrence, kind: Kind = "message", name: str = "tea", **options: Any) -> Job:
    """A job whose result goes to the chat `here`."""
    made = Job(name, kind, "Drink tea.", when, HERE, "memory:here", Address("memory", "here"))
    return replace(made, **options)


async def once(core: Core, world: World, seconds: float, kind: Kind = "message", **more: Any) -> StoredJob:
    """Store a job that is due once, `seconds` from now."""
    return await core.schedules.add(job(Once(world.clock.now() + seconds, "UTC"), kind, **more))


async def hourly(core: Core, world: World, kind: Kind = "message", **more: Any) -> StoredJob:
    """Store a job that is due in an hour, and each hour after that."""
    return await core.schedules.add(job(Interval(HOUR, world.clock.now(), "UTC"), kind, **more))


async def pass_time(core: Core, world: World, seconds: float) -> None:
    """Let time pass once the scheduler sleeps, and wait for what that starts."""
    await asleep(core)
    world.clock.advance(seconds)
    await asleep(core)
    await core.settled()


async def asleep(core: Core) -> None:
    """Wait until the scheduler has looked at the jobs as they are now, and sleeps."""
    async with asyncio.timeout(PATIENCE):
        while not (core.schedules.scheduler.is_asleep or core.database.dead.is_set()):
            await before_the_next_look()


def kills(writes: int, beginning: int = 0) -> range:
    """The writes before which a test kills: all of them, on SQLite and in the long lane.

    On Postgres, where each costs a schema, the short lane tries every other one: from the first, or from the second
    where `beginning` is 1.
    """
    step = 1 if LONG or URL not in os.environ else 2
    return range(1 + beginning % step, writes + 1, step)
