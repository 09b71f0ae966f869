"""Runs begin when they are due, each once; what was missed is caught up as the job says."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import LOCAL, NOTHING_TO_SAY, Actor, Address
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.common.specs import Confirmation
from goclaw.conversation.schedules.jobs import Cron, TaskOptions
from goclaw.conversation.schedules.rows import KEEP_SECONDS
from goclaw.errors import AccessDenied, StateError
from tests.conversation.schedules.jobs import DAY, HOUR, Kind, asleep, hourly, job, once, pass_time
from tests.harness import HERE, Answer, Core, World
from tests.parts import Trail, acting


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, [Answer("Done.", when="Drink tea.")])


async def states(core: Core, name: str = "tea") -> list[str]:
    return [run.state for run in await core.schedules.runs(HERE, name)]


async def test_a_message_comes_at_its_time_word_for_word_without_a_model(world: World) -> None:
    async with world.running() as core:
        await once(core, world, 20 * 60)
        await pass_time(core, world, 19 * 60)
        assert world.texts() == []
        await pass_time(core, world, 60)
        assert world.texts() == ["Drink tea."]
        assert world.script.requests == []
        (stored,) = await core.schedules.of(HERE)
        assert (stored.state, stored.next, await states(core)) == ("done", None, ["done"])


async def test_the_agent_knows_what_it_was_made_to_say(world: World) -> None:
    async with world.running() as core:
        await once(core, world, 60)
        await pass_time(core, world, 60)
        assert await core.messages() == [AssistantMessage("Drink tea.")]


async def test_a_terminal_reads_a_message_in_its_session(world: World) -> None:
    async with world.running() as core:
        await once(core, world, 60, address=Address(LOCAL, "tui:here"), session="tui:here")
        await pass_time(core, world, 60)
        assert await core.messages("tui:here") == [AssistantMessage("Drink tea.")]
        assert world.texts() == []


async def test_a_task_is_a_turn_in_a_session_of_its_own_whose_answer_comes_to_the_chat(world: World) -> None:
    async with world.running() as core:
        await hourly(core, world, "task")
        await pass_time(core, world, HOUR)
        await pass_time(core, world, HOUR)
        assert world.texts() == ["Done.", "Done."]
        assert await core.messages() == []
        assert await states(core) == ["done", "done"]
        assert [len(request.messages) for request in world.script.requests] == [1, 1]


async def test_a_task_may_go_on_in_the_session_that_it_was_made_in(world: World) -> None:
    async with world.running() as core:
        await once(core, world, 60, "task", task=TaskOptions(session="same"))
        await pass_time(core, world, 60)
        assert len(await core.messages()) == 2


async def test_an_answer_of_nothing_to_say_is_not_delivered(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(NOTHING_TO_SAY)])
    async with world.running() as core:
        await once(core, world, 60, "task")
        await pass_time(core, world, 60)
        assert world.texts() == [] and await states(core) == ["done"]


async def test_the_result_of_a_task_made_in_a_terminal_is_said_in_its_session(world: World) -> None:
    async with world.running() as core:
        await once(core, world, 60, "task", address=Address(LOCAL, "tui:here"), session="tui:here")
        await pass_time(core, world, 60)
        assert await core.messages("tui:here") == [AssistantMessage("Done.")]


@pytest.mark.parametrize(
    ("catch_up", "late", "texts"),
    [
        ("last", 3 * HOUR, 1),
        ("all", 3 * HOUR, 3),
        ("none", 3 * HOUR + 120, 0),
        ("none", 3 * HOUR + 30, 1),
        ("last", 3 * DAY + 120, 1),
    ],
)
async def test_what_was_missed_is_caught_up_as_the_job_says(
    world: World, catch_up: str, late: float, texts: int
) -> None:
    async with world.running() as core:
        await hourly(core, world, catch_up=catch_up)
        await asleep(core)
    world.clock.advance(late)
    async with world.running() as core:
        await asleep(core)
        await core.settled()
        assert len(world.texts()) == texts
        (stored,) = await core.schedules.of(HERE)
        assert stored.next is not None and world.clock.now() < stored.next <= world.clock.now() + HOUR


async def test_a_run_that_comes_late_says_so_with_its_time(world: World) -> None:
    async with world.running() as core:
        await once(core, world, HOUR)
        await asleep(core)
    world.clock.advance(2 * HOUR)
    async with world.running() as core:
        await asleep(core)
        await core.settled()
        assert world.texts() == ["Drink tea.\n\n(due 16:06:40; GoClaw was not running then)"]


async def test_a_run_older_than_its_limit_is_not_caught_up(world: World) -> None:
    async with world.running() as core:
        await once(core, world, HOUR)
        await asleep(core)
    world.clock.advance(2 * DAY)
    async with world.running() as core:
        await asleep(core)
        assert world.texts() == [] and await states(core) == ["missed"]


async def test_a_machine_that_slept_catches_up_when_it_looks_at_the_clock(world: World) -> None:
    async with world.running() as core:
        await once(core, world, HOUR)
        await asleep(core)
        world.clock.suspend(HOUR + 30)
        core.schedules.scheduler.start_due()
        await asleep(core)
        await core.settled()
        assert world.texts() == ["Drink tea."]


async def test_a_clock_that_is_set_back_and_forth_runs_nothing_twice(world: World) -> None:
    async with world.running() as core:
        await hourly(core, world)
        await pass_time(core, world, HOUR)
        world.clock.jump(-3 * HOUR)
        await core.schedules.scheduler.clock_was_set()
        await pass_time(core, world, 3 * HOUR)
        dues = [run.due for run in await core.schedules.runs(HERE, "tea")]
        assert len(dues) == len(set(dues)) == 2, "the clock has come to 16:06 again, which had run"
        world.clock.jump(5 * HOUR)
        core.schedules.scheduler.start_due()
        await core.schedules.scheduler.clock_was_set()
        await pass_time(core, world, 1)
        dues = [run.due for run in await core.schedules.runs(HERE, "tea")]
        assert len(dues) == len(set(dues))


async def test_a_clock_that_was_years_ahead_does_not_silence_a_job(world: World) -> None:
    async with world.running() as core:
        await hourly(core, world)
        await asleep(core)
        world.clock.jump(3 * 365 * DAY)
        core.schedules.scheduler.start_due()
        await asleep(core)
        await core.settled()
        world.clock.jump(-3 * 365 * DAY)
        await core.schedules.scheduler.clock_was_set()
        before = len(world.texts())
        await pass_time(core, world, HOUR)
        assert len(world.texts()) == before + 1


async def test_a_job_is_not_taken_for_a_removed_one_that_ran_at_the_same_time_by_the_clock(world: World) -> None:
    async with world.running() as core:
        removed = await once(core, world, HOUR)
        await pass_time(core, world, HOUR)
        await core.schedules.remove(HERE, "tea")
        world.clock.jump(-HOUR)
        await core.schedules.scheduler.clock_was_set()
        again = await once(core, world, HOUR)
        assert again.next == removed.next
        await pass_time(core, world, HOUR)
        assert world.texts() == ["Drink tea."] * 2


async def test_two_runs_of_a_job_never_overlap(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def wait() -> str:
        await gate.wait()
        return "waited"

    answers = [Answer(calls=(ToolCall("c", "slow", {}),), when="Drink tea."), Answer("Done.", when="waited")]
    world = World(tmp_path, answers, tools=[acting("slow", wait)])
    async with world.running() as core:
        await hourly(core, world, "task")
        await asleep(core)
        for _ in range(3):
            world.clock.advance(HOUR)
            core.schedules.scheduler.on_change()  # it looks, as for another job
            await asleep(core)
        assert await states(core) == ["running"]
        gate.set()
        await core.settled()
        await asleep(core)
        await core.settled()
        assert await states(core) == ["done", "done"], "what came due meanwhile runs once, as after any pause"


async def test_failures_are_reported_once_and_back_off(tmp_path: Path) -> None:
    world = World(tmp_path, [])  # the script has no answer: each request fails
    async with world.running() as core:
        await core.schedules.add(job(Cron("* * * * *", "UTC"), "task"))
        for _ in range(30):
            await pass_time(core, world, 60)
        runs = await core.schedules.runs(HERE, "tea")
        assert {run.state for run in runs} == {"failed"}
        assert len(runs) < 7, "each failure doubles the pause"
        assert sum("I will not report further failures in a row" in text for text in world.texts()) == 1
        assert len(world.texts()) == 1


@pytest.mark.promise("P-unattended")
async def test_a_call_that_would_ask_is_refused_and_the_person_hears_of_it(tmp_path: Path) -> None:
    trail = Trail("done")
    answers = [Answer(calls=(ToolCall("c", "risky", {}),), when="Drink tea."), Answer("I could not.", when="denied")]
    world = World(tmp_path, answers, tools=[acting("risky", trail.leave, confirm=Confirmation("Risky", "May it run?"))])
    async with world.running() as core:
        await once(core, world, 60, "task")
        await pass_time(core, world, 60)
        assert trail.times == 0
        (text,) = world.texts()
        assert text.startswith("I could not.") and "nobody was there to approve it: risky" in text


async def test_a_job_whose_maker_lost_the_right_stops_and_says_so(tmp_path: Path) -> None:
    ann = Actor("memory:ann", "memory")
    world = World(tmp_path, [], users=[User("memory:ann")])
    async with world.running() as core:
        await hourly(core, world, actor=ann, session="memory:ann")
        await asleep(core)
        world.users._users = {"memory:ann": User("memory:ann", allowed_tools=frozenset({"read"}))}
        await pass_time(core, world, HOUR)
        (stored,) = await core.schedules.of(HERE)
        assert stored.state == "stopped" and stored.note == "you may no longer make schedules"
        (text,) = world.texts()
        assert text.startswith("The schedule tea has stopped: you may no longer make schedules")


async def test_a_maker_who_may_not_write_to_another_chat_any_more_hears_of_it_in_their_own(tmp_path: Path) -> None:
    ann = Actor("memory:ann", "memory")
    world = World(tmp_path, [], users=[User("memory:ann")], roles={"alone": {"other_chats": False}})
    async with world.running() as core:
        await hourly(core, world, actor=ann, session="memory:ann", address=Address("memory", "ben"), elsewhere=True)
        await asleep(core)
        world.users._users = {"memory:ann": User("memory:ann", roles=frozenset({"alone"}))}
        await pass_time(core, world, HOUR)
        (stored,) = await core.schedules.of(HERE)
        assert stored.state == "stopped" and stored.note == "you may no longer write to other chats"

        (heard,) = world.room.all
        assert heard.delivery.address == Address("memory", "ann") and heard.delivery.text.startswith("The schedule tea")


async def test_a_url_gets_nothing_once_its_maker_is_no_admin(tmp_path: Path) -> None:
    ann = Actor("memory:ann", "memory")
    world = World(tmp_path, [], users=[User("memory:ann", roles=frozenset({"user"}))])
    async with world.running() as core:
        to_url = job(Cron("0 * * * *", "UTC"), actor=ann, session="memory:ann", address=Address("notify", "ops"))
        with pytest.raises(AccessDenied):
            await core.schedules.add(to_url)
        await core.schedules.rows.add(to_url, world.clock.now() + 60, 0.0)
        await core.schedules.pause(HERE, "tea")
        await core.schedules.resume(HERE, "tea")
        await pass_time(core, world, HOUR)
        assert [stored.state for stored in await core.schedules.of(HERE)] == ["stopped"]


@pytest.mark.parametrize("kind", ["message", "task"])
async def test_what_ran_before_a_backup_was_restored_does_not_run_again_and_the_job_goes_on(
    world: World, kind: Kind
) -> None:
    async with world.running() as core:
        due = (await hourly(core, world, kind)).next
        await pass_time(core, world, HOUR)
        (stored,) = await core.schedules.of(HERE)
        # A restored state has the messages that were taken since, and no runs (`ops.backup.settle`).
        await core.schedules.rows.prune(world.clock.now() + 2 * KEEP_SECONDS)
        await core.schedules.rows.set_next({stored.id: due})
        core.schedules.scheduler.on_change()
        await pass_time(core, world, 1)
        assert len(world.texts()) == 1 and await states(core) == []
        await pass_time(core, world, HOUR)
        assert len(world.texts()) == 2


async def test_a_run_that_fails_in_an_unforeseen_way_frees_its_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug of ours")

    async with world.running() as core:
        monkeypatch.setattr("goclaw.conversation.turns.service.run_turn", broken)
        await hourly(core, world, "task")
        await pass_time(core, world, HOUR)
        monkeypatch.undo()
        (stored,) = await core.schedules.of(HERE)
        assert (stored.running, stored.failures, await states(core)) == ("", 1, ["failed"])
        await pass_time(core, world, HOUR)
        assert world.texts()[-1] == "Done."


async def test_a_paused_job_does_not_run_until_it_is_resumed(world: World) -> None:
    async with world.running() as core:
        await hourly(core, world)
        await core.schedules.pause(HERE, "tea")
        await pass_time(core, world, 2 * HOUR)
        assert world.texts() == []
        assert await core.schedules.resume(HERE, "tea") > world.clock.now()
        await pass_time(core, world, HOUR)
        assert world.texts() == ["Drink tea."]


async def test_a_run_by_hand_moves_no_due_time(world: World) -> None:
    async with world.running() as core:
        before = (await hourly(core, world)).next
        await core.schedules.run(HERE, "tea")
        await core.settled()
        (stored,) = await core.schedules.of(HERE)
        assert world.texts() == ["⏰ Reminder: Drink tea."] and (stored.next, stored.state) == (before, "active")


async def test_a_run_by_hand_reads_alike_for_what_comes_once_and_again_and_a_task_is_no_reminder(
    tmp_path: Path,
) -> None:
    ann = Actor("memory:here", "memory")
    world = World(tmp_path, [Answer("Done.")], users=[User(ann.key, timezone="UTC")])
    async with world.running() as core:
        for name, order in {
            "again": "--every 1h --message Drink tea.",
            "once": "--at 20m --message Drink tea.",
            "task": "--at 20m --task Look.",
        }.items():
            await core.command(f"/schedule add {name} {order}", actor=ann)
            before = len(world.texts())
            await core.command(f"/schedule run {name}", actor=ann)
            await core.settled()
            said = [text for text in world.texts()[before:] if text != f"{name} is running."]
            assert said == (["Done."] if name == "task" else ["⏰ Reminder: Drink tea."])
        assert "Reminder" not in str(world.script.requests)


async def test_people_see_and_change_their_own_jobs(tmp_path: Path) -> None:
    ann, ben = Actor("memory:ann", "memory"), Actor("memory:ben", "memory")
    users = [User("memory:ann"), User("memory:ben"), User("memory:no", allowed_tools=frozenset())]
    world = World(tmp_path, [], users=users)
    async with world.running() as core:
        await hourly(core, world, actor=ann, session="memory:ann")
        assert await core.schedules.of(ben) == []
        for change in (core.schedules.pause, core.schedules.resume, core.schedules.run, core.schedules.remove):
            with pytest.raises(StateError, match="there is no schedule named tea"):
                await change(ben, "tea")
        with pytest.raises(StateError, match="there is already a schedule named tea"):
            await hourly(core, world, actor=ann, session="memory:ann")
        with pytest.raises(AccessDenied):
            await hourly(core, world, actor=ann, session="memory:ben", name="other")
        with pytest.raises(AccessDenied):
            await hourly(core, world, actor=Actor("memory:no", "memory"), session="memory:no", name="other")
        await core.schedules.remove(HERE, "tea")
        assert await core.schedules.of(ann) == []
