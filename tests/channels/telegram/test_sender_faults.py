"""Every fault at every call: each message arrives exactly once, or once more with the mark."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import Doubt
from goclaw.channels.telegram import request
from goclaw.channels.telegram.sender import NOTES
from goclaw.common.core.events import Delivery
from goclaw.durable.engine.outbox import Outbox, open_outbox
from goclaw.durable.store.open import open_database
from tests.channels.telegram.support import HastyClock, Stage, delivery, open_stage
from tests.together import together

SILENCE, RESTART = NOTES[Doubt.SILENCE], NOTES[Doubt.RESTART]
TWO_PARTS = "first " * 600 + "\n\n" + "second " * 500
MANY_PARTS = "\n\n".join(f"{number} " + "word " * 700 for number in range(8))

FAULTS: dict[str, dict[str, Any]] = {
    "network loss before": {"cut": "before"},
    "network loss after": {"cut": "after"},
    "bad gateway page": {"body": b"<html>502 Bad Gateway</html>"},
    "502": {"status": 502, "description": "Bad Gateway"},
    "429": {"status": 429, "description": "Too Many Requests", "retry_after": 3},
    "malformed": {"body": b'{"ok": true, "result": {'},
    "not an object": {"body": b"[]"},
    "time-out": {"gate": True},
}
LANDED = {"network loss after", "bad gateway page", "malformed", "not an object"}
"""The call had its effect, and the bot cannot know."""
UNKNOWN = LANDED | {"network loss before", "time-out"}
"""The bot cannot know whether it had."""


@dataclass
class Site:
    """A call of the Bot API, and what people should see."""

    method: str
    delivery: Callable[[str], Delivery]
    """For the id of a message of the bot's."""
    seen: list[str]
    uncertain: int | None = None
    """The message that comes again, marked, where it may have arrived; None: repeating the call is harmless."""
    after: int = 0
    """Calls of the method that go well first."""


SITES = {
    "first part": Site("sendMessage", lambda own: delivery("hello"), ["own", "hello"], 1),
    "later part": Site("sendMessage", lambda own: delivery(TWO_PARTS), ["own", "first ", "second "], 2, after=1),
    "edit": Site("editMessageText", lambda own: delivery("new", action="edit", message_id=own), ["new"]),
    "document": Site("sendDocument", lambda own: delivery("x", media="a", media_name="a.txt"), ["own", "x"], 1),
    "photo": Site("sendPhoto", lambda own: delivery("x", media="a", media_name="a.png"), ["own", "x"], 1),
    "whole as document": Site("sendDocument", lambda own: delivery(MANY_PARTS), ["own", "0 word", ""], 2),
    "reaction": Site(
        "setMessageReaction", lambda own: delivery("", action="react", message_id=own, emoji="👍"), ["own"]
    ),
    "delete": Site("deleteMessage", lambda own: delivery("", action="delete", message_id=own), []),
    "buttons": Site("editMessageReplyMarkup", lambda own: delivery("", action="edit", message_id=own), ["own"]),
}


@asynccontextmanager
async def open_post(folder: Path, stage: Stage, clock: HastyClock) -> AsyncIterator[Outbox]:
    """The outbox before the real channel."""
    async with (
        open_database(folder / "a.db") as database,
        open_outbox(database, {"telegram": stage.channel}, clock) as outbox,
        asyncio.timeout(20),
    ):
        await outbox.resume()
        yield outbox


