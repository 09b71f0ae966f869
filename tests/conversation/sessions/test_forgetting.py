"""What is forgotten is gone from memory and from the disk beside the database, and nothing that others need."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.conversation.sessions.forgetting import CODE_LENGTH, CODE_SECONDS, LETTERS, Codes
from goclaw.durable.store.database import Database
from goclaw.durable.store.forgetting import Forgetting
from goclaw.durable.store.settings import Settings
from goclaw.errors import StateError
from goclaw.memory.base import NoMemory
from tests.harness import HERE, PATIENCE, Answer, Core, World
from tests.parts import sql

DAY = 24 * 3600.0
PICTURE = {"image/png": b"a picture"}


def media(world: World) -> list[str]:
    """Names of the pictures on the disk."""
    return sorted(path.name for path in (world.folder / "blobs" / "media").iterdir() if not path.suffix)


def outputs(world: World) -> int:
    return len(list((world.folder / "blobs" / "spills").iterdir()))


async def said(core: Core, text: str, **options: object) -> None:
    await core.say(text, **options)
    await core.settled()


async def test_codes_are_random_letters_that_nobody_confuses(database: Database) -> None:
    codes = Codes(Settings(database), SteppedClock())
    given = {await codes.issue("tui:me", "s") for _ in range(200)}
    assert len(given) == 200 and all(len(code) == CODE_LENGTH and set(code) <= set(LETTERS) for code in given)
    assert not set("IO01") & set(LETTERS)


async def test_no_code_is_no_code(database: Database) -> None:
    codes = Codes(Settings(database), SteppedClock())
    assert not await codes.redeem("tui:me", "s", "") and not await codes.redeem("tui:me", "s", "é")


async def test_a_code_is_of_one_person_and_session_and_any_try_uses_it_up(database: Database) -> None:
    clock = SteppedClock()
    codes, elsewhere = Codes(Settings(database), clock), Codes(Settings(database), clock)
    code = await codes.issue("tui:me", "s")
    assert not await elsewhere.redeem("tui:you", "s", code) and not await elsewhere.redeem("tui:me", "t", code)
    taken = await asyncio.gather(*(each.redeem("tui:me", "s", code) for each in (codes, elsewhere)))
    assert sorted(taken) == [False, True]
    code = await codes.issue("tui:me", "s")
    assert not await codes.redeem("tui:me", "s", "WRONG") and not await codes.redeem("tui:me", "s", code)
    code = await codes.issue("tui:me", "s")
    clock.advance(CODE_SECONDS)
    assert not await codes.redeem("tui:me", "s", code)
    code = await codes.issue("tui:me", "s")
    assert await Codes(Settings(database), SteppedClock(clock.now() - 1)).redeem("tui:me", "s", code), (
        "it is a moment late"
    )


async def test_pictures_go_unless_another_session_has_them(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(str(n)) for n in range(3)])
    async with world.running() as core:
        await said(core, "mine", pictures=PICTURE)
        await said(core, "mine alone", pictures={"image/jpeg": b"another picture"})
        await said(core, "yours", pictures=PICTURE, chat="there")
        world.clock.advance(1)
        assert len(media(world)) == 2
        assert await core.sessions.forgetter.forget("memory:here") == (4, True)
        (kept,) = media(world)
        (row,) = [row for row in await core.messages("memory:there") if isinstance(row, UserMessage)]
        assert row.images[0].blob == kept
        assert await core.sessions.forgetter.forget("memory:there") == (2, True)
        assert media(world) == []


async def test_long_outputs_go_with_the_conversation_that_they_are_of(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one")])
    async with world.running() as core:
        blobs = core.sessions.ports.environment.blobs
        async with blobs.open_spill(HERE.key) as mine, blobs.open_spill("telegram:6") as others:
            pass
        # Somebody who knows the name of another person's output cannot have it deleted.
        text = f"[kept as {mine.name}] [kept as {others.name}]"
        await said(core, "hello")
        rows = "UPDATE messages SET role = 'tool_result', text = :text WHERE role = 'assistant'"
        await core.database.write(sql(rows, text=text))
        assert outputs(world) == 2
        assert await core.sessions.forgetter.forget("memory:here") == (2, True)
        assert await blobs.use_spill(others.name, "telegram:6", lambda file: file.read()) == b""
        assert outputs(world) == 1


async def test_a_picture_that_another_turn_may_just_have_fetched_waits(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with world.running() as core:
        await said(core, "mine", pictures=PICTURE)
        world.clock.advance(1)
        await core.database.write(sql("UPDATE inbox SET state = 'new', session = 'other', received_at = 0"))
        await core.sessions.forgetter.forget("memory:here")
        assert len(media(world)) == 1 and await Forgetting(core.database).list_pending()
        await core.database.write(sql("UPDATE inbox SET state = 'done'"))
        await core.sessions.forgetter.prune()
        assert media(world) == [] and not await Forgetting(core.database).list_pending()


async def test_whoever_reads_it_at_that_moment_does_not_bring_it_back(tmp_path: Path) -> None:
    """A client attaches: the window is being loaded while it is deleted."""
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with world.running() as core:
        await said(core, "secret")
        core.sessions.contexts.forget("memory:here")
        context, reading, deleted = core.sessions.contexts._transcripts.context, asyncio.Event(), asyncio.Event()

        async def slowly(session: str) -> object:
            read = await context(session)
            reading.set()
            await deleted.wait()
            return read

        core.sessions.contexts._transcripts.context = slowly  # type: ignore[method-assign,assignment]  # see above
        loading = asyncio.ensure_future(core.sessions.contexts.session("memory:here"))
        async with asyncio.timeout(PATIENCE):
            await reading.wait()
            await core.sessions.forgetter.forget("memory:here")
            deleted.set()
            assert (await loading).window.entries == []


async def test_old_turns_go_once_a_day_and_the_rest_is_shown_as_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world = World(tmp_path, [Answer(str(n)) for n in range(4)], retention={"days": 30})
    async with world.running() as core:
        await said(core, "ancient", pictures=PICTURE)
        world.clock.advance(20 * DAY)
        await said(core, "recent")
        world.clock.advance(11 * DAY)
        await core.sessions.forgetter.prune()
        assert await core.messages() == [UserMessage("recent"), AssistantMessage("1")]
        assert media(world) == []
        assert "deleted 2 rows of 1 sessions, older than retention.days (30)" in caplog.text
        await said(core, "now")
        assert len(world.script.requests[-1].messages) == 3 and "ancient" not in str(world.script.requests[-1])
        world.clock.advance(60 * DAY)
        await core.sessions.forgetter.prune()
        await said(core, "long after")
        assert len(world.script.requests[-1].messages) == 1


async def test_a_turn_that_runs_goes_on_with_what_is_left(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two"), Answer("three")], retention={"days": 1})
    async with world.running() as core:
        await said(core, "ancient")
        world.clock.advance(3 * DAY)
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        await core.say("recent")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        await core.sessions.forgetter.prune()
        world.script.gate.set()
        await core.settled()
        assert await core.messages() == [UserMessage("recent"), AssistantMessage("two")]
        await said(core, "after")
    assert len(world.script.requests[-1].messages) == 3


@pytest.mark.promise("P-forgotten")
async def test_what_memory_could_not_forget_is_tried_again_also_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, [Answer("one")])
    asked: list[str] = []

    class Refusing(NoMemory):
        async def forget(self) -> bool:
            asked.append("refused")
            if len(asked) > 1:
                raise StateError("the memory index cannot be used: disk I/O error")
            return False

    class Forgetful(NoMemory):
        async def forget(self) -> bool:
            asked.append("done")
            return True

    world.memory = Refusing()
    async with world.running() as core:
        await said(core, "secret")
        forgetter = core.sessions.forgetter
        assert await forgetter.forget("memory:here") == (2, False)
        await forgetter.prune()
        assert "has not deleted its copy yet: the memory index cannot be used" in caplog.text
    world.memory = Forgetful()
    async with world.running() as core:
        forgetter = core.sessions.forgetter
        await forgetter.prune()
        await forgetter.prune()
    assert asked == ["refused", "refused", "done"]


async def test_without_a_wish_nothing_is_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one")])
    async with world.running() as core:
        await said(core, "ancient", pictures=PICTURE)
        world.clock.advance(10_000 * DAY)
        await core.sessions.forgetter.prune()
        assert len(await core.messages()) == 2 and len(media(world)) == 1
