"""`/remind` and `/schedule`: what is set is said with its weekday, date, time and zone, and comes then."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from goclaw.common.auth.users import User, Users, add_user
from goclaw.common.core.events import AcceptKind, Actor, Address, Inbound
from goclaw.tools.toolkit.schedule_orders import ScheduleRequest
from tests.conversation.schedules.jobs import HOUR, asleep, pass_time
from tests.harness import HERE, Answer, Core, World

BERLIN = "Europe/Berlin"
ANN = Actor("memory:here", "memory", name="Ann")
MOMENT = r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day \d{1,2} \w+ \d{4}, \d\d:\d\d(:\d\d)? \(Europe/Berlin\)"


@pytest.fixture
def world(tmp_path: Path) -> World:
    ann = User(ANN.key, timezone=BERLIN)
    return World(tmp_path, [Answer("Done.")], users=[ann, User("memory:2")])


async def ask(core: Core, text: str, actor: Actor = ANN, **options: Any) -> str:
    """Send a command of Ann's and return its answer."""
    return await core.command(text, actor=actor, **options)


def reminders(world: World) -> list[str]:
    """What has come, without the answers that a reminder is set."""
    return [text for text in world.texts() if " is set: " not in text]


async def states(core: Core, name: str) -> list[str]:
    return [run.state for run in await core.schedules.runs(ANN, name)]


async def test_a_reminder_is_said_with_its_weekday_date_time_and_zone_and_comes_word_for_word(world: World) -> None:
    async with world.running() as core:
        said = await ask(core, '/remind 20m  drink *tea*, "quickly"')
        assert re.fullmatch(rf"reminder-1 is set: {MOMENT}\.", said)
        await pass_time(core, world, 20 * 60)
        assert world.texts() == [said, '⏰ Reminder: drink *tea*, "quickly"']
        assert world.script.requests == []
        (stored,) = await core.schedules.of(ANN)
        assert stored.job.personal and stored.state == "done"


@pytest.mark.promise("P-schedule-once")
@pytest.mark.parametrize("by", [-HOUR, -2.0, 2.0, HOUR])
@pytest.mark.parametrize("looks", [True, False])
async def test_a_reminder_after_a_duration_comes_on_time_though_the_clock_is_set(
    world: World, by: float, looks: bool
) -> None:
    async with world.running() as core:
        await ask(core, "/remind 30s drink tea")
        await pass_time(core, world, 10)
        world.clock.jump(by)
        if looks:  # as each five seconds; without, only the timer tells
            core.schedules.scheduler.start_due()
            await core.schedules.scheduler.clock_was_set()
        await pass_time(core, world, 19)
        assert reminders(world) == []
        await pass_time(core, world, 1)
        assert reminders(world) == ["⏰ Reminder: drink tea"]
        (run,) = await core.schedules.runs(ANN, "reminder-1")
        assert run.due == world.clock.now(), "its moment moved with the clock"


@pytest.mark.promise("P-schedule-once")
async def test_a_reminder_set_after_the_clock_was_set_comes_on_time_too(world: World) -> None:
    async with world.running() as core:
        await ask(core, "/remind 30s first")
        await asleep(core)
        world.clock.jump(-HOUR)
        await ask(core, "/remind 40s second")
        await pass_time(core, world, 30)
        assert reminders(world) == ["⏰ Reminder: first"]
        await pass_time(core, world, 10)
        assert reminders(world) == ["⏰ Reminder: first", "⏰ Reminder: second"]


async def test_a_reminder_at_a_time_of_day_follows_the_clock(world: World) -> None:
    async with world.running() as core:
        moment = datetime.fromtimestamp(world.clock.now() + 60, UTC).isoformat()
        await ask(core, f"/remind {moment} drink tea")
        await asleep(core)
        world.clock.jump(-HOUR)
        core.schedules.scheduler.start_due()
        await pass_time(core, world, 60)
        assert reminders(world) == []
        await pass_time(core, world, HOUR)
        assert reminders(world) == ["⏰ Reminder: drink tea"]


async def test_an_interval_keeps_its_pace_though_the_clock_is_set_back(world: World) -> None:
    async with world.running() as core:
        await ask(core, "/schedule add pace --every 30m --message 'drink tea'")
        for _ in range(2):
            await pass_time(core, world, HOUR / 2)
        world.clock.jump(-HOUR + 0.25)
        await core.schedules.scheduler.clock_was_set()
        await pass_time(core, world, HOUR / 2)
        assert reminders(world) == ["drink tea"] * 3


async def test_a_reminder_may_have_two_words_for_its_time(world: World) -> None:
    async with world.running() as core:
        assert ", 08:00 (Europe/Berlin)" in await ask(core, "/remind tomorrow 8:00 stand up")
        (stored,) = await core.schedules.of(ANN)
        assert stored.job.text == "stand up"


