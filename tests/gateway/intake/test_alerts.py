"""Alerts: an administrator hears of each fault once, over restarts too, and never of the alerts' own troubles."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.channels.base import Channel
from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import AlertSettings
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Notice
from goclaw.common.core.redact import remember
from goclaw.common.core.supervise import background
from goclaw.durable.engine.outbox import Outbox, open_outbox
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from goclaw.durable.store.settings import Settings
from goclaw.errors import DeliveryError
from goclaw.gateway.intake.alerts import (
    AGAIN_SECONDS,
    FACT,
    GATHER_SECONDS,
    MAX_ALERTS,
    MAX_CHARACTERS,
    REMIND_SECONDS,
    SETTLE_SECONDS,
    AlertDesk,
)
from tests.parts import Mortal

ANN = User("telegram:5", "Ann", frozenset({"admin"}))
BEA = User("telegram:6", "Bea", frozenset({"user"}))
CAT = User("telegram:7", "Cat", frozenset({"admin"}))


@dataclass
class Office:
    """What outlives a run of the desk."""

    folder: Path
    to: str | None = None
    notify: tuple[str, ...] = ()
    users: Sequence[User] = (ANN,)
    channels: Sequence[str] = ("telegram",)
    clock: SteppedClock = field(default_factory=SteppedClock)
    room: Room = field(default_factory=Room)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Desk"]:
        """A run of the daemon, as far as alerts are concerned."""
        async with open_database(self.folder / "goclaw.db") as inner, asyncio.timeout(20):
            database, bus = Mortal(inner, None, None), Bus(self.clock)
            channels = {name: MemoryChannel(self.room, self.clock) for name in self.channels}
            async with open_outbox(database, channels, self.clock) as outbox:
                await outbox.resume()
                desk = AlertDesk(
                    AlertSettings(to=self.to, notify=self.notify),
                    Users(self.users),
                    bus,
                    Settings(database),
                    self.clock,
                )
                async with AsyncExitStack() as stack:

                    async def run() -> None:
                        await stack.aclose()
                        await stack.enter_async_context(background(desk.run(outbox, channels), "alerts"))

                    await run()
                    yield Desk(desk, inner, database, bus, self, run, outbox, channels)


@dataclass
class Desk:
    """A desk that is open."""

    alerts: AlertDesk
    disk: Database
    database: Mortal
    """The same, as the desk sees it."""
    bus: Bus
    office: Office
    restart: Callable[[], Awaitable[None]]
    """As whoever keeps it running does when it fails."""
    outbox: Outbox
    channels: Mapping[str, Channel]

    async def heard(self) -> str:
        """The next message that arrives."""
        return (await self.office.room.heard()).delivery.text

    async def passes(self, seconds: float, step: float = GATHER_SECONDS) -> None:
        """Time goes by, in steps that whoever waits in between can see."""
        clock, left = self.office.clock, seconds
        while left > 0:
            await self.settles()
            step = min(left, step)
            clock.advance(step)
            left -= step
        await self.settles()

    async def settles(self) -> None:
        """Let everything go on that can, what happens in the database's two threads too."""
        for _ in range(10):
            await self.disk.drain()
            await Settings(self.disk).fact(FACT)
            for _ in range(20):
                await asyncio.sleep(0)

    def texts(self) -> list[str]:
        return [heard.delivery.text for heard in self.office.room.all]


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@pytest.mark.promise("P-alert-once")
async def test_a_fault_is_told_once_however_often_it_is_reported(office: Office) -> None:
    async with office.open() as desk:
        for _ in range(100):
            desk.alerts.tell("disk", "the disk is full")
        assert await desk.heard() == "⚠ GoClaw needs you: the disk is full"
        for _ in range(10):
            desk.alerts.tell("disk", "the disk is fuller")
            await desk.passes(GATHER_SECONDS)
        assert len(desk.texts()) == 1
        assert desk.alerts.open() == {"disk": "the disk is fuller"}


@pytest.mark.promise("P-alert-once")
async def test_a_fault_that_was_over_and_came_back_is_told_again(office: Office) -> None:
    async with office.open() as desk:
        desk.alerts.tell("disk", "the disk is full")
        await desk.heard()
        desk.alerts.clear("disk")
        assert desk.alerts.open() == {}
        await desk.passes(SETTLE_SECONDS + GATHER_SECONDS)
        desk.alerts.tell("disk", "full again")
        assert await desk.heard() == "⚠ GoClaw needs you: full again"


