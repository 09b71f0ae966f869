"""The outbox: in order per chat, as often as needed, never twice without saying so."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sqlalchemy import select

from goclaw.channels.base import Capabilities, Doubt, Handover
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address, Attachment, Choice, Delivery, GatewayPort, Receipt
from goclaw.common.core.redact import MASK, remember
from goclaw.durable.engine.outbox import GIVE_UP_SECONDS, KEEP_SECONDS, UNFORESEEN_TRIES, Outbox, open_outbox
from goclaw.durable.store.database import BoundStatement, Statement
from goclaw.durable.store.open import open_database
from goclaw.durable.store.schema import deliveries
from goclaw.errors import DeliveryError, StateError

STATES = Statement(select(deliveries.c.id, deliveries.c.state).order_by(deliveries.c.seq))


class Wire:
    """A channel whose every delivery does what the test lined up; else it arrives."""

    name = "wire"

    def __init__(self) -> None:
        self.capabilities = Capabilities()
        self.refusals: list[Exception] = []
        """What goes wrong before it says that it sends."""
        self.arrived: list[Delivery] = []
        self.doubts: list[Doubt] = []
        """What the outbox said about each that arrived."""
        self.tries = 0
        self.trouble: list[Exception | None] = []
        """What goes wrong once the wire has said that it sends; None: nothing."""
        self.gates: dict[str, asyncio.Event] = {}
        """By chat, or by the text of a part (`one+two` has two): held up after it was said that it is being sent."""
        self.paces: dict[str, asyncio.Event] = {}
        """By chat: held up before that."""
        self.asked, self.pacing = asyncio.Event(), asyncio.Event()
        self.sending = ""
        self.followed: list[bool] = []
        """Whether others waited behind each when it had arrived."""

    async def run(self, gateway: GatewayPort) -> None:
        """Nobody writes here."""

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        self.tries += 1
        if self.refusals:
            raise self.refusals.pop(0)
        if pace := self.paces.get(delivery.address.chat):
            self.pacing.set()
            await pace.wait()
        parts = delivery.text.split("+")
        for number in range(len(handover.parts), len(parts)):
            await self._send(replace(delivery, text=parts[number]), handover, last=number == len(parts) - 1)
        self.followed.append(handover.others_wait)
        return Receipt(handover.parts[0])

    async def _send(self, delivery: Delivery, handover: Handover, *, last: bool) -> None:
        await handover.sending()
        self.asked.set()
        self.sending = delivery.text
        if gate := self.gates.get(delivery.text, self.gates.get(delivery.address.chat)):
            await gate.wait()
        if self.trouble and (trouble := self.trouble.pop(0)):
            raise trouble
        self.arrived.append(delivery)
        self.doubts.append(handover.doubt)
        await handover.arrived(str(len(self.arrived)), last=last)

    async def fetch(self, attachment: Attachment) -> bytes:
        raise DeliveryError("no files here", permanent=True)

    def health(self) -> str:
        return "fine"

    @property
    def texts(self) -> list[str]:
        return [delivery.text for delivery in self.arrived]


class Post:
    """An outbox on a file that can be closed at any moment and opened again."""

    def __init__(self, folder: Path, clock: SteppedClock) -> None:
        self.path, self.clock, self.wire = folder / "a.db", clock, Wire()

    @asynccontextmanager
    async def open(self, *, resume: bool = True, wire: bool = True) -> AsyncIterator[Outbox]:
        async with (
            open_database(self.path) as self.database,
            open_outbox(self.database, {"wire": self.wire} if wire else {}, self.clock) as outbox,
            asyncio.timeout(20),
        ):
            if resume:
                await outbox.resume()
            yield outbox

    async def states(self) -> list[str]:
        return [row["state"] for row in await self.database.read(STATES())]

    async def asleep(self) -> None:
        """Until a delivery waits for its next try."""
        while not self.clock.sleepers:
            await self.database.drain()


@pytest.fixture
def post(tmp_path: Path, clock: SteppedClock) -> Post:
    return Post(tmp_path, clock)


def delivery(text: str, chat: str = "c", channel: str = "wire") -> Delivery:
    return Delivery(f"id-{text}", Address(channel, chat), text)


async def test_deliveries_of_a_chat_arrive_in_order(post: Post) -> None:
    async with post.open() as outbox:
        for number in range(10):
            await outbox.promise(delivery(str(number)))
        assert await outbox.flush(20)
        assert post.wire.texts == [str(number) for number in range(10)]
        assert set(await post.states()) == {"sent"}


@pytest.mark.promise("P-secrets-masked")
async def test_no_channel_is_given_a_secret_to_show(post: Post) -> None:
    secret = "sk-LK8957-a413c09d77be2f01"
    remember(secret)
    shown = Delivery("1", Address("wire", "c"), f"sk-**{secret[3:]}**", media_name=f"{secret}.txt")
    async with post.open() as outbox:
        await outbox.promise(replace(shown, choices=(Choice(f"`sk-`{secret[3:]}", "q", "a"),)))
        assert await outbox.flush(20)
        (arrived,) = post.wire.arrived
    assert (arrived.text, arrived.media_name, arrived.choices[0].label) == (f"{MASK}**", f"{MASK}.txt", f"`{MASK}")
    assert arrived.choices[0].answer == "a"


async def test_the_names_of_files_and_buttons_read_as_what_they_are(post: Post) -> None:
    shown = Delivery("1", Address("wire", "c"), "look", media_name="photo\u202egpj.exe\x1b[2J")
    async with post.open() as outbox:
        await outbox.promise(replace(shown, choices=(Choice("\u202eyes\x1b[2J", "q", "a"),)))
        assert await outbox.flush(20)
        (arrived,) = post.wire.arrived
    assert (arrived.media_name, arrived.choices[0].label) == ("photogpj.exe", "yes")


async def test_a_chat_in_trouble_holds_up_no_other_and_its_channel_is_told_what_waits(post: Post) -> None:
    post.wire.gates["slow"] = asyncio.Event()
    async with post.open() as outbox:
        await outbox.promise(delivery("1", "slow"))
        await outbox.promise(delivery("2", "slow"))
        await outbox.send(delivery("3", "quick"))
        assert post.wire.texts == ["3"] and outbox.waiting() == 2
        post.wire.gates["slow"].set()
        assert await outbox.flush(20)
        assert post.wire.followed == [False, True, False]
        post.wire.gates["slow"].set()
        await outbox.flush(20)
    assert post.wire.texts == ["3", "1", "2"]


async def test_the_same_id_again_returns_the_same_receipt(post: Post) -> None:
    async with post.open() as outbox:
        first = await outbox.send(delivery("hi"))
        assert await outbox.send(delivery("hi")) == first
    async with post.open() as outbox:
        assert await outbox.send(delivery("hi")) == first
    assert post.wire.texts == ["hi"]


async def test_the_same_id_twice_at_once_waits_for_the_same_delivery(post: Post) -> None:
    async with post.open() as outbox:
        receipts = await asyncio.gather(outbox.send(delivery("hi")), outbox.send(delivery("hi")))
    assert receipts[0] == receipts[1] and post.wire.texts == ["hi"]


async def test_the_servers_wish_to_wait_is_granted(post: Post, clock: SteppedClock) -> None:
    post.wire.trouble = [DeliveryError("flood", retry_after=40.0)]
    async with post.open() as outbox:
        sending = asyncio.ensure_future(outbox.send(delivery("hi")))
        await post.asleep()
        clock.advance(39)
        for _ in range(10):
            await post.database.drain()
        assert post.wire.tries == 1
        clock.advance(1.5)
        assert (await sending).message_id == "1"
    assert post.wire.doubts == [Doubt.NONE], "it was surely not delivered before"


async def test_pauses_grow_until_the_channel_is_back(post: Post, clock: SteppedClock) -> None:
    post.wire.trouble = [DeliveryError("network") for _ in range(8)]
    waited = []
    async with post.open() as outbox:
        sending = asyncio.ensure_future(outbox.send(delivery("hi")))
        for _ in range(8):
            await post.asleep()
            began = clock.now()
            while clock.sleepers:
                clock.advance(0.5)
            waited.append(clock.now() - began)
        await sending
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_a_refusal_for_good_makes_room_for_the_next(post: Post) -> None:
    post.wire.trouble = [DeliveryError("bot was blocked by the user", permanent=True)]
    async with post.open() as outbox:
        with pytest.raises(DeliveryError, match="blocked"):
            await outbox.send(delivery("one"))
        with pytest.raises(DeliveryError, match="blocked"):
            await outbox.send(delivery("one"))
        await outbox.send(delivery("two"))
        assert await post.states() == ["failed", "sent"]
    assert post.wire.texts == ["two"]


async def test_a_channel_bug_holds_the_chat_up_for_a_while_only(post: Post, clock: SteppedClock) -> None:
    post.wire.trouble = [ZeroDivisionError() for _ in range(UNFORESEEN_TRIES)]
    async with post.open() as outbox:
        await outbox.promise(delivery("poison"))
        await outbox.promise(delivery("two"))
        while outbox.waiting():
            await post.database.drain()
            clock.advance(60)
        assert await post.states() == ["failed", "sent", "sent"]
    assert post.wire.texts[0] == "two" and post.wire.texts[1].startswith("A message could not be delivered here: wire")


async def test_whoever_cannot_have_a_message_is_told_so_once(post: Post) -> None:
    post.wire.trouble = [DeliveryError("too odd", permanent=True), DeliveryError("still too odd", permanent=True)]
    async with post.open() as outbox:
        await outbox.promise(delivery("poison"))
        await outbox.flush(20)
        assert await post.states() == ["failed", "failed"], "the word about it is not followed by another one"
        post.wire.trouble = [DeliveryError("too odd", permanent=True)]
        await outbox.promise(delivery("odd"))
        await outbox.flush(20)
    (word,) = post.wire.texts
    assert word == (
        "A message could not be delivered here: too odd. Its text is kept; `goclaw tui` shows the conversation."
    )


async def test_a_chat_that_is_closed_and_a_tool_that_waits_are_sent_no_word(post: Post) -> None:
    async with post.open() as outbox:
        post.wire.trouble = [DeliveryError("blocked", permanent=True, closed=True)]
        await outbox.promise(delivery("one"))
        await outbox.flush(20)
        post.wire.trouble = [DeliveryError("too odd", permanent=True)]
        with pytest.raises(DeliveryError, match="too odd"):
            await outbox.send(delivery("two"))
        await outbox.flush(20)
    assert post.wire.texts == []


async def test_after_a_day_it_is_given_up(post: Post, clock: SteppedClock) -> None:
    post.wire.trouble = [DeliveryError("network") for _ in range(10_000)]
    async with post.open() as outbox:
        await outbox.promise(delivery("old"))
        await post.asleep()
        clock.advance(GIVE_UP_SECONDS + 1)
        await outbox.flush(20)
        assert await post.states() == ["failed"]


async def test_a_message_of_one_part_is_promised_marked_and_receipted_and_its_id_is_known(post: Post) -> None:
    commits = 0

    def written() -> None:
        nonlocal commits
        commits += 1

    async with post.open() as outbox:
        post.database.written = written
        receipt = await outbox.send(Delivery("d1", Address("wire", "here"), "one"))
        assert commits == 3
        [found] = await outbox.sent_as(Address("wire", "here"), receipt.message_id or "")
    assert (found.id, receipt.message_id) == ("d1", "1")


async def test_what_goes_out_at_once_is_promised_and_marked_in_one_transaction(post: Post) -> None:
    post.wire.capabilities = Capabilities(sends_at_once=lambda delivery: True)
    post.wire.gates["c"] = asyncio.Event()
    async with post.open() as outbox:
        await outbox.promise(delivery("one"))
        assert await post.states() == ["sending"]
        await outbox.promise(delivery("two"))
        assert await post.states() == ["sending", "pending"], "what waits behind it is not being sent"
    post.wire.gates["c"].set()
    async with post.open() as outbox:
        await outbox.flush(20)
    assert list(zip(post.wire.texts, post.wire.doubts, strict=True)) == [("one", Doubt.RESTART), ("two", Doubt.NONE)]


async def test_of_several_promised_together_one_a_chat_is_marked(post: Post) -> None:
    post.wire.capabilities = Capabilities(sends_at_once=lambda delivery: True)
    async with post.open() as outbox:
        promise = outbox.prepare([delivery("one"), delivery("two"), replace(delivery("no"), action="delete")])
    assert [row.values["state"] for row in promise.rows] == ["sending", "pending", "pending"]
    assert promise.durable


async def test_what_failed_before_the_service_was_asked_is_in_no_doubt(post: Post, clock: SteppedClock) -> None:
    """The promise says that it is being sent, and then it was not."""
    post.wire.capabilities = Capabilities(sends_at_once=lambda delivery: True)
    post.wire.refusals = [RuntimeError("nobody expected that"), DeliveryError("flood", retry_after=1.0)]
    async with post.open() as outbox:
        await outbox.promise(delivery("hi"))
        await post.asleep()
        clock.advance(1)
        await post.asleep()
        assert await post.states() == ["pending"], "a kill marks nothing from here on"
        clock.advance(1)
        await outbox.flush(20)
    assert (post.wire.texts, post.wire.doubts) == (["hi"], [Doubt.NONE])


async def test_what_may_have_arrived_is_sent_again_and_says_so(post: Post) -> None:
    post.wire.gates["c"] = asyncio.Event()
    async with post.open() as outbox:
        await outbox.promise(delivery("one"))
        await outbox.promise(delivery("two"))
        await post.wire.asked.wait()
        assert await post.states() == ["sending", "pending"]
    post.wire.gates["c"].set()
    async with post.open() as outbox:
        await outbox.flush(20)
    assert list(zip(post.wire.texts, post.wire.doubts, strict=True)) == [("one", Doubt.RESTART), ("two", Doubt.NONE)]


async def test_a_time_out_while_sending_marks_the_repetition(post: Post, clock: SteppedClock) -> None:
    post.wire.trouble = [DeliveryError("time-out", maybe_delivered=True)]
    async with post.open() as outbox:
        sending = asyncio.ensure_future(outbox.send(delivery("hi")))
        await post.asleep()
        clock.advance(1)
        await sending
    assert post.wire.doubts == [Doubt.SILENCE]


async def test_a_kill_while_it_waits_for_its_turn_to_speak_marks_nothing(post: Post) -> None:
    post.wire.paces["c"] = asyncio.Event()
    async with post.open() as outbox:
        await outbox.promise(delivery("hi"))
        await post.wire.pacing.wait()
        assert await post.states() == ["pending"]
    post.wire.paces.clear()
    async with post.open() as outbox:
        await outbox.flush(20)
    assert (post.wire.texts, post.wire.doubts) == (["hi"], [Doubt.NONE])


@pytest.mark.promise("P-repeat-marked")
async def test_after_a_kill_only_the_part_that_was_being_sent_is_uncertain(post: Post) -> None:
    post.wire.gates["two"] = asyncio.Event()
    async with post.open() as outbox:
        await outbox.promise(delivery("one+two+three"))
        while post.wire.sending != "two":
            await post.database.drain()
        assert await post.states() == ["sending"]
    post.wire.gates.clear()
    async with post.open() as outbox:
        receipt = await outbox.send(delivery("one+two+three"))
    assert post.wire.texts == ["one", "two", "three"]
    assert post.wire.doubts == [Doubt.NONE, Doubt.RESTART, Doubt.NONE]
    assert receipt.message_id == "1", "the first part's"


async def test_after_a_kill_between_two_parts_nothing_is_uncertain(post: Post, clock: SteppedClock) -> None:
    post.wire.trouble = [None, DeliveryError("flood", retry_after=40.0)]
    async with post.open() as outbox:
        await outbox.promise(delivery("one+two"))
        await post.asleep()
        assert await post.states() == ["pending"]
    async with post.open() as outbox:
        await outbox.flush(20)
    assert (post.wire.texts, post.wire.doubts) == (["one", "two"], [Doubt.NONE, Doubt.NONE])


async def test_doubt_outlasts_a_failure_that_surely_did_not_arrive(post: Post, clock: SteppedClock) -> None:
    post.wire.trouble = [DeliveryError("time-out", maybe_delivered=True), DeliveryError("flood", retry_after=40.0)]
    async with post.open() as outbox:
        await outbox.promise(delivery("hi"))
        await post.asleep()
        clock.advance(1)
        await post.asleep()
        assert await post.states() == ["sending"]
    async with post.open() as outbox:
        await outbox.flush(20)
    assert post.wire.doubts == [Doubt.RESTART]


async def test_what_surely_did_not_arrive_is_not_marked_after_a_restart(post: Post) -> None:
    post.wire.trouble = [DeliveryError("flood", retry_after=40.0)]
    async with post.open() as outbox:
        await outbox.promise(delivery("hi"))
        await post.asleep()
        assert await post.states() == ["pending"]
    async with post.open() as outbox:
        await outbox.flush(20)
    assert (post.wire.texts, post.wire.doubts) == (["hi"], [Doubt.NONE])


async def test_a_chat_gets_nothing_that_is_older_than_a_day(post: Post, clock: SteppedClock) -> None:
    async with post.open(wire=False) as outbox:
        await outbox.promise(delivery("yesterday"))
    clock.advance(GIVE_UP_SECONDS + 1)
    async with post.open() as outbox:
        await outbox.send(delivery("today"))
        assert await post.states() == ["failed", "sent"]
    assert post.wire.texts == ["today"]


async def test_a_caller_that_goes_away_does_not_take_its_delivery_along(post: Post) -> None:
    async with post.open() as outbox:
        sending = asyncio.ensure_future(outbox.send(delivery("hi")))
        await asyncio.sleep(0)
        sending.cancel()
        await post.wire.asked.wait()
        await outbox.flush(20)
    assert post.wire.texts == ["hi"]


async def test_a_caller_that_goes_away_leaves_no_error_behind(post: Post) -> None:
    post.wire.trouble = [DeliveryError("refused", permanent=True)]
    gate = post.wire.gates["hi"] = asyncio.Event()
    async with post.open() as outbox:
        sending = asyncio.ensure_future(outbox.send(delivery("hi")))
        await post.wire.asked.wait()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        gate.set()
        await outbox.flush(20)
    del outbox, sending
    gc.collect()  # `nothing_is_lost` hears of what was lost when it is collected


async def test_a_promise_that_the_disk_refuses_is_no_lost_error_when_its_caller_has_gone(
    post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    async with post.open() as outbox:
        post.database.write = refuse  # type: ignore[method-assign]  # as a full disk does
        promising = asyncio.ensure_future(outbox.promise(delivery("hi")))
        await asyncio.sleep(0)
        promising.cancel()
        await asyncio.gather(promising, return_exceptions=True)
        await outbox.flush(20)
        del post.database.write
    gc.collect()
    assert "promise id-hi failed" in caplog.text


async def refuse(*statements: BoundStatement, durable: bool = False) -> NoReturn:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    raise StateError("the disk is full")


async def test_receipts_are_forgotten_after_a_week(post: Post, clock: SteppedClock) -> None:
    async with post.open() as outbox:
        await outbox.send(delivery("hi"))
        clock.advance(KEEP_SECONDS + 1)
        await outbox.prune()
        assert await post.states() == []


async def test_a_channel_that_is_not_there_is_an_error_in_words(post: Post) -> None:
    async with post.open() as outbox:
        with pytest.raises(DeliveryError, match="no channel named pigeon"):
            await outbox.send(delivery("hi", channel="pigeon"))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"action": "react", "message_id": "1", "emoji": "x"}, "the channel wire cannot react to messages"),
        ({"action": "edit", "message_id": "1"}, "the channel wire cannot edit messages"),
        ({"action": "delete", "message_id": "1"}, "the channel wire cannot delete messages"),
        ({"media": "a" * 64}, "the channel wire cannot send files"),
    ],
)
async def test_what_a_channel_cannot_do_is_refused_in_words_and_never_promised(
    post: Post, wanted: dict[str, Any], words: str
) -> None:
    async with post.open() as outbox:
        with pytest.raises(DeliveryError, match=f"^{words}$") as caught:
            await outbox.send(replace(delivery("hi"), **wanted))
        assert caught.value.permanent and await post.states() == []
