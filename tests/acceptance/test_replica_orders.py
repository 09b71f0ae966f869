"""Two daemons: a program orders something of the one that has no part in the conversation."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel
from tests.acceptance.test_replicas import named, owner_of
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.ports import free_port
from tests.postgres import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.promise("P-any-replica")]

SESSION = "telegram:5"
WAIT_SECONDS = 60.0
ORDER_SECONDS = 10.0


@dataclass
class Program:
    """A program of Ann's at one daemon."""

    home: Installation
    http: aiohttp.ClientSession
    seconds: float = 0.0
    """What the last call took."""

    async def call(self, path: str, **body: object) -> Mapping[str, Any]:
        began = clock.monotonic()
        url = f"http://127.0.0.1:{self.home.config['http']['port']}/api/v1{path}"
        async with self.http.post(url, json=body) as response:
            answer: Mapping[str, Any] = await response.json()
            assert response.status in (200, 202), (response.status, answer)
        self.seconds = clock.monotonic() - began
        return answer

    async def stop(self) -> Mapping[str, Any]:
        return await self.call(f"/sessions/{SESSION}/stop")

    async def say(self, name: str, text: str) -> Mapping[str, Any]:
        return await self.call(f"/sessions/{SESSION}/messages", id=name, text=text)


@pytest.fixture
async def programs(
    folder: Path, telegram: FakeTelegram, model: EchoModel, server: Server
) -> AsyncIterator[list[Program]]:
    """Two daemons that run, and a program at each."""
    async with AsyncExitStack() as stack:
        made = list[Program]()
        for name in ("one", "two"):
            http = {"port": free_port(), "api": True}
            place: dict[str, Any] = {"store": server.url, "workspace": str(folder / "work"), "http": http}
            home = await stack.enter_async_context(installation(folder / name, telegram, model.url, **place))
            home.write_users({SESSION: {"name": "Ann", "roles": ["admin"]}})
            await home.start()
            token = await home.run("token", "add", name, "--user", SESSION)
            headers = {"Authorization": f"Bearer {token.out.strip()}"}
            made.append(Program(home, await stack.enter_async_context(aiohttp.ClientSession(headers=headers))))
        yield made


async def begun(
    programs: list[Program], telegram: FakeTelegram, model: EchoModel, server: Server, name: str
) -> tuple[Program, Program]:
    """Have a turn begun that does not end by itself; returns the program at its owner, and the other one."""
    gate = model.gate(f"{name} ", streamed=0)
    await telegram.world.say(f"{name} plain", user=5)
    await eventually(gate.reached.is_set, WAIT_SECONDS)
    owner = owner_of(server, [each.home for each in programs])
    [here], [there] = ([each for each in programs if (each.home is owner) is is_owner] for is_owner in (True, False))
    return here, there


@pytest.mark.long
async def test_a_program_at_another_daemon_stops_a_turn_and_clears_the_conversation_before_the_next(
    programs: list[Program], telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    here, _ = await begun(programs, telegram, model, server, "m1")
    stopped = await here.stop()
    assert stopped["turn"] and stopped["text"].startswith("Stop")
    _, there = await begun(programs, telegram, model, server, "m2")
    stopped = await there.stop()
    assert stopped["turn"] and stopped["text"].startswith("Stop")
    assert there.seconds < here.seconds + ORDER_SECONDS / 2, "generous: a busy machine runs this"
    assert (await there.say("c", "/clear"))["text"].startswith("Conversation cleared.")
    await telegram.world.say("m3 plain", user=5)
    await eventually(lambda: named(telegram, "m3"), WAIT_SECONDS)
    assert "m2 plain" not in str(model.requests[-1]["messages"])
    assert not named(telegram, "m1") and not named(telegram, "m2")


@pytest.mark.long
async def test_an_order_whose_daemon_is_killed_before_it_replies_is_done_by_the_next_one(
    programs: list[Program], telegram: FakeTelegram, model: EchoModel, server: Server
) -> None:
    here, there = await begun(programs, telegram, model, server, "m1")
    assert here.home.process is not None
    here.home.process.send_signal(signal.SIGSTOP)  # it has the order, and will never look at it
    asking = asyncio.create_task(there.stop())
    await clock.sleep(0.5)
    await here.home.kill()
    stopped = await asking
    assert stopped["text"].startswith("Stop"), stopped
    assert there.seconds < ORDER_SECONDS + 1
    await telegram.world.say("m2 plain", user=5)
    await eventually(lambda: named(telegram, "m2"), WAIT_SECONDS)
    # To a local server what a person said in a row goes as one message: the model still sees m1.
    assert named(telegram, "m1") == ["answer m1 m2 (end)"]
