"""`/status` for people who are no admins: what runs, what waits, and what they spent today."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor, Address, Inbound
from goclaw.common.core.messages import ToolCall
from goclaw.conversation.turns.status import Details
from goclaw.durable.store.spending import Spending
from goclaw.tools.builtin.ask_user import ask_user
from goclaw.tools.execution.tasks.base import Job, JobEnd, Owner
from tests.conversation.schedules.jobs import hourly
from tests.harness import OWNER, PATIENCE, Answer, Core, World, before_the_next_look

ANNA = Actor("memory:anna", "memory", name="Anna")
CHIEF = Actor("memory:chief", "memory", name="Chief")
USERS = [User(ANNA.key), User(CHIEF.key, roles=frozenset({"admin"}))]
IDLE = ["GoClaw", "  Model: scripted:test", "  Now: nothing is running", "  Waiting: nothing", "  Today: nothing spent"]


def world_of(folder: Path, *answers: Answer, **options: Any) -> World:
    return World(folder, answers, users=USERS, **options)


async def blocks(core: Core, actor: Actor = ANNA) -> list[list[str]]:
    """The lines of the blocks behind those of the contract."""
    text = await core.command("/status", actor=actor, session=actor.key, chat="anna")
    return [each.splitlines() for each in text.split("\n\n")[2:]]


async def spend(core: Core, cost: float | None, person: str) -> None:
    """Book an answer of today for a person."""
    at = core.schedules.clock.now()
    row = Spending.row(person, f"turn {at}", "answer", "m", tokens=(9, 1, 0, 0), cost=cost, at=at, person=person)
    await core.database.write(row)


async def in_group(core: Core, actor: Actor) -> str:
    """What a group reads."""
    group = Address("memory", "family", reply_to="1")
    return (await core.gateway.accept(Inbound(f"g:{actor.key}", actor, actor.key, "/status", group, 0.0))).text


async def test_it_says_what_runs_and_waits_and_nothing_of_the_daemon(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    lines = {"Daemon": "running for 2 h", "Telegram": "polling", "Event loop": "900 ms", "Disk": "full", "HTTP": "8137"}
    world.details = Details(lines, memory=[("Mode", "keyword")])
    async with world.running() as core:
        assert await blocks(core) == [IDLE]
        assert "Event loop: 900 ms" in "\n".join((await blocks(core, CHIEF))[0])


async def test_the_contract_is_the_same_for_everybody(tmp_path: Path) -> None:
    async with world_of(tmp_path).running() as core:
        said = [
            (await core.command("/status", actor=actor, session=ANNA.key)).split("\n\n")[:2] for actor in (ANNA, CHIEF)
        ]
    assert said[0] == said[1] and said[0][0].startswith("Session Status\n  Messages: 0\n")


async def test_a_turn_that_runs_and_the_messages_behind_it_are_counted(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("Yes."), Answer("Yes."))
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("hello", actor=ANNA, session=ANNA.key, chat="anna")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        world.clock.advance(130)
        await core.say("and?", actor=ANNA, session=ANNA.key, chat="anna")
        ((_, _, now, waiting, _),) = await blocks(core)
        assert now == "  Now: working on an answer for 2 min" and waiting == "  Waiting: 1 message"
        await core.command("/pause", actor=ANNA, session=ANNA.key, chat="anna")
        assert (await blocks(core))[0][2] == "  Now: paused; /resume continues it, /stop ends it"


async def test_a_task_in_the_background_is_counted_where_it_belongs(tmp_path: Path) -> None:
    async def run() -> JobEnd:
        await asyncio.Event().wait()
        return JobEnd("never")

    async with world_of(tmp_path).running() as core:
        tasks = core.sessions.ports.environment.tasks
        for session in (ANNA.key, CHIEF.key):
            owner, address = Owner(session, session), Address("memory", "anna")
            await tasks.start_job(Job(owner, address, "a job", run, lambda: None, 60.0))
        assert (await blocks(core))[0][2] == "  Now: 1 task in the background"


async def test_an_open_question_waits(tmp_path: Path) -> None:
    call = ToolCall("c1", "ask_user", {"questions": [{"question": "Which one?", "options": ["a", "b"]}]})
    world = world_of(tmp_path, Answer("One thing.", calls=(call,), when="go"), tools=[ask_user])
    async with world.running() as core:
        await core.say("go", actor=ANNA, session=ANNA.key, chat="anna")
        async with asyncio.timeout(PATIENCE):
            while not (await core.gateway.now(ANNA.key)).questions:
                await before_the_next_look()
        assert "  Waiting: 1 question" in (await blocks(core))[0]


async def test_todays_cost_is_the_persons_own_and_said_with_its_certainty(tmp_path: Path) -> None:
    async with world_of(tmp_path).running() as core:
        await spend(core, 8.0, CHIEF.key)
        assert (await blocks(core))[0][-1] == "  Today: nothing spent"
        await spend(core, None, ANNA.key)
        assert (await blocks(core))[0][-1] == "  Today: cost unknown"
        await spend(core, 0.25, ANNA.key)
        assert (await blocks(core))[0][-1] == "  Today: $0.25; 1 answer of unknown price not included"


async def test_a_budget_is_named_to_its_person(tmp_path: Path) -> None:
    async with world_of(tmp_path, roles={"user": {"daily_cost": 3.0}}).running() as core:
        await spend(core, 0.12, ANNA.key)
        assert (await blocks(core))[0][-1] == "  Today: $0.12 of $3.00"


async def test_a_group_reads_nobodys_budget_cost_and_schedules(tmp_path: Path) -> None:
    world = world_of(tmp_path, limits={"daily_cost": 3.0})
    async with world.running() as core:
        await hourly(core, world, actor=CHIEF, session=CHIEF.key)
        alone = "\n".join(line for block in await blocks(core, CHIEF) for line in block)
        assert "Today: $0.00 of $3.00" in alone and "Cost so far: " in alone and "Schedules" in alone
        for actor in (ANNA, CHIEF):
            said = await in_group(core, actor)
            assert "Model: scripted:test" in said
            assert not [word for word in ("Today", "Cost", "$", "Schedules") if word in said]


async def test_a_group_is_one_on_a_page_too_and_the_numbers_stay(tmp_path: Path) -> None:
    world = world_of(tmp_path, limits={"daily_cost": 3.0})
    world.details = Details({"Event loop": "900 ms", "Disk": "full"})
    async with world.running() as core:
        shown = await core.gateway.status("telegram:-100", CHIEF)
        own = await core.gateway.status(ANNA.key, ANNA)
    assert "$" not in shown["text"] and shown["spent"]["requests"] == 0 and shown["schedules"]["count"] == 0
    assert "  Today: $0.00 of $3.00" in own["text"] and own["queue_mode"] == "queue"
    assert own["details"].keys() == {"Queue", "Disk"}, "for machines, and without what is for admins"


async def test_schedules_stay_as_they_are(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await hourly(core, world, actor=ANNA, session=ANNA.key)
        assert (await blocks(core))[1][0] == "Schedules"


async def test_a_daemon_that_takes_no_messages_says_so_without_its_reasons(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    broken = {"ready": False, "problems": ["the database cannot be written"]}
    world.details = replace(world.details, lines={"Daemon": "broken"}, numbers={"health": broken})
    async with world.running() as core:
        assert "  Trouble: I cannot take messages right now" in (await blocks(core))[0]
        assert "database" not in "\n".join((await blocks(core))[0])
        assert "Trouble" not in (await core.gateway.status(ANNA.key, OWNER))["text"]
