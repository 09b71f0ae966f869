"""The webhook: who may call, when a call is acknowledged, and what Telegram and the operator are told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.channels.base import Channel, ChannelPorts, Routes
from goclaw.channels.telegram.media_groups import QUIET_SECONDS
from goclaw.channels.telegram.poll_lock import only_poller
from goclaw.channels.telegram.webhook import ALERT, HEADER, LOOK_SECONDS, load_secret
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock, RealClock, SteppedClock
from goclaw.common.core.supervise import background
from goclaw.common.health.readiness import Readiness
from goclaw.errors import StateError
from goclaw.gateway.servers.http import open_http
from tests.channels.support import RecordingGateway, open_state
from tests.channels.telegram.support import PART, HastyClock, eventually, passing
from tests.fake_telegram.server import FakeTelegram
from tests.ports import free_port

SECRET = "a-secret-of-enough-letters"


@dataclass
class Told:
    """Alerts as they are told."""

    open: dict[str, str] = field(default_factory=dict)
    all: list[str] = field(default_factory=list)

    def tell(self, key: str, text: str) -> None:
        self.open[key] = text
        self.all.append(text)

    def clear(self, key: str) -> None:
        self.open.pop(key, None)


@dataclass
class Stage:
    """A channel that is called, and who calls it."""

    telegram: FakeTelegram
    channel: Channel
    gateway: RecordingGateway
    alerts: Told
    port: int

    async def post(self, body: bytes, secret: str | None = SECRET) -> int:
        """A call by anybody; returns the status."""
        headers = {} if secret is None else {HEADER: secret}
        url = f"http://127.0.0.1:{self.port}/hook"
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
            assert await response.read() == b""
            return response.status

    def statuses(self) -> list[int]:
        """What Telegram's calls were answered."""
        return [post.status for post in self.telegram.caller.posts]

    async def confirmed(self, count: int) -> list[int]:
        """The ids of the updates that Telegram may forget, when there are `count`."""
        telegram = self.telegram
        return await telegram.wait_for(lambda: ids if len(ids := telegram.world.confirmed) >= count else None)


@asynccontextmanager
async def called(
    folder: Path, *, clock: Clock | None = None, running: bool = True, secret: str | None = SECRET, **settings: Any
) -> AsyncIterator[Stage]:
    """A channel in webhook mode behind a listener; `running` is whether it takes anything in."""
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(FakeTelegram())
        port = free_port()
        webhook = {"url": f"http://127.0.0.1:{port}/hook"} | ({"secret": secret} if secret else {})
        values = {"token": telegram.token, "base_url": telegram.base_url, "mode": "webhook", "webhook": webhook}
        config = Config.model_validate({"state_dir": folder, "http": {"port": port}, "telegram": values | settings})
        session = await stack.enter_async_context(aiohttp.ClientSession())
        state = await stack.enter_async_context(open_state(folder))
        ports = ChannelPorts(session, clock or RealClock(), no_blob, state, Told(), Routes())
        channel = await stack.enter_async_context(PART.open(config, ports))
        await stack.enter_async_context(open_http(config, ports.routes, ready))
        assert isinstance(ports.alerts, Told)
        stage = Stage(telegram, channel, RecordingGateway(), ports.alerts, port)
        if running:
            await stack.enter_async_context(background(channel.run(stage.gateway), "telegram"))
            await telegram.wait_called("setWebhook")
        yield stage


async def no_blob(key: str) -> bytes:
    raise AssertionError(key)


async def ready() -> Readiness:
    return Readiness()


async def test_what_people_write_arrives(tmp_path: Path) -> None:
    async with called(tmp_path) as stage:
        await stage.telegram.world.say("hello")
        (inbound,) = await stage.gateway.wait_accepted(1)
        assert (inbound.text, inbound.actor.key) == ("hello", "telegram:5")
        await stage.confirmed(1)
        assert stage.channel.health() == "webhook, last update 0 s ago"
        assert stage.telegram.called("getUpdates") == []


async def test_telegram_is_told_where_and_with_what_word_and_forgets_nothing_that_waits(tmp_path: Path) -> None:
    async with called(tmp_path) as stage:
        (asked,) = stage.telegram.called("setWebhook")
        assert asked["url"] == f"http://127.0.0.1:{stage.port}/hook"
        assert asked["secret_token"] == SECRET
        assert "message" in asked["allowed_updates"] and "callback_query" in asked["allowed_updates"]
        assert not asked.get("drop_pending_updates")


