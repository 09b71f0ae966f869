"""Two daemons with one bot on one schema of Postgres: polled or called, killed or paused, none loses or doubles."""

import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from goclaw.channels.telegram.webhook import HEADER
from tests.acceptance.daemon import Installation, replicas_on
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Json
from tests.ports import free_port
from tests.postgres import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ANN = 5
PICTURES = (b"one!" * 100, b"two!" * 200, b"three!!!" * 300)
STALL_SECONDS = 4.0
WAIT_SECONDS = 60.0
POLLS = "polling"


@pytest.fixture
async def replicas(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> AsyncIterator[list[Installation]]:
    """Two installations with a state folder each and one workspace; no daemon runs yet."""
    users = {f"telegram:{ANN}": {"name": "Ann"}}
    async with replicas_on(server.url, folder, telegram, model.url, ("one", "two"), users) as made:
        yield made


def answers(telegram: FakeTelegram) -> list[str]:
    return [sent.text for sent in telegram.sent(ANN) if "(end)" in sent.text]


def named(telegram: FakeTelegram, name: str) -> list[str]:
    return [said for said in answers(telegram) if name in said]


def are_each_answered_once(telegram: FakeTelegram, count: int) -> None:
    """Each of m1, m2, … has one answer; another one says that it may be there already (P-repeat-marked)."""
    for number in range(1, count + 1):
        said = named(telegram, f"m{number} ")
        assert said and said.count(f"answer m{number} (end)") <= 1, answers(telegram)
        assert all(text.startswith("(sent again") for text in said if text != f"answer m{number} (end)"), said


async def poller(replicas: list[Installation]) -> Installation:
    """The one that polls, as its status says."""
    for home in replicas:
        if home.process is not None and POLLS in (await home.run("status", seconds=60)).out:
            return home
    raise AssertionError([(await home.run("status", seconds=60)).out for home in replicas])


@pytest.mark.long
@pytest.mark.promise("P-telegram-replicas")
async def test_when_the_one_that_polls_is_killed_or_paused_the_other_one_polls(
    replicas: list[Installation], telegram: FakeTelegram
) -> None:
    await replicas[0].start(telegram)
    await replicas[1].start()
    await telegram.world.say("m1 plain", user=ANN)
    await eventually(lambda: named(telegram, "m1"), WAIT_SECONDS)
    killed = await poller(replicas)
    assert killed is replicas[0]
    await killed.kill()
    at = clock.monotonic()
    await telegram.world.say("m2 plain", user=ANN)
    await eventually(lambda: named(telegram, "m2"), WAIT_SECONDS)
    assert clock.monotonic() - at < STALL_SECONDS + 10
    await killed.start()
    # It is paused, not dead: it goes on polling when it wakes, until it sees that it has lost the duty.
    paused = replicas[1]
    assert paused.process is not None
    paused.process.send_signal(signal.SIGSTOP)
    await telegram.world.say("m3 plain", user=ANN)
    await eventually(lambda: named(telegram, "m3"), WAIT_SECONDS)
    await telegram.world.say("m4 plain", user=ANN)
    paused.process.send_signal(signal.SIGCONT)
    await telegram.world.say("m5 plain", user=ANN)
    await eventually(lambda: named(telegram, "m4") and named(telegram, "m5"), WAIT_SECONDS)
    await eventually(lambda: not telegram.world.updates, WAIT_SECONDS)
    are_each_answered_once(telegram, 5)
    for home in replicas:
        assert await home.stop() == 0


class Called:
    """The daemons as Telegram calls them; no call goes to one that does not run."""

    def __init__(self, replicas: list[Installation], ports: list[int]) -> None:
        self.replicas = replicas
        self.ports = ports

    async def post(self, telegram: FakeTelegram, update: Json, to: int) -> None:
        """Call one of them with an update until it takes it, and forget the update then."""
        secret = telegram.called("setWebhook")[-1]["secret_token"]
        async with aiohttp.ClientSession() as session:

            async def taken() -> bool:
                url = f"http://127.0.0.1:{self.ports[to]}/hook"
                async with session.post(url, json=update, headers={HEADER: secret}) as response:
                    assert response.status in (200, 503), "each has the secret of all"
                    return response.status == 200

            for _ in range(100):
                if await taken():
                    return
                await clock.sleep(0.1)
            raise AssertionError("it does not take updates")


@pytest.fixture
def called(replicas: list[Installation]) -> Called:
    """The daemons, set to be called; Telegram knows the address of a proxy that is not there."""
    ports = [free_port() for _ in replicas]
    for home, port in zip(replicas, ports, strict=True):
        home.config["http"] = {"port": port}
        home.config["telegram"] |= {"mode": "webhook", "webhook": {"url": "http://127.0.0.1:9/hook"}}
        home.write_config()
    return Called(replicas, ports)


@pytest.mark.long
@pytest.mark.promise("P-telegram-replicas")
async def test_updates_that_alternate_between_two_daemons_are_one_conversation_and_an_album_one_turn(
    called: Called, telegram: FakeTelegram, model: EchoModel
) -> None:
    for home in called.replicas:
        home.config["replica"] = {"stall_seconds": WAIT_SECONDS}  # one that is held up keeps its duties
        home.write_config()
        await home.start()
    await telegram.wait_called("setWebhook")
    for number in range(1, 5):
        await called.post(telegram, await telegram.world.say(f"m{number} plain", user=ANN), number % 2)
        await eventually(partial(named, telegram, f"m{number}"), WAIT_SECONDS)
    album = await telegram.world.album(*PICTURES, text="m5 plain")
    for place, update in enumerate(album):
        await called.post(telegram, update, place % 2)
    await eventually(lambda: named(telegram, "m5"), WAIT_SECONDS)
    are_each_answered_once(telegram, 5)
    assert len(telegram.called("setWebhook")) == 1, "one registers"
    # Repeated calls to the other one change nothing.
    for place, update in enumerate(album):
        await called.post(telegram, update, (place + 1) % 2)
    await called.post(telegram, await telegram.world.say("m6 plain", user=ANN), 0)
    await eventually(lambda: named(telegram, "m6"), WAIT_SECONDS)
    are_each_answered_once(telegram, 6)
    for home in called.replicas:
        assert await home.stop() == 0


@pytest.mark.long
@pytest.mark.promise("P-telegram-replicas")
async def test_of_an_album_whose_last_taker_is_killed_at_once_nothing_is_lost(
    called: Called, telegram: FakeTelegram, server: Server
) -> None:
    for home in called.replicas:
        await home.start()
    await telegram.wait_called("setWebhook")
    album = await telegram.world.album(*PICTURES, text="m1 plain")
    await called.post(telegram, album[0], 0)
    await called.post(telegram, album[1], 1)
    await called.post(telegram, album[2], 1)
    for home in called.replicas:
        await home.kill()
    await called.replicas[0].start()
    await eventually(lambda: named(telegram, "m1"), WAIT_SECONDS)
    are_each_answered_once(telegram, 1)
    assert await called.replicas[0].stop() == 0