async def test_what_is_no_time_is_a_message_to_the_model(world: World) -> None:
    async with world.running() as core:
        acceptance = await core.say("/remind me when it rains", actor=ANN)
        assert acceptance.kind is AcceptKind.TURN
        await core.settled()
        (request,) = world.script.requests
        assert "Remind me when it rains" in str(request.messages[-1])
        assert world.texts() == ["Done."]


async def test_a_model_without_tools_is_not_asked_to_set_what_is_not_understood(world: World) -> None:
    world.models.served.open("scripted:test", "http://here").learn(tools=False)
    async with world.running() as core:
        said = await ask(core, "/remind me when it rains")
        assert said.startswith(
            "No reminder set: I did not understand when, and scripted:test cannot set one. Send /rem"
        )
        await core.settled()
        assert world.script.requests == []


async def test_a_reminder_is_set_in_the_words_of_a_person(world: World) -> None:
    async with world.running() as core:
        assert ", 20:00 (Europe/Berlin)" in await ask(core, "/remind morgen Abend um acht Tee trinken")
        assert re.fullmatch(rf"reminder-2 is set: {MOMENT}\.", await ask(core, "/remind me in 20 minutes to drink tea"))
        assert [each.job.text for each in await core.schedules.of(ANN)] == ["drink tea", "Tee trinken"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/remind", "Send a time and a text: /remind 20m TEXT, /remind tomorrow 8:00 TEXT"),
        ("/remind 20m", "No reminder set: the text after the time is missing."),
        ("/remind 2001-01-01 08:00 tea", "No reminder set: `2001-01-01 08:00` has passed."),
        ("/remind 25:00 tea", "No reminder set: `25:00` is not a time of day."),
        ("/schedule pause tea", "Not done: there is no schedule named tea."),
        ("/schedule add --at 20m --message x", "Not done: give it a name"),
        ("/schedule add t --at 20m --message x --user memory:2", "Not allowed: --user is for the owner"),
        ("/schedule timezone Mars/Base", "Not done: there is no time zone `Mars/Base`; write one like Europe/Berlin"),
        ("/schedule add t --at 20m --task x --agent nobody", "Not done: there is no agent nobody for you"),
        ("/schedule add t --at 20m --task x --model other:dear", "Not done: only admins may name a model that is not"),
    ],
)
async def test_what_cannot_be_set_is_said_with_the_remedy(world: World, text: str, said: str) -> None:
    async with world.running() as core:
        assert (await ask(core, text)).startswith(said)
        assert await core.schedules.of(ANN) == []


async def test_a_message_to_another_chat_follows_the_rule_for_these(tmp_path: Path) -> None:
    world = World(tmp_path, users=[User(ANN.key)], policy={"other_chats": "deny"})
    async with world.running() as core:
        told = "/schedule add t --at 20m --message x --to memory:"
        assert await ask(core, f"{told}999") == "Not allowed: you may not write to other chats."
        assert (await ask(core, f"{told}here")).startswith("t is set")


async def test_who_may_use_remind_alone_reminds_nobody_else(tmp_path: Path) -> None:
    child = {"tools": ["read"], "commands": ["remind", "schedule"]}
    world = World(tmp_path, users=[User(ANN.key, roles=frozenset({"child"}))], roles={"child": child})
    async with world.running() as core:
        assert "is set" in await ask(core, "/remind 20m feed the cat")
        for more in ("--at 20m --message x --to memory:999", "--every 1h --message x", "--at 20m --task x"):
            assert await ask(core, f"/schedule add t {more}") == "Not allowed: you may not make schedules."


async def test_only_an_admin_names_a_url_of_the_configuration(tmp_path: Path) -> None:
    boss = Actor("memory:boss", "memory")
    users = [User(ANN.key), User(boss.key, roles=frozenset({"admin"}))]
    world = World(tmp_path, users=users, notify={"ops": {"url": "https://hooks.example.org/in"}})
    async with world.running() as core:
        told = "/schedule add t --at 20m --task x --to notify:ops"
        assert (await ask(core, told)).startswith("Not allowed: ")
        mistyped = await ask(core, f"{told}s", boss)
        assert mistyped == "Not done: there is no place for notifications named opss; did you mean `ops`?."
        assert (await ask(core, f"{told} --ask", boss)).startswith(
            "Not done: ask needs a chat where a person can answer"
        )
        assert (await ask(core, told, boss)).startswith("t is set")
        (stored,) = await core.schedules.of(boss)
        assert (stored.job.address, stored.job.session) == (Address("notify", "ops"), "memory:here")