@pytest.mark.promise("P-telegram-no-loss")
async def test_an_update_is_acknowledged_when_it_is_durable_and_not_before(tmp_path: Path) -> None:
    async with called(tmp_path) as stage:
        gate = stage.gateway.gates["hello"] = asyncio.Event()
        await stage.telegram.world.say("hello")
        await stage.gateway.wait_begun(1)
        for _ in range(5):
            assert await stage.post(b"{}") == 200, "time enough for an answer that comes too early"
        assert stage.telegram.world.confirmed == [] and stage.statuses() == []
        gate.set()
        await stage.confirmed(1)
        assert stage.statuses() == [200]


@pytest.mark.promise("P-telegram-no-loss")
async def test_an_album_is_one_message_though_each_part_waits_for_the_answer_to_the_one_before(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with called(tmp_path, clock=clock) as stage:
        await stage.telegram.world.album(b"one!", b"two!!", b"three!!!", text="which?")
        await stage.confirmed(3)
        clock.advance(QUIET_SECONDS)
        (inbound,) = await stage.gateway.wait_accepted(1)
        assert (inbound.text, len(inbound.attachments)) == ("which?", 3)


@pytest.mark.promise("P-telegram-no-loss")
async def test_an_update_that_the_disk_refuses_comes_again(tmp_path: Path) -> None:
    async with called(tmp_path) as stage:
        stage.gateway.errors = [StateError("the disk is full"), StateError("the disk is full")]
        await stage.telegram.world.say("hello")
        await stage.confirmed(1)
        assert stage.statuses() == [503, 503, 200]
        assert [inbound.text for inbound in stage.gateway.accepted] == ["hello"]


async def test_an_update_whose_answer_got_lost_is_the_same_message_again(tmp_path: Path) -> None:
    async with called(tmp_path) as stage:
        stage.telegram.caller.lost_answers = 1
        await stage.telegram.world.say("hello")
        await stage.confirmed(1)
        first, second = await stage.gateway.wait_accepted(2)
        assert first.id == second.id, "the gateway knows it by this"


@pytest.mark.parametrize("secret", [None, "", "wrong", SECRET[:-1], SECRET + "x", "é"])
async def test_nobody_gets_in_without_the_secret(tmp_path: Path, secret: str | None) -> None:
    async with called(tmp_path) as stage:
        assert await stage.post(b'{"update_id": 1}', secret) == 403
        assert stage.gateway.begun == []


async def test_the_secret_is_looked_at_before_the_body_is_waited_for(tmp_path: Path) -> None:
    """CVE-2026-32980: bodies of strangers were buffered first."""
    async with called(tmp_path) as stage, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
        writer.write(b"POST /hook HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 403 " in await reader.readline()
        writer.close()


async def test_a_body_beyond_bounds_is_refused_also_with_the_secret(tmp_path: Path) -> None:
    async with called(tmp_path) as stage, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
        head = f"POST /hook HTTP/1.1\r\nHost: localhost\r\n{HEADER}: {SECRET}\r\nContent-Length: 1048577\r\n\r\n"
        writer.write(head.encode())
        assert b" 413 " in await reader.readline()
        writer.close()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"update_id": "1"}', b"\xff", b"[" * 100_000])
async def test_what_is_no_update_is_acknowledged_and_in_the_log(
    tmp_path: Path, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Telegram would send it again for a day, and it would never become one."""
    async with called(tmp_path) as stage:
        assert await stage.post(body) == 200
        assert "not an update" in caplog.text
        assert stage.gateway.begun == []


async def test_telegram_is_asked_to_come_again_while_the_daemon_starts(tmp_path: Path) -> None:
    async with called(tmp_path, running=False) as stage:
        assert await stage.post(b'{"update_id": 1}') == 503


async def test_without_a_secret_one_is_made_and_kept_for_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir(mode=0o700)
    async with called(tmp_path, secret=None) as stage:
        said = stage.telegram.called("setWebhook")[0]["secret_token"]
    kept = tmp_path / "secrets" / "telegram__webhook__secret"
    assert kept.read_text() == said and len(said) >= 32
    assert kept.stat().st_mode & 0o777 == 0o600
    assert load_secret(tmp_path) == said


def test_an_empty_secret_is_none(tmp_path: Path) -> None:
    load_secret(tmp_path)
    (tmp_path / "secrets" / "telegram__webhook__secret").write_text("")
    with pytest.raises(StateError, match="is empty"):
        load_secret(tmp_path)


async def test_a_proxy_may_change_the_path(tmp_path: Path) -> None:
    webhook = {"url": "https://claw.example.org/public", "path": "/hook", "secret": SECRET}
    async with called(tmp_path, webhook=webhook) as stage:
        assert await stage.post(b'{"update_id": 1}') == 200


async def test_trouble_with_registering_is_shown_and_tried_again(tmp_path: Path) -> None:
    async with called(tmp_path, clock=HastyClock(), running=False) as stage:
        stage.telegram.fail("setWebhook", status=502, times=2)
        stage.telegram.fail("setWebhook", status=429, retry_after=3)
        async with background(stage.channel.run(stage.gateway), "telegram"):
            await eventually(lambda: stage.telegram.world.webhook)
            await eventually(lambda: stage.channel.health() == "webhook, no update since the start")


async def test_an_address_that_telegram_refuses_is_for_the_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with called(tmp_path, clock=HastyClock(), running=False) as stage:
        stage.telegram.fail("setWebhook", status=400, description="Bad Request: bad webhook: no such host", times=99)
        async with background(stage.channel.run(stage.gateway), "telegram"):
            await stage.telegram.wait_called("setWebhook", 4)
        assert caplog.text.count("no such host") == 1, "the log does not repeat itself"
        assert "telegram.webhook.url" in stage.alerts.open[ALERT] and "no such host" in stage.alerts.open[ALERT]
        assert "no such host" in stage.channel.health()


async def test_a_conflict_that_is_over_is_told_no_more(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with called(tmp_path, clock=clock, running=False) as stage:
        other = ExitStack()
        other.enter_context(only_poller(stage.telegram.token, stage.telegram.base_url, tmp_path))
        async with background(stage.channel.run(stage.gateway), "telegram"):
            await eventually(lambda: stage.alerts.open)
            assert list(stage.alerts.open) == ["telegram:conflict"]
            other.close()
            await passing(clock, lambda: stage.telegram.world.webhook)
            await eventually(lambda: not stage.alerts.open)


async def test_a_refused_token_is_for_the_operator_and_ends_the_channel(tmp_path: Path) -> None:
    async with called(tmp_path, running=False) as stage, asyncio.timeout(20):
        stage.telegram.token = "42:AAanother-token-than-the-one-that-is-used-00"
        await stage.channel.run(stage.gateway)
        assert list(stage.alerts.open) == ["telegram:token"]
        assert "refuses the bot token" in stage.channel.health()
        assert await stage.post(b'{"update_id": 1}') == 503


async def test_calls_that_do_not_arrive_are_known_from_telegram(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with called(tmp_path, clock=clock) as stage:
        world = stage.telegram.world
        await eventually(lambda: clock.sleepers)
        stage.telegram.caller.lost_answers = 10_000  # they arrive, but Telegram does not hear of it
        world.webhook_error, world.webhook_error_at = "Connection timed out", int(clock.now()) + 60
        world.updates.append({"update_id": 1, "poll": {}, "message": {}})
        clock.advance(LOOK_SECONDS)
        await eventually(lambda: stage.alerts.open)
        assert "Connection timed out; 1 update(s) waiting" in stage.alerts.open[ALERT]
        assert "cannot reach the webhook" in stage.channel.health()
        world.updates.clear()
        await eventually(lambda: clock.sleepers)
        clock.advance(LOOK_SECONDS)
        await eventually(lambda: not stage.alerts.open)


async def test_a_webhook_that_somebody_took_away_is_set_again(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with called(tmp_path, clock=clock) as stage:
        await eventually(lambda: clock.sleepers)
        stage.telegram.world.webhook = ""
        clock.advance(LOOK_SECONDS)
        await stage.telegram.wait_called("setWebhook", 2)
        await stage.telegram.world.say("hello")
        await stage.gateway.wait_accepted(1)