async def test_a_fault_that_comes_and_goes_is_one_fault(office: Office) -> None:
    async with office.open() as desk:
        for _ in range(20):
            desk.alerts.tell("webhook", "no answer")
            await desk.passes(GATHER_SECONDS)
            desk.alerts.clear("webhook")
            await desk.passes(GATHER_SECONDS)
        assert len(desk.texts()) == 1


@pytest.mark.promise("P-alert-once")
async def test_a_fault_that_lasts_is_told_again_after_a_day(office: Office) -> None:
    async with office.open() as desk:
        desk.alerts.tell("disk", "the disk is full")
        await desk.heard()
        await desk.passes(AGAIN_SECONDS - REMIND_SECONDS, REMIND_SECONDS)
        assert len(desk.texts()) == 1
        await desk.passes(2 * REMIND_SECONDS, REMIND_SECONDS)
        await desk.heard()


@pytest.mark.promise("P-alert-once")
async def test_a_restart_tells_nothing_twice(office: Office) -> None:
    async with office.open() as desk:
        desk.alerts.tell("disk", "the disk is full")
        await desk.heard()
    async with office.open() as desk:
        desk.alerts.tell("disk", "the disk is full")
        await desk.passes(2 * GATHER_SECONDS)
        assert len(desk.texts()) == 1
        assert desk.alerts.open() == {"disk": "the disk is full"}


@pytest.mark.promise("P-alert-once")
async def test_a_fault_that_ended_before_a_restart_is_new_when_it_comes_back(office: Office) -> None:
    async with office.open() as desk:
        desk.alerts.tell("disk", "the disk is full")
        await desk.heard()
        desk.alerts.clear("disk")
        await desk.passes(GATHER_SECONDS)
    office.clock.advance(SETTLE_SECONDS)
    async with office.open() as desk:
        desk.alerts.tell("disk", "the disk is full")
        await desk.heard()


async def test_a_fault_that_ended_while_nobody_looked_is_new_when_it_comes_back(office: Office) -> None:
    async with office.open() as desk:
        desk.alerts.tell("token", "the token is refused")
        await desk.heard()
    async with office.open() as desk:
        desk.alerts.clear("token")  # the first thing that this run says of it: it works
        await desk.passes(SETTLE_SECONDS + GATHER_SECONDS)
        desk.alerts.tell("token", "the token is refused")
        await desk.heard()


async def test_what_fails_together_is_told_together(office: Office) -> None:
    async with office.open() as desk:
        desk.alerts.tell("first", "one")
        await desk.heard()
        for number in range(MAX_ALERTS + 3):
            desk.alerts.tell(f"more {number}", f"fault {number}")
        await desk.settles()
        assert len(desk.texts()) == 1, "not yet: the chat is not flooded"
        await desk.passes(GATHER_SECONDS)
        text = await desk.heard()
        assert "- fault 0\n" in text and "and 3 more" in text


async def test_the_configured_chat_hears_it_with_its_topic(office: Office) -> None:
    office.to = "telegram:-100:9"
    async with office.open() as desk:
        desk.alerts.tell("disk", "full")
        address = (await office.room.heard()).delivery.address
        assert (address.channel, address.chat, address.thread) == ("telegram", "-100", "9")


async def test_targets_of_notify_hear_it_besides(office: Office) -> None:
    office.notify, office.channels = ("ops", "pager"), ("telegram", "notify")
    async with office.open() as desk:
        desk.alerts.tell("disk", "full")
        heard = [(await office.room.heard()).delivery.address for _ in range(3)]
        assert {(each.channel, each.chat) for each in heard} == {
            ("telegram", "5"),
            ("notify", "ops"),
            ("notify", "pager"),
        }


async def test_a_target_hears_of_a_full_disk_too(office: Office) -> None:
    office.notify, office.channels, office.users = ("ops",), ("notify",), ()
    async with office.open() as desk:
        await desk.settles()
        desk.database.full = True
        desk.alerts.tell("disk", "the disk is full")
        assert "the disk is full" in await desk.heard()


async def test_without_one_the_first_admin_hears_it_and_no_other_user(office: Office) -> None:
    office.users = (BEA, User("tui:owner", roles=frozenset({"admin"})), CAT, ANN)
    async with office.open() as desk:
        desk.alerts.tell("disk", "full")
        assert (await office.room.heard()).delivery.address.chat == "7"
        assert len(desk.texts()) == 1


