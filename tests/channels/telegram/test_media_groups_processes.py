"""A webhook on one process or several: any of them takes any update, and what belongs together is one message."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from goclaw.channels.telegram import media_groups
from goclaw.channels.telegram.media_groups import LONG_TEXT, MAX_PARTS
from goclaw.channels.telegram.previews import draft_id
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import SessionNow
from goclaw.durable.store.forgetting import Forgetting
from tests.acceptance.waiting import eventually, never
from tests.channels.support import RecordingGateway
from tests.channels.telegram.replicas import STALL, Replica, open_replica
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Json
from tests.parts import sql

PICTURES = (b"one!" * 100, b"two!" * 200, b"three!!!" * 300)
SECONDS = 20.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in parts is waited for for longer than a busy machine takes for the calls of its parts."""
    for name in ("QUIET_SECONDS", "TEXT_SECONDS"):
        monkeypatch.setattr(media_groups, name, 2.0)


class Pair:
    """Two processes with one inbox, or one in both roles; and updates that no one has called them with."""

    def __init__(self, telegram: FakeTelegram, one: Replica, two: Replica) -> None:
        self.telegram = telegram
        self.one, self.two = one, two
        self.inbox = one.gateway

    async def post(self, *updates: Json, first: int = 0) -> None:
        """Call the two by turns, each when the one before has answered, as Telegram does for one chat."""
        for place, update in enumerate(updates):
            replica = (self.one, self.two)[(first + place) % 2]
            assert await replica.post(update) == 200

    async def texts(self, count: int) -> list[str]:
        """What was taken in, each message once, when that is so many."""
        return await eventually(lambda: found if len(found := self.taken()) >= count else None, SECONDS)

    def taken(self) -> list[str]:
        return list({each.id: each.text for each in self.inbox.accepted}.values())


@asynccontextmanager
async def pair(place: PostgresPlace | None, folder: Path, inbox: RecordingGateway | None = None) -> AsyncIterator[Pair]:
    """The processes; Telegram calls neither: the test does."""
    gateway = inbox or RecordingGateway()
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(FakeTelegram())
        one = two = await stack.enter_async_context(open_replica(place, telegram, folder / "one", gateway, calls=True))
        if place:
            two = await stack.enter_async_context(open_replica(place, telegram, folder / "two", gateway, calls=True))
        await telegram.wait_called("setWebhook")
        telegram.world.webhook = ""
        yield Pair(telegram, one, two)


async def test_any_process_takes_any_update_and_one_registers(place: PostgresPlace, tmp_path: Path) -> None:
    async with pair(place, tmp_path) as both:
        said = [await both.telegram.world.say(f"m{number}", user=5) for number in range(4)]
        await both.post(*said)
        assert await both.texts(4) == ["m0", "m1", "m2", "m3"]
        assert len(both.telegram.called("setWebhook")) == 1
        assert both.one.channel.health().startswith("webhook") and both.two.channel.health().startswith("webhook")


@pytest.mark.promise("P-telegram-replicas")
@pytest.mark.parametrize("first", [0, 1])
async def test_an_album_whose_pictures_reach_two_processes_is_one_message_with_all_in_order(
    store: PostgresPlace | None, tmp_path: Path, first: int
) -> None:
    async with pair(store, tmp_path) as both:
        updates = await both.telegram.world.album(*PICTURES, text="which is best?")
        await both.post(*updates, first=first)
        await both.texts(1)
        taken = both.inbox.accepted[0]
        assert taken.id == f"telegram:album:5:{updates[0]['message']['media_group_id']}"
        assert taken.ref == f"telegram:5:{updates[0]['message']['message_id']}"
        assert taken.text == "which is best?"
        assert [picture.size for picture in taken.attachments] == [len(picture) for picture in PICTURES]
        await never(lambda: len(both.taken()) > 1, 0.5)