def expected(site: Site, fault: str) -> list[str]:
    """What the chat shows in the end: beginnings of messages."""
    seen = list(site.seen)
    if site.uncertain is not None and fault in UNKNOWN:
        again = seen[site.uncertain]
        # A file has no room for the mark in it.
        marked = [SILENCE.strip(), again] if site.method != "sendMessage" else [f"{SILENCE}{again}"]
        seen[site.uncertain :] = [*([again] if fault in LANDED else []), *marked]
    return seen


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_at_every_call_ends_well(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "time-out":
        for name in ("ANSWER_SECONDS", "UPLOAD_SECONDS"):
            monkeypatch.setattr(request, name, 1.0)

    async def attempt(place: str) -> None:
        folder = tmp_path / place
        await asyncio.to_thread(folder.mkdir)
        await ends_well(fault, place, folder)

    await together(attempt, {place: place for place in SITES}, at_once=len(SITES))


async def ends_well(fault: str, place: str, folder: Path) -> None:
    """Send what meets the fault, and look at what people see of it."""
    site, clock, gate = SITES[place], HastyClock(), asyncio.Event()
    async with open_stage(running=False, clock=clock) as stage, open_post(folder, stage, clock) as outbox:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = b"bytes"
        own = await outbox.send(delivery("own", number="own"))
        wrong = FAULTS[fault] | ({"gate": gate} if "gate" in FAULTS[fault] else {})
        if site.after:
            opened = asyncio.Event()
            opened.set()
            stage.telegram.fail(site.method, gate=opened, times=site.after)
        stage.telegram.fail(site.method, **wrong)
        await outbox.send(site.delivery(own.message_id))
        texts = [sent.text for sent in stage.telegram.sent(5)]
        beginnings = expected(site, fault)
        assert len(texts) == len(beginnings), texts
        for text, beginning in zip(texts, beginnings, strict=True):
            assert text.startswith(beginning) and (not beginning.startswith("(") or text[0] == "(")
        if place == "reaction":
            assert stage.telegram.sent(5)[0].reactions == ("👍",)
        gate.set()


@pytest.mark.promise("P-answered-once")
async def test_after_a_kill_a_long_answer_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    """The next daemon gets the row and nothing else."""
    clock = HastyClock()
    async with open_stage(running=False, clock=clock) as stage:
        stage.telegram.world.meet(5)
        text = "\n\n".join(f"part{number} " + "word " * 700 for number in range(4))
        opened = asyncio.Event()
        opened.set()
        stage.telegram.fail("sendMessage", gate=opened)
        held = asyncio.Event()
        stage.telegram.fail("sendMessage", gate=held)
        async with open_post(tmp_path, stage, clock) as outbox:
            await outbox.promise(delivery(text))
            await stage.telegram.wait_called("sendMessage", 2)
        async with open_post(tmp_path, stage, clock) as outbox:
            await outbox.flush(20)
        seen = stage.texts()
        assert [message.split()[0] for message in seen] == ["part0", "(sent", "part2", "part3"]
        assert seen[1].startswith(f"{RESTART}part1")
        assert sum(message.count("word") for message in seen) == 2800
        held.set()


async def test_a_kill_while_the_chats_pace_is_waited_for_marks_nothing(tmp_path: Path) -> None:
    class Still(HastyClock):
        async def sleep(self, seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

    waiting, clock = asyncio.Event(), HastyClock()
    async with open_stage(running=False, clock=Still(), chat_messages_per_second=0.001, burst=1) as slow:
        slow.telegram.world.meet(5)
        await slow.deliver("before", number="before")
        async with open_post(tmp_path, slow, clock) as outbox:
            await outbox.promise(delivery("hi"))
            await waiting.wait()
        async with (
            open_stage(running=False, telegram=slow.telegram) as quick,
            open_post(tmp_path, quick, clock) as outbox,
        ):
            await outbox.flush(20)
        assert quick.texts() == ["before", "hi"]


async def test_what_is_meant_for_a_topic_that_is_gone_goes_to_the_chat() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.telegram.fail("sendMessage", status=400, description="Bad Request: message thread not found")
        await stage.deliver("an **answer**", thread="7")
        assert [(sent.text, sent.thread) for sent in stage.telegram.sent(5)] == [("an answer", None)]
        assert [call.get("message_thread_id") for call in stage.telegram.called("sendMessage")] == [7, None]
        await stage.deliver("more", number="more", thread="8")
        assert [(sent.text, sent.thread) for sent in stage.telegram.sent(5)][1:] == [("more", 8)]


FORUM = -1_001_234_567_890
LINKED = "(The topic of this message is closed: https://t.me/c/1234567890/7)"


async def test_what_is_meant_for_a_closed_topic_goes_to_general_and_names_it() -> None:
    async with open_stage(running=False) as stage:
        world = stage.telegram.world
        asked = (await world.say("@claw_bot go", chat=FORUM, topic=7))["message"]["message_id"]
        await world.close_topic(FORUM, 7)
        await stage.deliver("an **answer**", chat=FORUM, thread="7", reply_to=str(asked))
        stage.blobs["a"] = b"bytes"
        await stage.deliver("", chat=FORUM, number="d2", thread="7", media="a", media_name="a.png")
        await stage.deliver("open", chat=FORUM, number="d3", thread="8")
        assert [(sent.text, sent.file, sent.thread, sent.reply_to) for sent in stage.telegram.sent(FORUM)] == [
            (f"{LINKED}\n\nan answer", None, None, None),
            (LINKED, None, None, None),
            ("", b"bytes", None, None),
            ("open", None, 8, None),
        ]
        assert stage.telegram.sent(FORUM)[0].entities[0]["type"] == "bold"
        assert len(stage.telegram.called("sendPhoto")) == 2 and not stage.telegram.called("sendDocument")