async def test_the_next_admin_hears_it_when_the_first_never_wrote_to_the_bot(office: Office) -> None:
    office.users = (ANN, CAT)
    office.room.failures.append(DeliveryError("Forbidden: bot can't initiate conversation with a user", permanent=True))
    async with office.open() as desk:
        desk.alerts.tell("disk", "full")
        assert (await office.room.heard()).delivery.address.chat == "7"


async def test_its_own_failures_are_no_faults(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sees that the admin blocked the bot reports that, too; nothing must go round in a circle."""
    async with office.open() as desk:
        office.room.failures.extend(DeliveryError("blocked", permanent=True) for _ in range(50))
        for _ in range(20):
            desk.alerts.tell("blocked:5", "Ann blocked the bot")
            await desk.passes(GATHER_SECONDS)
        assert len(office.room.failures) == 49, "tried once"
        assert "no administrator could be notified" in caplog.text


async def test_whoever_watches_a_session_sees_it_too(office: Office) -> None:
    office.users = ()
    async with office.open() as desk, desk.bus.subscribe("tui:me") as events:
        desk.alerts.tell("disk", "the disk is full")
        notice = await anext(events)
        assert isinstance(notice, Notice) and "the disk is full" in notice.text


async def test_a_chat_that_cannot_be_reached_now_keeps_no_other_fault_back(office: Office) -> None:
    async with office.open() as desk, desk.bus.subscribe("tui:me") as events:
        office.room.failures.extend(DeliveryError("no network") for _ in range(50))
        for fault in ("Telegram is away", "the disk is full"):
            desk.alerts.tell(fault, fault)
            await desk.passes(2 * GATHER_SECONDS)
            notice = await anext(events)
            assert isinstance(notice, Notice) and fault in notice.text
        office.room.failures.clear()
        await desk.passes(2 * GATHER_SECONDS)
        assert len(desk.texts()) == 2


async def test_a_channel_that_is_off_is_not_waited_for(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    office.channels = ()
    async with office.open() as desk:
        desk.alerts.tell("disk", "full")
        await desk.passes(GATHER_SECONDS)
        assert "no administrator could be notified" in caplog.text


async def test_a_full_disk_is_told_although_nothing_can_be_written(office: Office) -> None:
    async with office.open() as desk:
        await desk.settles()
        desk.database.full = True
        desk.alerts.tell("disk", "the disk is full")
        assert "the disk is full" in await desk.heard()
        await desk.passes(10 * GATHER_SECONDS)
        assert len(desk.texts()) == 1


async def test_a_desk_that_failed_and_runs_again_remembers_what_it_told(office: Office) -> None:
    async with office.open() as desk:
        await desk.settles()
        desk.database.full = True
        desk.alerts.tell("disk", "the disk is full")
        await desk.heard()
        desk.database.full = False
        await desk.restart()
        desk.alerts.clear("nothing")
        await desk.passes(2 * GATHER_SECONDS)
        desk.alerts.tell("other", "another fault")
        assert await desk.heard() == "⚠ GoClaw needs you: another fault"


async def test_secrets_and_endless_texts_do_not_get_out(office: Office) -> None:
    remember("canary-5ecret-of-alerts")
    async with office.open() as desk:
        desk.alerts.tell("a", "refused: canary-5ecret-of-alerts\x1b[2J\n" + "x" * 10_000)
        text = await desk.heard()
        assert "canary" not in text and "\x1b" not in text and len(text) < MAX_CHARACTERS + 100
        assert "canary" not in str(desk.alerts.open())


async def test_faults_without_end_take_no_memory_without_end(office: Office) -> None:
    async with office.open() as desk:
        for number in range(5_000):
            desk.alerts.tell(f"blocked:{number}", "somebody blocked the bot")
        assert len(desk.alerts.open()) == 500


@pytest.mark.promise("P-upgrade")
async def test_what_is_no_fault_is_told_once_as_it_is_and_noted_with_that(office: Office) -> None:
    async with office.open() as desk:
        await desk.alerts.notify_once("GoClaw 2 runs now.", "version", "2", desk.outbox, desk.channels)
        assert desk.texts() == ["GoClaw 2 runs now."]
        assert await Settings(desk.disk).fact("version") == "2"
        assert desk.alerts.open() == {}


async def test_without_an_administrator_it_is_noted_all_the_same(tmp_path: Path) -> None:
    async with Office(tmp_path, users=(BEA,)).open() as desk:
        await desk.alerts.notify_once("GoClaw 2 runs now.", "version", "2", desk.outbox, desk.channels)
        assert desk.texts() == [] and await Settings(desk.disk).fact("version") == "2"
