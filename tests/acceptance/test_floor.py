"""The bare gateway that GoClaw is measured beside: it would be no measure if it lost what GoClaw keeps."""

import asyncio
from pathlib import Path

from benchmarks.gateways import FLOOR
from benchmarks.stage import PEOPLE, open_daemon, open_world, prepare
from tests.acceptance.waiting import LOOK_SECONDS, PATIENCE, clock


async def test_the_floor_answers_each_chat_in_order(tmp_path: Path) -> None:
    async with open_world() as world:
        config, _ = prepare(tmp_path, world.url, "openai-chat")
        await world.model(marked=True)
        async with open_daemon(world, config, FLOOR):
            talk = await world.talk(PEOPLE[:5], 3)  # fails for an answer to another message

    assert len(talk["replies"]) == 15


async def test_the_floor_takes_up_the_turn_that_a_kill_cut_off(tmp_path: Path) -> None:
    async with open_world() as world:
        config, _ = prepare(tmp_path, world.url, "openai-chat")
        await world.model(think=1.0)

        async with open_daemon(world, config, FLOOR) as daemon:
            talk = asyncio.create_task(world.talk(PEOPLE[:1], 1))
            async with asyncio.timeout(PATIENCE):
                while not (await world.state())["most_at_once"]:
                    await clock.sleep(LOOK_SECONDS)
            daemon.process.kill()
        await world.model()
        async with open_daemon(world, config, FLOOR):
            assert len((await talk)["replies"]) == 1