@pytest.mark.promise("P-telegram-replicas")
async def test_a_process_waits_for_the_parts_that_another_one_gets(place: PostgresPlace, tmp_path: Path) -> None:
    async with pair(place, tmp_path) as both:
        album = await both.telegram.world.album(*PICTURES, text="look")
        await both.post(album[0])
        for update in album[1:]:
            await never(lambda: both.inbox.accepted, 1.4)
            await both.post(update, first=1)
        await both.texts(1)
        assert len(both.inbox.accepted[0].attachments) == len(PICTURES)


@pytest.mark.promise("P-telegram-replicas")
async def test_parts_that_a_process_took_which_is_gone_are_handed_over_by_another(
    place: PostgresPlace, tmp_path: Path
) -> None:
    lost, gateway = RecordingGateway(), RecordingGateway()
    async with FakeTelegram() as telegram:
        updates = await telegram.world.album(*PICTURES, text="look")
        # Its clock stands still, so that it never hands the album over.
        async with open_replica(place, telegram, tmp_path / "one", lost, calls=True, clock=SteppedClock()) as one:
            await eventually(lambda: telegram.called("setWebhook"), SECONDS)
            telegram.world.webhook = ""
            for update in updates[:2]:
                assert await one.post(update) == 200
            telegram.world.updates.clear()
        async with open_replica(place, telegram, tmp_path / "two", gateway, calls=True) as two:
            assert await two.post(updates[2]) == 200
            [taken] = await gateway.wait_accepted(1)
    assert lost.accepted == []
    assert (taken.text, len(taken.attachments)) == ("look", 3)


@pytest.mark.promise("P-telegram-replicas")
async def test_the_one_with_the_duty_hands_over_what_nothing_follows(place: PostgresPlace, tmp_path: Path) -> None:
    lost, gateway = RecordingGateway(), RecordingGateway()
    async with FakeTelegram() as telegram, AsyncExitStack() as stack:
        updates = await telegram.world.album(*PICTURES)
        async with open_replica(place, telegram, tmp_path / "one", lost, calls=True, clock=SteppedClock()) as one:
            await eventually(lambda: telegram.called("setWebhook"), SECONDS)
            telegram.world.webhook = ""
            for update in updates:
                assert await one.post(update) == 200
            telegram.world.updates.clear()  # Telegram has its answer, and does not call again
        await stack.enter_async_context(open_replica(place, telegram, tmp_path / "two", gateway, calls=True))
        [taken] = await eventually(lambda: gateway.accepted, SECONDS + STALL)
    assert lost.accepted == [] and len(taken.attachments) == 3


