"""`/forget`: deleted forever, after a code, by the one whose conversation it is, and never half."""

import asyncio
import re
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor, MessageStored, SessionForgotten
from goclaw.common.core.messages import ToolCall
from goclaw.durable.store.forgetting import Forgetting
from goclaw.durable.store.postgres.database import PostgresDatabase
from tests.conversation.schedules.jobs import HOUR, hourly, pass_time
from tests.harness import HERE, PATIENCE, Answer, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

ANNA, BEN, BOSS = (Actor(f"telegram:{number}", "telegram") for number in (5, 6, 7))
USERS = [User("telegram:5"), User("telegram:6"), User("telegram:7", roles=frozenset({"admin"}))]
GROUP = "telegram:-100"


async def code_of(core: Core, **options: object) -> str:
    """Ask, and read the code."""
    found = re.search(r"^/forget ([A-Z2-9]{6})$", await core.command("/forget", **options), re.MULTILINE)
    assert found
    await core.outbox.flush(PATIENCE)  # the explanation has arrived
    return found[1]


async def said(core: Core, *texts: str, **options: object) -> None:
    for text in texts:
        await core.say(text, **options)
        await core.settled()


@pytest.mark.promise("P-forgotten")
async def test_schedules_that_were_made_there_go_with_their_runs_and_no_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        await hourly(core, world, text="The secret of here.")
        await hourly(core, world, name="there", session="memory:there")
        await hourly(core, world, name="kept", configured=True)
        await pass_time(core, world, HOUR)
        assert ", 1 schedule created here," in await core.command("/forget")
        assert (await core.command(f"/forget {await code_of(core)}")).startswith("Deleted ")
        assert sorted(stored.job.name for stored in await core.schedules.of(HERE)) == ["kept", "there"]
        count = {name: len(await core.schedules.runs(HERE, name)) for name in ("kept", "there")}
        assert count == {"kept": 0, "there": 1}
        await pass_time(core, world, HOUR)
        assert world.texts().count("The secret of here.") == 1


@pytest.mark.promise("P-forgotten")
async def test_it_says_where_words_stay_beside_the_store(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one")])
    async with world.running() as core:
        await said(core, "first")
        core.database.kept_elsewhere = ""
        assert "chat itself (delete those there).\n\nTo start over" in await core.command("/forget")
        core.database.kept_elsewhere = PostgresDatabase.kept_elsewhere
        explained = await core.command("/forget")
    assert "chat itself (delete those there). Postgres's write-ahead log, with its archives" in explained
    assert "dumps of the database keep what was said as long as their operator lets them.\n\nTo start" in explained


@pytest.mark.promise("P-forgotten")
async def test_it_explains_itself_and_deletes_with_the_code_only(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("anew")])
    async with world.running() as core:
        await said(core, "first")
        explained = await core.command("/forget")
        assert explained.startswith("This deletes this conversation forever: 2 messages (tool calls")
        assert "memory notes (including private ones)" in explained and "/clear" in explained
        assert "what you sent is in its folder inbox/, pictures too" in explained
        for slip in ("/forget yes", "/forget now please", "/forget 000000"):
            assert await core.command(slip) == (
                "That code is wrong or has expired. Nothing was deleted. Send /forget for a new code."
            )
        assert len(await core.messages()) == 2
        code = await code_of(core)
        forgotten = await core.command(f"/forget {code.lower()}")
        assert forgotten == "Deleted 2 messages (tool calls included)."
        assert await core.messages() == []
        assert core.seen.count(SessionForgotten("memory:here")) == 1
        assert "wrong or has" in await core.command(f"/forget {code}"), "for one use"
        await said(core, "hello")
    assert len(world.script.requests[-1].messages) == 1 and "first" not in str(world.script.requests[-1].messages)
    rows = [event.row for event in core.seen if isinstance(event, MessageStored)]
    assert rows == sorted(set(rows)), "a number is never used again"


@pytest.mark.promise("P-forgotten")
async def test_a_code_is_for_five_minutes_one_person_and_one_session(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(str(n)) for n in range(2)])
    async with world.running() as core:
        await said(core, "here")
        await said(core, "there", chat="there")
        code = await code_of(core)
        assert "wrong or has" in await core.command(f"/forget {code}", chat="there")
        assert "wrong or has" in await core.command(f"/forget {code}", actor=Actor("tui:you", "memory", owner=True))
        world.clock.advance(301)
        assert "wrong or has" in await core.command(f"/forget {code}")
        first = await code_of(core)
        await code_of(core)
        assert "wrong or has" in await core.command(f"/forget {first}"), "a new code makes the old one void"
        assert "wrong or has" in await core.command(f"/forget {await code_of(core)} "[:-2]), "a wrong one does, too"
        assert len(await core.messages()) == 2


