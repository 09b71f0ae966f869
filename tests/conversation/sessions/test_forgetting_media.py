"""What is kept of pictures and files, and for how long."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import Address, Attachment, Delivery
from goclaw.common.core.messages import NO_LONGER_KEPT, Image, UserMessage
from goclaw.common.core.supervise import background
from goclaw.conversation.sessions.forgetting import STRAY_SECONDS, SWEEP_SECONDS, MediaSweep
from goclaw.durable.store.media import NeededMedia
from goclaw.durable.store.sqlite.backup import needed_media, referred_media
from goclaw.llm.encoded import EncodedMessages
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.read import read
from tests.conversation.sessions.looking import until_asleep
from tests.harness import PATIENCE, Core, World
from tests.parts import sql

PICTURE = {"image/png": b"a picture"}
TTL = STRAY_SECONDS


def media(world: World) -> list[str]:
    """Contents of the media on the disk."""
    files = (world.folder / "blobs" / "media").iterdir()
    return sorted(path.read_bytes().decode() for path in files if not path.suffix)


def sweep_of(core: Core, world: World, max_bytes: int = 1_000_000) -> MediaSweep:
    return MediaSweep(core.sessions.ports.environment.blobs, NeededMedia(core.database), world.clock, max_bytes)


async def said(core: Core, text: str, **options: Any) -> None:
    await core.say(text, **options)
    await core.settled()


@pytest.mark.promise("P-media")
async def test_what_the_context_shows_stays_however_old_it_is(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one")])
    async with world.running() as core:
        await said(core, "look", pictures=PICTURE)
        world.clock.advance(10_000_000)
        assert await sweep_of(core, world).sweep() == 0
    assert media(world) == ["a picture"]


@pytest.mark.promise("P-media")
@pytest.mark.sqlite("asks the file as a backup does")
async def test_copies_of_files_that_answers_name_stay_within_the_bound(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("[old](old.txt)", when="one"), Answer("[new](new.txt)", when="two")], tools=[read])
    for name in ("old.txt", "new.txt"):
        (world.root / name).write_text(name)
    async with world.running() as core:
        for text in ("one", "two"):
            await said(core, text)
            world.clock.advance(TTL)
        assert await sweep_of(core, world).sweep() == 0 and media(world) == ["new.txt", "old.txt"]
        database = world.folder / "goclaw.db"
        assert len(await asyncio.to_thread(referred_media, database)) == 2
        assert await asyncio.to_thread(needed_media, database) == set()
        world.clock.advance(1)
        assert await sweep_of(core, world, len("new.txt")).sweep() == 1
        assert media(world) == ["new.txt"]


@pytest.mark.promise("P-media")
async def test_what_nothing_refers_to_goes_after_its_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        await core.sessions.ports.environment.blobs.put(b"stray", "image/png")
        world.clock.advance(TTL - 1)
        assert await sweep_of(core, world).sweep() == 0
        world.clock.advance(2)
        assert await sweep_of(core, world).sweep() == 1
    assert media(world) == []


@pytest.mark.promise("P-media")
@pytest.mark.parametrize("command", ["/clear", "/compact"])
async def test_a_picture_stays_when_no_model_is_shown_it_until_room_is_short(tmp_path: Path, command: str) -> None:
    answers = [Answer(str(number)) for number in range(40)]
    world = World(tmp_path, answers, compaction={"min_messages": 2})
    async with world.running() as core:
        await said(core, "the old one", pictures=PICTURE)
        for number in range(12):
            await said(core, f"more {number}")
        await core.command(command)
        await core.settled()
        await said(core, "the new one", pictures={"image/png": b"new"})
        world.clock.advance(10_000_000)
        assert await sweep_of(core, world).sweep() == 0
        assert await sweep_of(core, world, max_bytes=3).sweep() == 1
        first = (await core.messages())[0]
    assert media(world) == ["new"]
    assert isinstance(first, UserMessage) and first.text == "the old one" and len(first.images) == 1


@pytest.mark.promise("P-media")
async def test_where_room_is_short_a_picture_that_another_conversation_shows_stays(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with world.running() as core:
        await said(core, "mine", pictures=PICTURE)
        await said(core, "yours", pictures=PICTURE, chat="there")
        await core.command("/clear")
        world.clock.advance(TTL + 1)
        assert await sweep_of(core, world, max_bytes=0).sweep() == 0
        await core.command("/clear", chat="there")
        assert await sweep_of(core, world, max_bytes=0).sweep() == 1


@pytest.mark.promise("P-media")
async def test_where_room_is_short_the_oldest_picture_goes_first_and_no_more_than_need_be(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two"), Answer("three")])
    async with world.running() as core:
        for picture in (b"first", b"second", b"third"):
            await said(core, "look", pictures={"image/png": picture})
            world.clock.advance(10)
        await core.command("/clear")
        world.clock.advance(TTL + 1)
        assert await sweep_of(core, world, max_bytes=len(b"secondthird")).sweep() == 1
    assert media(world) == ["second", "third"]


@pytest.mark.promise("P-media")
async def test_a_file_on_its_way_to_a_chat_stays_until_it_is_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        key = await core.sessions.ports.environment.blobs.put(b"report", "application/pdf")
        sent = Delivery("d", Address("matrix", "x"), media=key, media_name="report.pdf")
        await core.outbox.promise(sent)  # the channel is off: it waits
        world.clock.advance(TTL + 1)
        assert await sweep_of(core, world).sweep() == 0
        await core.outbox.send(Delivery("e", Address("memory", "here"), media=key))
        await core.database.write(sql("UPDATE deliveries SET state = 'sent'"))
        assert await sweep_of(core, world).sweep() == 1


@pytest.mark.promise("P-media")
async def test_a_turn_that_still_opens_its_files_loses_none(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("seen")])
    fetched, go_on = asyncio.Event(), asyncio.Event()

    class SlowEars:
        spec = "ears:slow"

        async def transcribe(self, recording: object) -> str:
            fetched.set()
            await go_on.wait()
            return "words"

    world.transcriber = SlowEars()
    files = [(Attachment("image", "", "image/png"), b"first"), (Attachment("voice", "", "audio/ogg"), b"OggS")]
    async with world.running() as core:
        await core.say("", files=files)
        async with asyncio.timeout(PATIENCE):
            await fetched.wait()
        world.clock.advance(10_000)
        assert await sweep_of(core, world).sweep() == 0
        go_on.set()
        await core.settled()
        world.clock.advance(10_000)
        assert await sweep_of(core, world).sweep() == 0
    assert media(world) == ["first"]


@pytest.mark.promise("P-media")
async def test_what_is_put_while_a_sweep_decides_stays(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        blobs = core.sessions.ports.environment.blobs
        await blobs.put(b"again", "image/png")
        world.clock.advance(TTL + 1)

        class Slow(NeededMedia):
            async def keys(self) -> frozenset[str]:
                found = await super().keys()
                await blobs.put(b"again", "image/png")
                return found

        assert await MediaSweep(blobs, Slow(core.database), world.clock, 0).sweep() == 0
    assert media(world) == ["again"]


@pytest.mark.promise("P-media")
async def test_it_sweeps_every_five_minutes(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core, background(sweep_of(core, world).run(), "sweep"):
        await core.sessions.ports.environment.blobs.put(b"stray", "image/png")
        for _ in range(3):
            await until_asleep(world.clock)
            world.clock.advance(SWEEP_SECONDS + 1)
        await until_asleep(world.clock)
        assert media(world) == []


@pytest.mark.promise("P-media")
async def test_what_a_kill_left_half_done_goes_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        await core.sessions.ports.environment.blobs.put(b"whole", "image/png")
        folder = world.folder / "blobs" / "media"
        (folder / "0123.tmp").write_bytes(b"half")
        (folder / f"{'0' * 64}.type").write_bytes(b"image/png")
        world.clock.advance(10**9)  # the files bear the machine's own time
        assert await sweep_of(core, world).sweep() == 1
        assert list(folder.iterdir()) == []


@pytest.mark.promise("P-media")
async def test_a_context_whose_picture_is_gone_can_still_be_sent(tmp_path: Path) -> None:
    seen: list[tuple[UserMessage, dict[str, str]]] = []

    async with World(tmp_path).running() as core:
        blobs = core.sessions.ports.environment.blobs
        kept = Image(await blobs.put(b"kept", "image/png"), "image/png")
        gone = Image("0" * 64, "image/png")

        def encode(message: Any, pictures: Any) -> tuple[bytes, ...]:
            seen.append((message, dict(pictures)))
            return ()

        await EncodedMessages(encode, blobs.get).blocks([UserMessage("look", (kept, gone)), UserMessage("", (gone,))])
    assert seen == [
        (UserMessage(f"look\n{NO_LONGER_KEPT}", (kept,)), {kept.blob: "a2VwdA=="}),
        (UserMessage(NO_LONGER_KEPT), {}),
    ]