async def test_the_senders_next_message_to_another_process_ends_the_album_and_comes_after_it(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with pair(store, tmp_path) as both:
        album = await both.telegram.world.album(*PICTURES[:2], text="these")
        await both.post(*album, await both.telegram.world.say("and now?", user=5))
        assert await both.texts(2) == ["these", "and now?"]
        assert [len(each.attachments) for each in both.inbox.accepted[:1]] == [2]


async def test_a_part_that_comes_late_to_either_is_a_message_of_its_own(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with pair(store, tmp_path) as both:
        album = await both.telegram.world.album(*PICTURES, text="these")
        await both.post(*album[:2])
        await both.texts(1)
        await both.post(album[2])
        assert len(await both.texts(2)) == 2
        assert [len(each.attachments) for each in both.inbox.accepted if each.attachments][-1] == 1
        # Repeated ones change nothing: their album has been handed over.
        await both.post(*album[:2], first=1)
        await never(lambda: len(both.taken()) > 2, 1.2)


async def test_a_long_text_cut_over_two_processes_is_one_message(store: PostgresPlace | None, tmp_path: Path) -> None:
    async with pair(store, tmp_path) as both:
        pieces = ["a" * LONG_TEXT, "b" * LONG_TEXT, "the end"]
        updates = [await both.telegram.world.say(piece, user=5) for piece in pieces]
        await both.post(*updates)
        [taken] = await both.texts(1)
        assert all(piece in taken for piece in pieces) and taken.endswith("the end")
        # The edit of a part reaches the whole, through the process that has none of it in memory.
        number = updates[1]["message"]["message_id"]
        await both.post(await both.telegram.world.edit(5, number, "c" * LONG_TEXT))
        [_, edited] = await both.texts(2)
        assert "c" * LONG_TEXT in edited and "a" * LONG_TEXT in edited and "b" * LONG_TEXT not in edited
        assert both.inbox.accepted[-1].edited


async def test_an_edited_caption_finds_the_pictures_that_another_process_handed_over(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with pair(store, tmp_path) as both:
        album = await both.telegram.world.album(*PICTURES, text="whihc?")
        await both.post(*album)
        await both.texts(1)
        edit = await both.telegram.world.edit(5, album[0]["message"]["message_id"], "which?")
        await eventually(lambda: len(both.inbox.accepted) >= 1, SECONDS)
        await both.post(edit, first=1)
        await both.texts(2)
        edited = both.inbox.accepted[-1]
        assert (edited.text, len(edited.attachments), edited.edited) == ("which?", 3, True)


@pytest.mark.promise("P-forgotten")
async def test_what_is_kept_for_edits_goes_with_the_message_that_is_forgotten(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with pair(store, tmp_path) as both:
        await both.post(*await both.telegram.world.album(*PICTURES, text="a secret"))
        await both.texts(1)
        row = {"id": both.inbox.accepted[0].id, "session": "telegram:5"}
        database = both.one.database
        kept = sql("SELECT count(*) FROM media_parts WHERE message LIKE '%a secret%'")
        assert [count for (count,) in await database.read(kept)] == [1]
        await database.write(
            sql(
                "INSERT INTO inbox (id, session, kind, body, state, received_at) "
                "VALUES (:id, :session, 'message', 'words', 'done', 1)",
                **row,
            )
        )
        await Forgetting(database).forget("telegram:5", 2.0)
        assert [count for (count,) in await database.read(kept)] == [0]


async def test_ten_parts_are_an_album_at_once_and_concurrent_calls_lose_none(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with pair(store, tmp_path) as both:
        album = await both.telegram.world.album(*[bytes([number]) * 100 for number in range(MAX_PARTS)])
        await asyncio.gather(*(both.post(update, first=place) for place, update in enumerate(album)))
        await both.texts(1)
        assert len(both.inbox.accepted[0].attachments) == MAX_PARTS


@pytest.mark.promise("P-telegram-replicas")
async def test_a_group_that_moved_goes_on_in_the_session_that_it_had_on_every_process(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with pair(store, tmp_path) as both:
        before = await both.telegram.world.say("@claw_bot one", user=5, chat=-5)
        moves = await both.telegram.world.migrate(-5, -100500)
        after = [await both.telegram.world.say(f"@claw_bot {word}", user=5, chat=-100500) for word in ("two", "three")]
        # Telegram may tell of the bot's membership in the new group before it tells of the migration.
        assert await both.two.post(await both.telegram.world.place("member", chat=-100500)) == 200
        for update in (before, *moves):
            assert await both.one.post(update) == 200
        await both.post(*after, first=1)
        await both.texts(3)
        assert {each.session for each in both.inbox.accepted} == {"telegram:-5"}


class AtWork(RecordingGateway):
    """A gateway whose conversations are at work on a turn, somewhere."""

    async def now(self, session: str) -> SessionNow:
        return SessionNow(turn=f"turn of {session}")


@pytest.mark.promise("P-telegram-replicas")
async def test_the_stop_button_of_a_draft_that_another_process_shows_stops_its_turn(
    store: PostgresPlace | None, tmp_path: Path
) -> None:
    async with pair(store, tmp_path, AtWork()) as both:
        for draft in (draft_id("a turn that has ended"), draft_id("turn of telegram:5")):
            stopped = {"chat": {"id": 5, "type": "private"}, "draft_id": draft}
            update = await both.telegram.world.update("stopped_message_generation", stopped)
            assert await both.two.post(update) == 200
        assert [(each.text, each.session) for each in both.inbox.accepted] == [("/stop", "telegram:5")]
