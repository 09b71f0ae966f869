"""What the owner of a session shows, and what its next owner finds of it."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.channels.telegram import previews
from goclaw.channels.telegram.live_message_ids import LiveMessageIds
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import Address, TextStreamed, TurnStarted
from goclaw.common.core.fencing import Fence
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.errors import DiskError, DiskFault
from tests.acceptance.waiting import eventually, never
from tests.channels.support import RecordingGateway
from tests.channels.telegram.replicas import Replica, open_replica
from tests.fake_telegram.server import FakeTelegram

CHAT, SESSION, TURN = -100, "telegram:-100", "telegram:1"
SECONDS = 20.0


class Owners(dict[str, Fence]):
    """The fences of the processes that are sure to have the session."""

    async def add(self, replica: Replica) -> None:
        """Have a process take the session."""
        self[replica.schema.replica] = await replica.schema.acquire(SESSION)


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> Owners:
    found = Owners()

    def fence_of(self: PostgresOwnership, session: str) -> Fence | None:
        return found.get(self._database.replica) if session == SESSION else None

    def is_sure_of(self: PostgresOwnership, session: str) -> bool:
        return fence_of(self, session) is not None

    monkeypatch.setattr(PostgresOwnership, "fence_of", fence_of)
    monkeypatch.setattr(PostgresOwnership, "is_sure_of", is_sure_of)
    return found


async def begin(replica: Replica, text: str) -> None:
    """Let a turn begin in a group, where a message grows, and say something."""
    replica.telegram.world.meet(CHAT)
    await replica.gateway.publish(
        TurnStarted(TURN, SESSION, Address("telegram", str(CHAT))), TextStreamed(TURN, SESSION, text)
    )


def texts(telegram: FakeTelegram) -> list[str]:
    return [sent.text for sent in telegram.sent(CHAT)]


@pytest.mark.promise("P-telegram-live")
async def test_the_answer_of_the_next_owner_is_edited_into_the_preview_of_the_last_one(
    place: PostgresPlace, tmp_path: Path, owners: Owners
) -> None:
    first, second = RecordingGateway(), RecordingGateway()
    async with FakeTelegram() as telegram, open_replica(place, telegram, tmp_path / "two", second) as heir:
        async with open_replica(place, telegram, tmp_path / "one", first) as owner:
            await owners.add(owner)
            await begin(owner, "half of")
            await eventually(lambda: texts(telegram) == ["half of"], SECONDS)
        owners.clear()
        await owners.add(heir)
        for take in heir.processes.takes:
            await take(SESSION)
        await begin(heir, "half of it, and")
        await eventually(lambda: texts(telegram) == ["half of it, and"], SECONDS)
        await heir.send("half of it, and the rest", chat=CHAT, number="final", turn=TURN)
        assert texts(telegram) == ["half of it, and the rest"], "one message, and nothing of the last owner beside it"


async def test_a_process_that_is_not_the_owner_shows_nothing(
    place: PostgresPlace, tmp_path: Path, owners: Owners
) -> None:
    gateway = RecordingGateway()
    async with FakeTelegram() as telegram, open_replica(place, telegram, tmp_path / "one", gateway) as one:
        await begin(one, "words of a turn elsewhere")
        await never(lambda: texts(telegram) or telegram.called("sendChatAction"), 1.0)
        # One that loses the session in the middle shows no more of it.
        await owners.add(one)
        await begin(one, "mine")
        await eventually(lambda: texts(telegram) == ["mine"], SECONDS)
        owners.clear()
        await one.gateway.publish(TextStreamed(TURN, SESSION, " no more"))
        await never(lambda: texts(telegram) != ["mine"], 3.5)


@pytest.mark.promise("P-telegram-live")
@pytest.mark.parametrize(
    ("owner_of", "name"), [(previews, "render_off_loop"), (LiveMessageIds, "intend"), (aiohttp.TCPConnector, "connect")]
)
async def test_a_process_that_is_paused_right_before_it_shows_something_shows_it_no_more(
    place: PostgresPlace, tmp_path: Path, owners: Owners, monkeypatch: pytest.MonkeyPatch, owner_of: Any, name: str
) -> None:
    # The last waits before a request: a process that is paused there goes on when another one has answered.
    waited, seen = getattr(owner_of, name), asyncio.Event()

    async def paused(*arguments: Any) -> Any:
        found = await waited(*arguments)
        if name != "connect" or arguments[1].url.path.endswith("/sendMessage"):
            owners.clear()
            seen.set()
        return found

    gateway = RecordingGateway()
    async with FakeTelegram() as telegram, open_replica(place, telegram, tmp_path / "one", gateway) as one:
        await owners.add(one)
        monkeypatch.setattr(owner_of, name, paused)
        await begin(one, "what the next owner has answered")
        async with asyncio.timeout(SECONDS):
            await seen.wait()
        await never(lambda: texts(telegram), 1.0)


@pytest.mark.promise("P-repeat-marked")
async def test_what_could_not_be_remembered_is_not_shown_before_the_answer(
    place: PostgresPlace, tmp_path: Path, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.Event()

    async def away(*_: Any, **__: Any) -> None:
        refused.set()
        raise DiskError("Postgres cannot be reached", DiskFault.UNREACHABLE)

    gateway = RecordingGateway()
    async with FakeTelegram() as telegram, open_replica(place, telegram, tmp_path / "one", gateway) as one:
        await owners.add(one)
        with monkeypatch.context() as patched:
            patched.setattr(ChannelRows, "note_preview", away)
            await begin(one, "all of it")
            async with asyncio.timeout(SECONDS):
                await refused.wait()
            await never(lambda: texts(telegram), 0.5)
        await one.send("all of it", chat=CHAT, number="final", turn=TURN)
        assert texts(telegram) == ["all of it"]
