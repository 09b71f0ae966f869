"""`/status` and `goclaw status` name what is due for the person who asks, bounded."""

from pathlib import Path

from goclaw.common.auth.users import User
from goclaw.common.core.events import NOTHING_TO_SAY, Actor, Address, Inbound
from goclaw.conversation.schedules.heartbeat import FILE, name_for
from goclaw.llm.base import Usage
from goclaw.llm.scripted import ScriptedModel
from tests.conversation.schedules.jobs import HOUR, hourly, once, pass_time
from tests.harness import HERE, Answer, Core, World

BEN = Actor("memory:ben", "memory")


def world_of(folder: Path, *answers: Answer) -> World:
    admin = frozenset({"admin"})
    return World(folder, answers, users=[User(HERE.key, timezone="UTC", roles=admin), User(BEN.key)])


async def schedules_in(core: Core) -> list[str]:
    """The lines about schedules in `/status`, without their heading."""
    blocks = (await core.command("/status")).split("\n\n")
    return next((each.splitlines()[1:] for each in blocks if each.startswith("Schedules")), [])


async def test_each_has_its_next_time_its_last_result_and_its_cost(tmp_path: Path) -> None:
    spec = "openai-chat:of-the-test"
    answer = Answer(NOTHING_TO_SAY, when="Drink tea.", usage=Usage(input=20_000, output=5_000))
    prices = {"options": {spec: {"price_input": 10, "price_output": 20, "context_window": 100_000}}}
    world = World(tmp_path, model=ScriptedModel([answer], spec=spec), models=prices)
    async with world.running() as core:
        assert await schedules_in(core) == []
        await hourly(core, world, "task")
        assert await schedules_in(core) == ["  tea: next 16:06:40"]
        await pass_time(core, world, HOUR)
        assert await schedules_in(core) == ["  tea: next 17:06:40; last 16:06:40 done, $0.3000"]
        await core.schedules.pause(HERE, "tea")
        assert await schedules_in(core) == ["  tea: paused; last 16:06:40 done, $0.3000"]


async def test_the_next_five_are_named_and_the_others_counted(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        for number in range(8):
            await once(core, world, HOUR + 60 * number, name=f"tea-{number}")
        lines = await schedules_in(core)
        assert [line.partition(":")[0].strip() for line in lines] == [*(f"tea-{n}" for n in range(5)), "Others"]
        assert lines[-1] == "  Others: 3; /schedule list shows them"
        numbers = (await core.gateway.status("memory:here", HERE))["schedules"]
        assert numbers["count"] == 8 and [each["name"] for each in numbers["next"]] == [f"tea-{n}" for n in range(5)]


async def test_a_heartbeat_that_is_on_is_named_with_its_last_result_beside_the_next_five(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer(NOTHING_TO_SAY))
    (world.root / FILE).write_text("- Is the oven off?")
    async with world.running() as core:
        await core.command("/heartbeat on")
        await pass_time(core, world, 1_400)  # from 15:06:40 to its time
        for number in range(6):
            await once(core, world, 60.0 + number, name=f"tea-{number}")
        *named, heartbeat, others = await schedules_in(core)
        assert len(named) == 5 and all("tea-" in line for line in named)
        assert heartbeat == f"  {name_for(HERE.key)}: next 16:00; last 15:30 done"
        assert others == "  Others: 1; /schedule list shows them"
        numbers = (await core.gateway.status("memory:here", HERE))["schedules"]["next"][-1]
        assert (numbers["name"], numbers["last"]["state"]) == (name_for(HERE.key), "done")
        await core.command("/heartbeat off")
        assert name_for(HERE.key) not in await core.command("/status"), "it is off"


async def test_failures_in_a_row_are_counted(tmp_path: Path) -> None:
    world = world_of(tmp_path)  # no answers: each request fails
    async with world.running() as core:
        await hourly(core, world, "task")
        for _ in range(2):
            await pass_time(core, world, HOUR)
        (line,) = await schedules_in(core)
        assert line.endswith("failed; 2 failures in a row")


async def test_those_of_others_are_left_out_and_so_are_all_in_a_group(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await hourly(core, world, actor=BEN, session=BEN.key)
        assert await schedules_in(core) == [], "also for an admin"
        await hourly(core, world, name="mine")
        assert len(await schedules_in(core)) == 1
        group = Address("memory", "here", reply_to="1")
        said = await core.gateway.accept(Inbound("memory:g", HERE, "memory:here", "/status", group, 0.0))
        assert "Session Status" in said.text and "Schedules" not in said.text
