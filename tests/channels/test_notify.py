"""URLs that are told of results and alerts: what they get, how often, and where none of it goes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from goclaw.channels.base import Channel, ChannelPart, ChannelPorts, Unrecorded
from goclaw.channels.open import open_channels
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address, Delivery
from goclaw.common.core.plugins import load
from goclaw.durable.engine.outbox import open_outbox
from goclaw.durable.store.open import open_database
from goclaw.errors import DeliveryError
from tests.channels.support import open_state
from tests.http_server import serve

DELIVERY = Delivery("webhook:ci:1:deliver:1", Address("notify", "ops"), "Build 7 failed.\nSee the log.")


@dataclass
class Told:
    """A service that is told, and answers with these statuses first, then with 204."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(json.loads(await request.read()))
        self.headers.append(dict(request.headers))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 204, headers={"Location": "/elsewhere"})


@asynccontextmanager
async def told(*statuses: int) -> AsyncIterator[Told]:
    made = Told(statuses=list(statuses))
    async with serve(web.post("/in", made.take)) as address:
        made.port = URL(address).port or 0
        yield made


def settings(service: Told, **more: Any) -> Config:
    target = {"url": f"http://127.0.0.1:{service.port}/in", "private": True, **more}
    return Config.model_validate({"notify": {"ops": target}})


async def no_blob(key: str) -> bytes:
    raise AssertionError


@asynccontextmanager
async def channel(config: Config, clock: SteppedClock | None = None) -> AsyncIterator[Channel]:
    part = load(catalog.CHANNELS_OF_SECTIONS["notify"], ChannelPart)
    async with ClientSession() as http, open_state() as state:
        async with part.open(config, ChannelPorts(http, clock or SteppedClock(), no_blob, state)) as opened:
            yield opened


async def test_a_target_gets_title_text_source_and_time() -> None:
    async with told() as service, channel(settings(service, secret="s" * 20)) as notify:
        await notify.deliver(DELIVERY, Unrecorded())
        await notify.deliver(DELIVERY, Unrecorded())
    assert service.bodies[0] == {
        "title": "Build 7 failed.",
        "text": "Build 7 failed.\nSee the log.",
        "source": "webhook",
        "time": service.bodies[0]["time"],
    }
    assert service.bodies[0]["time"].endswith("+00:00")
    assert {each["Idempotency-Key"] for each in service.headers} == {DELIVERY.id}
    assert service.headers[0]["X-GoClaw-Token"] == "s" * 20


@pytest.mark.promise("P-notified")
async def test_the_outbox_repeats_what_a_target_does_not_take(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with told(503, 429) as service, channel(settings(service), clock) as notify:
        async with open_database(tmp_path / "goclaw.db") as database:
            async with open_outbox(database, {"notify": notify}, clock) as outbox:
                await outbox.resume()
                await outbox.promise(DELIVERY)
                while outbox.waiting():
                    clock.advance(61)
                    await outbox.flush(0.01)
    assert len(service.bodies) == 3


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 410])
async def test_what_no_repetition_mends_is_given_up_and_no_redirect_is_followed(status: int) -> None:
    async with told(status) as service, channel(settings(service)) as notify:
        with pytest.raises(DeliveryError, match=str(status)) as refused:
            await notify.deliver(DELIVERY, Unrecorded())
        assert refused.value.permanent and notify.health() == f"ops: answers {status}"
        await notify.deliver(DELIVERY, Unrecorded())
        assert notify.health() == "1 target(s)"
    assert len(service.bodies) == 2


@pytest.mark.promise("P-notified")
async def test_a_private_address_is_refused_unless_the_target_says_so() -> None:
    async with told() as service, channel(settings(service, private=False)) as notify:
        with pytest.raises(DeliveryError, match="`private: true` allows that very host") as refused:
            await notify.deliver(DELIVERY, Unrecorded())
    assert refused.value.permanent and service.bodies == []


async def test_a_service_that_is_down_is_asked_again_and_its_url_stays_secret() -> None:
    async with told() as service:
        config = settings(service)
    async with channel(config) as notify:
        with pytest.raises(DeliveryError) as failed:
            await notify.deliver(DELIVERY, Unrecorded())
    assert not failed.value.permanent and "/in" not in str(failed.value)


async def test_an_unknown_target_is_named() -> None:
    async with told() as service, channel(settings(service)) as notify:
        with pytest.raises(DeliveryError, match="no target other"):
            await notify.deliver(Delivery("a", Address("notify", "other"), "x"), Unrecorded())


async def test_without_targets_there_is_no_such_channel() -> None:
    async with ClientSession() as http, open_state() as state:
        ports = ChannelPorts(http, SteppedClock(), no_blob, state)
        async with open_channels(Config(), lambda _: ports, {}) as channels:
            assert "notify" not in channels
        async with told() as service, open_channels(settings(service), lambda _: ports, {}) as channels:
            assert "notify" in channels