async def test_a_reminder_that_is_redelivered_after_a_crash_is_set_once(world: World) -> None:
    inbound = Inbound("m1", ANN, "memory:here", "/remind 20m tea", Address("memory", "here"), world.clock.now())
    async with world.running() as core:
        first = await core.schedules.make(inbound, "", ScheduleRequest(at="20m", message="tea"))
        again = await core.schedules.make(inbound, "", ScheduleRequest(at="20m", message="tea"))
        assert again == first and len(await core.schedules.of(ANN)) == 1


async def test_a_schedule_is_added_listed_paused_resumed_run_and_removed(world: World) -> None:
    async with world.running() as core:
        said = await ask(core, "/schedule add news --every 1h --task What is new?")
        assert re.fullmatch(rf"news is set: every 1 h, next {MOMENT}\.", said)
        (line,) = (await ask(core, "/schedule")).splitlines()
        assert re.fullmatch(rf"- news \(task\): every 1 h, next {MOMENT}: What is new\?", line)
        assert await ask(core, "/schedule pause news") == "news is paused until you resume it."
        assert "paused, every 1 h" in await ask(core, "/schedule list")
        await pass_time(core, world, 2 * HOUR)
        assert await states(core, "news") == []
        assert re.fullmatch(rf"news is active again: next {MOMENT}\.", await ask(core, "/schedule resume news"))
        assert await ask(core, "/schedule run news") == "news is running."
        await core.settled()
        assert world.texts()[-1] == "Done."
        assert re.fullmatch(rf"- {MOMENT}: done.*: Done\.", await ask(core, "/schedule runs news"))
        assert "  last: " in await ask(core, "/schedule list")
        (listed,) = orjson.loads(await ask(core, "/schedule list --json"))
        assert (listed["name"], listed["state"], listed["last"]["state"]) == ("news", "active", "done")
        assert await ask(core, "/schedule remove news") == "news is removed."
        assert (await ask(core, "/schedule")).startswith("There are no schedules.")


async def test_the_name_of_a_schedule_that_is_over_may_be_used_again(world: World) -> None:
    async with world.running() as core:
        await ask(core, "/schedule add tea --at 20m --message one")
        assert ("there is already a schedule named tea") in await ask(core, "/schedule add tea --at 1h --message two")
        await pass_time(core, world, 20 * 60)
        assert (await ask(core, "/schedule add tea --at 20m --message three")).startswith("tea is set")


async def test_a_schedule_runs_on_a_wall_clock_time_in_the_zone_of_its_person(world: World) -> None:
    async with world.running() as core:
        said = await ask(core, "/schedule add up --cron 30 8 * * * --message Get up")
        assert said.startswith("up is set: cron `30 8 * * *` (Europe/Berlin), next ") and ", 08:30 (" in said
        (stored,) = await core.schedules.of(ANN)
        await pass_time(core, world, (stored.next or 0) - world.clock.now())
        assert world.texts()[-1] == "Get up"


async def test_a_person_sets_their_time_zone(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.config.users_path
    add_user(path, ANN.key, name="Ann")
    world.users = Users.read(path)
    async with world.running() as core:
        said = await ask(core, "/schedule timezone Asia/Tokyo")
        assert said.startswith("Your time zone is Asia/Tokyo: it is ") and said.endswith("(Asia/Tokyo) there.")
        assert "(Asia/Tokyo)" in await ask(core, "/remind 8:00 tea")
    (entry,) = Users.read(path).all()
    assert (entry.timezone, entry.name) == ("Asia/Tokyo", "Ann")


async def test_another_person_neither_sees_nor_changes_a_schedule(world: World) -> None:
    bob = Actor("memory:2", "memory")
    async with world.running() as core:
        await ask(core, "/remind 20m tea")
        said = await ask(core, "/schedule list", bob, chat="2", session="memory:2")
        assert said.startswith("There are no schedules.")
        said = await ask(core, "/schedule remove reminder-1", bob, chat="2", session="memory:2")
        assert said == "Not done: there is no schedule named reminder-1."


async def test_the_owner_acts_for_a_person(tmp_path: Path) -> None:
    world = World(tmp_path, users=[User("memory:2", timezone=BERLIN)])
    async with world.running() as core:
        await ask(core, "/schedule add tea --at 20m --message Tea --user memory:2", HERE)
        (stored,) = await core.schedules.of(Actor("memory:2", "memory"))
        assert stored.job.actor.key == "memory:2" and not stored.job.actor.owner
        assert (stored.job.session, stored.job.address) == ("memory:2", Address("memory", "2"))
        assert "memory:9 is not in users.json" in await ask(core, "/schedule list --user memory:9", HERE)
