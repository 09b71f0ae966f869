"""A message that joins a running turn: what was sent is answered by that turn, and nobody waits for another answer."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from goclaw.clients.tui.plain import converse
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import LOCAL, Acceptance, Address, Inbound, MessageStored, TurnStarted
from goclaw.common.core.messages import UserMessage
from goclaw.gateway.servers.socket_file import open_socket
from goclaw.program.cli import send
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(send, "listens_soon", AsyncMock(return_value=True))
    return Config(state_dir=tmp_path)


class Daemon(FakeGateway):
    """Says what arrives."""

    def __init__(self) -> None:
        super().__init__(SteppedClock())
        self.arrivals: asyncio.Queue[Inbound] = asyncio.Queue()

    async def accept(self, inbound: Inbound) -> Acceptance:
        self.arrivals.put_nowait(inbound)
        return await super().accept(inbound)


@pytest.fixture
async def daemon(config: Config) -> AsyncIterator[Daemon]:
    gateway = Daemon()
    async with open_socket(config.socket_path, gateway, SteppedClock(), lambda: "Model: scripted."):
        yield gateway


def join(daemon: Daemon, inbound: Inbound, turn: str) -> None:
    """The message joins a turn."""
    row = len(daemon.rows) + 1
    stored = MessageStored(turn, SESSION, row, UserMessage(inbound.text), 0.0, inbound.actor.key, joined=inbound.id)
    daemon.rows.append(stored)
    daemon.bus.publish(stored)


async def test_send_prints_the_answer_of_the_turn_that_its_message_joined(daemon: Daemon, config: Config) -> None:
    daemon.begin("t1", "a long task")
    async with asyncio.timeout(PATIENCE):
        sending = asyncio.ensure_future(send.send_and_wait(config, "and this", SESSION))
        join(daemon, await daemon.arrivals.get(), "t1")
        daemon.answer("t1", "Both are done.")
        assert await sending == ("Both are done.", True)


async def test_a_conversation_in_lines_ends_with_the_last_answer(daemon: Daemon, config: Config) -> None:
    written = io.StringIO()
    async with asyncio.timeout(PATIENCE):
        talking = asyncio.ensure_future(
            converse(config.socket_path, SESSION, io.StringIO("one\ntwo\nthree\n"), written)
        )
        first, second, third = [await daemon.arrivals.get() for _ in range(3)]
        daemon.bus.publish(TurnStarted(first.id, SESSION, Address(LOCAL, SESSION)))
        daemon.tell(first.id, UserMessage(first.text))
        join(daemon, second, first.id)
        daemon.answer(first.id, "One and two.")
        daemon.begin(third.id, third.text)
        daemon.answer(third.id, "Three.")
        await talking
    assert "One and two." in written.getvalue() and "Three." in written.getvalue()