async def test_a_wrong_code_makes_the_right_one_void(tmp_path: Path) -> None:
    async with World(tmp_path, [Answer("one")]).running() as core:
        await said(core, "first")
        code = await code_of(core)
        await core.command("/forget AAAAAA")
        assert "wrong or has" in await core.command(f"/forget {code}")


async def test_without_words_there_is_nothing_to_forget(tmp_path: Path) -> None:
    async with World(tmp_path).running() as core:
        assert (await core.command("/forget")).startswith("There is nothing to delete")


@pytest.mark.promise("P-sessions-are-private")
@pytest.mark.promise("P-forgotten")
async def test_in_a_group_only_an_admin_may(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(str(n)) for n in range(3)], users=USERS)
    async with world.running() as core:
        group = {"session": GROUP, "chat": "-100"}
        await said(core, "hello", actor=ANNA, **group)
        for person in (ANNA, BEN):
            assert (await core.command("/forget", actor=person, **group)).startswith("Only the owner")
        code = await code_of(core, actor=BOSS, **group)
        assert (await core.command(f"/forget {code}", actor=ANNA, **group)).startswith("Only the owner")
        await core.settled()
        assert (await core.command(f"/forget {code}", actor=BOSS, **group)).startswith("Deleted 2 messages")
        own = {"actor": ANNA, "session": "telegram:5", "chat": "5"}
        await said(core, "my own", **own)
        assert (await core.command(f"/forget {await code_of(core, **own)}", **own)).startswith("Deleted 2 messages")


async def test_whoever_acts_for_others_cannot(tmp_path: Path) -> None:
    """A model has no tool for it; an actor that works on somebody's behalf has no right to it either."""
    async with World(tmp_path, [Answer("one")]).running() as core:
        await said(core, "first")
        helper = Actor("tui:here", "memory", owner=True, behalf=(HERE,))
        assert (await core.command("/forget", actor=helper)).startswith("Only the owner")


async def test_a_turn_that_runs_or_waits_is_not_torn_apart(tmp_path: Path) -> None:
    trail = Trail()
    script = [Answer("one"), Answer(calls=(ToolCall("c1", "look", {}),)), Answer("done")]
    world = World(tmp_path, script, tools=[acting("look", trail.leave_slowly)])
    async with world.running() as core:
        await said(core, "first")
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            await trail.begun.wait()
        answer = await core.command(f"/forget {await code_of(core)}")
        assert answer.startswith("This conversation is busy")
        trail.gate.set()
        await core.settled()
        assert len(await core.messages()) == 6
        assert (await core.command(f"/forget {await code_of(core)}")).startswith("Deleted 7 messages")
    assert "done" in world.texts()


async def test_what_comes_in_meanwhile_is_answered_afterwards_with_nothing_of_before(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with world.running() as core:
        await said(core, "secret")
        code = await code_of(core)
        await asyncio.gather(core.command(f"/forget {code}"), core.say("next"))
        await core.settled()
        texts = [getattr(message, "text", "") for message in await core.messages()]
        told = str(world.texts())
        was_first = texts == [] and "Deleted 4 messages" in told  # what came in was answered before, and went with it
        assert texts == ["next", "two"] or "conversation is busy" in told or was_first
    if texts == ["next", "two"]:
        assert "secret" not in str(world.script.requests[-1].messages)


@pytest.mark.promise("P-forgotten")
async def test_a_kill_at_any_write_leaves_all_or_nothing_and_the_next_start_finishes(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with world.running() as core:
        await core.say("apple", pictures={"image/png": b"a picture"})
        await core.settled()
        await core.sessions.ports.store.settings.set("memory:here", "todos", [{"content": "apple"}])
    world.clock.advance(1)
    outcomes = set[str]()
    for moment in await recorded(world, _order):
        with moment.restored():
            outcomes.add(await _what_is_left(world))
    assert outcomes == {"everything", "nothing"}


async def _what_is_left(world: World) -> str:
    """What the next life has of the conversation: all of it or nothing."""
    async with world.running() as core:
        await core.sessions.forgetter.prune()
        rows, todos = await core.messages(), (await core.sessions.contexts.session("memory:here")).settings.todos
        pictures = names(world.folder / "blobs" / "media")
        assert (len(rows), bool(todos), len(pictures)) in ((2, True, 2), (0, False, 0))
        assert not await Forgetting(core.database).list_pending()
        return "everything" if rows else "nothing"


async def _order(core: Core) -> None:
    await core.command(f"/forget {await code_of(core)}")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
