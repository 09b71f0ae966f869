"""Ways in, seen from outside: terminals over TCP with a token, and strangers who are let in by a code."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from goclaw.clients.tui.client import DaemonRefusal, RemoteDaemon, attach
from goclaw.common.auth.users import login_name
from goclaw.common.core.wire import Refused
from tests.acceptance.daemon import Installation
from tests.acceptance.waiting import clock
from tests.fake_telegram.server import FakeTelegram
from tests.harness import before_the_next_look
from tests.ports import free_port

pytestmark = [pytest.mark.slow]

ANN, CARL = 5, 77
IN_FORCE_SECONDS = 2.3
"""Two seconds, and a little for the way there and back on a busy machine."""


def browser() -> aiohttp.ClientSession:
    """A browser's cookies on this machine."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def test_a_terminal_elsewhere_talks_with_a_token_until_it_is_revoked(
    home: Installation, telegram: FakeTelegram, tmp_path: Path
) -> None:
    port = free_port()
    home.config["http"] = {"clients": True, "port": port}
    home.write_config()
    await home.start(telegram)
    url, file = f"http://127.0.0.1:{port}", tmp_path / "token"
    made = await home.run("token", "add", "laptop", "--user", "telegram:5")
    token = made.out.strip()
    file.write_text(token)
    file.chmod(0o600)
    said = await home.run("send", "--url", url, "--token-file", str(file), "m1 plain")
    assert (said.code, said.out) == (0, "answer m1 (end)\n"), said
    async with attach(RemoteDaemon(url, token), "") as client:
        assert client.attached.session == "telegram:5" and len(client.attached.history) == 2
        assert (await home.run("token", "revoke", "laptop")).code == 0
        began = clock.monotonic()
        async with asyncio.timeout(10):
            heard = [received async for received in client.receive()]
        assert clock.monotonic() - began < IN_FORCE_SECONDS
    assert isinstance(heard[-1], Refused) and heard[-1].reason == "denied: the token laptop was revoked"
    with pytest.raises(DaemonRefusal, match="invalid or has expired"):
        async with attach(RemoteDaemon(url, token), ""):
            pass
    log = (home.state / "logs" / "goclaw.log").read_text()
    assert token not in log and "a client connected as telegram:5" in log


@pytest.mark.promise("P-web-login")
async def test_the_owner_s_browser_comes_in_by_a_link_and_by_a_code(home: Installation) -> None:
    port = free_port()
    home.config["http"] = {"web": True, "port": port}
    home.write_config()
    await home.start()
    url, me = f"http://127.0.0.1:{port}", f"tui:{login_name()}"
    link = (await home.run("web", "--no-open")).out.strip()
    assert link.startswith(f"{url}/#link=goclaw_")
    async with browser() as linked, browser() as coded:
        async with linked.post(f"{url}/web/login", json={"link": link.partition("=")[2]}) as response:
            assert (response.status, (await response.json())["person"]) == (200, me)
        async with linked.get(f"{url}/api/v1/users") as response:
            assert response.status == 200, "as an admin"
        async with coded.post(f"{url}/web/login/code", json={}) as response:
            asked = await response.json()
        assert "Signed in as" in (await home.run("send", f"/approve {asked['code']}")).out
        async with coded.post(f"{url}/web/login/wait", json={"secret": asked["secret"]}) as response:
            assert (response.status, (await response.json())["person"]) == (200, me)
        listed = (await home.run("token", "list")).out
        assert listed.count(f"another program  {me} (owner)  made") == 2
        for line in listed.splitlines():
            assert (await home.run("token", "revoke", line.split()[0])).code == 0
        began = clock.monotonic()
        async with asyncio.timeout(10):
            while (await linked.get(f"{url}/web/me")).status == 200:
                await before_the_next_look()
        assert clock.monotonic() - began < IN_FORCE_SECONDS
    log = (home.state / "logs" / "goclaw.log").read_text()
    assert link.partition("=")[2] not in log and asked["secret"] not in log


async def test_a_stranger_is_let_in_by_a_code_from_the_command_line(home: Installation, telegram: FakeTelegram) -> None:
    home.config["pairing"] = {"enabled": True, "role": "adult", "allowed_tools": ["read"]}
    home.write_config()
    await home.start(telegram)
    await telegram.world.say("hello?", user=CARL, name="Carl")
    code = (await telegram.wait_sent(CARL))[0].text.rpartition(" ")[2]
    assert f"{code}  telegram:{CARL}, claims the name 'Carl'" in (await home.run("pair", "list")).out
    assert (await home.run("pair", "approve", "AAAA-AAAA")).code == 1
    done = await home.run("pair", "approve", code)
    assert done.code == 0 and f"telegram:{CARL} may now talk to me" in done.out
    await telegram.world.say("/whoami", user=CARL)
    assert "\nI can: read" in (await telegram.wait_sent(CARL, 3))[2].text
