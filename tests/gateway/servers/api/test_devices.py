"""Devices in the API: anyone sees and ends their own, and a page of one that was ended is cut off."""

from pathlib import Path

import aiohttp
import pytest

from goclaw.common.auth.tokens import MAX_DEVICES, read_tokens
from goclaw.gateway.servers.web.devices import DEVICE_SECONDS
from tests.gateway.servers.api.calling import moving
from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.web.calling import serving_pages, web_world
from tests.harness import PATIENCE

pytestmark = pytest.mark.promise("P-web-devices")


async def test_a_person_lists_and_ends_the_own_devices_and_no_others(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        desk = await pages.entered()
        world.clock.advance(1)
        phone, other = await pages.entered(), await pages.entered(BOB.key)
        mine = (await desk.get("/api/v1/devices")).said["devices"]
        names = [(await each.get("/web/me")).said["device"] for each in (desk, phone, other)]
        assert [each["name"] for each in mine] == names[:2] and [each["current"] for each in mine] == [True, False]
        assert mine[0]["device"] == "Firefox on Linux" and mine[0]["until"] == mine[0]["made"] + DEVICE_SECONDS
        for name in (names[2], f"memory-here-{pages.port}", "web-00000000"):
            assert (await desk.send("DELETE", f"/api/v1/devices/{name}")).status == 404
        assert (await other.get("/web/me")).status == 200
        assert (await desk.send("DELETE", f"/api/v1/devices/{names[1]}")).status == 204
        assert (await phone.get("/web/me")).status == 401
        assert [entry.object for entry in pages.noted("web.revoke")] == [names[1]]
        listed = await desk.get("/api/v1/devices", Authorization=f"Bearer {pages.secret()}", Cookie="")
        assert [each["current"] for each in listed.said["devices"]] == [False], "a program sees them, too"


@pytest.mark.promise("P-web-live")
async def test_the_live_view_of_a_device_that_is_ended_is_closed_within_two_seconds(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        desk, phone = await pages.entered(), await pages.entered()
        name = (await phone.get("/web/me")).said["device"]
        cookie = "; ".join(f"{key}={value}" for key, value in phone.cookies.items())
        headers = {"Cookie": cookie, "Origin": phone.origin}
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            async with http.ws_connect(f"{phone.origin}/web/ws", headers=headers) as live:
                await live.send_json({"type": "attach", "session": "", "after": 0, "limit": 10})
                await live.receive(PATIENCE)
                began = world.clock.monotonic()
                assert (await desk.send("DELETE", f"/api/v1/devices/{name}")).status == 204
                async with moving(world, 0.1):
                    while (await live.receive(PATIENCE)).type is aiohttp.WSMsgType.TEXT:
                        pass
                assert live.closed and world.clock.monotonic() - began < 2


async def test_devices_of_one_person_are_bounded_and_old_ones_make_room(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        first = await pages.entered()
        other = await pages.entered(BOB.key)
        last = other
        for _ in range(MAX_DEVICES):
            world.clock.advance(10)  # as people do, not as a program that fills the file of tokens
            last = await pages.entered()
        assert (await first.get("/web/me")).status == 401
        assert (await last.get("/web/me")).status == (await other.get("/web/me")).status == 200
        assert len((await last.get("/api/v1/devices")).said["devices"]) == MAX_DEVICES
        world.clock.advance(DEVICE_SECONDS)
        await pages.entered(ANN.key)
        kept = [name for name in read_tokens(world.config.tokens_path) if name.startswith("web-")]
        assert len(kept) == 1, "those that are over are forgotten"
