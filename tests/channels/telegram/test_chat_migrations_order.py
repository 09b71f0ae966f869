"""What several people say in a group is taken in the order in which they said it, also right after a start."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.channel_state import ChannelRows
from tests.channels.support import RecordingGateway
from tests.channels.telegram.replicas import open_replica
from tests.channels.telegram.support import GROUPS
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import BOT_NAME

STEPS = 200
"""Rounds of the event loop that the store's first answer takes longer than the next ones."""


async def test_messages_of_one_poll_keep_their_order_though_the_store_answers_in_another(
    place: PostgresPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = ChannelRows.fact, list[str]()

    async def slow_at_first(self: ChannelRows, name: str) -> object:
        looks.append(name)
        if len(looks) == 1:
            for _ in range(STEPS):
                await asyncio.sleep(0)
        return await look(self, name)

    monkeypatch.setattr(ChannelRows, "fact", slow_at_first)
    gateway = RecordingGateway()
    async with FakeTelegram() as telegram:
        for number in range(6):
            await telegram.world.say(f"{BOT_NAME} m{number}", user=5 + number % 2, chat=min(GROUPS))
        async with open_replica(place, telegram, tmp_path / "one", gateway):
            taken = await gateway.wait_accepted(6)
    assert [each.text[-2:] for each in taken] == [f"m{number}" for number in range(6)]
