"""Ways in, seen from outside: terminals over TCP with a token, and strangers who are let in by a code."""

import asyncio
import socket
from pathlib import Path

import pytest

from goclaw.core.wire import Refused
from goclaw.tui.client import DaemonRefusal, RemoteDaemon, attach
from tests.acceptance.daemon import Installation
from tests.acceptance.waiting import clock
from tests.fake_telegram.server import FakeTelegram

pytestmark = [pytest.mark.slow]

ANN, CARL = 5, 77
IN_FORCE_SECONDS = 2.3
"""Two seconds, and a little for the way there and back on a busy machine."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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
            heard = [received async for received in client.received()]
        assert clock.monotonic() - began < IN_FORCE_SECONDS
    assert isinstance(heard[-1], Refused) and heard[-1].reason == "denied: the token laptop was revoked"
    with pytest.raises(DaemonRefusal, match="not valid"):
        async with attach(RemoteDaemon(url, token), ""):
            pass
    log = (home.state / "logs" / "goclaw.log").read_text()
    assert token not in log and "came in as telegram:5" in log


async def test_a_stranger_is_let_in_by_a_code_from_the_command_line(home: Installation, telegram: FakeTelegram) -> None:
    home.config["pairing"] = {"enabled": True, "allowed_tools": ["read"]}
    home.write_config()
    await home.start(telegram)
    await telegram.world.say("hello?", user=CARL, name="Carl")
    code = (await telegram.wait_sent(CARL))[0].text.rpartition(" ")[2]
    assert f"{code}  telegram:{CARL}, calls itself 'Carl'" in (await home.run("pair", "list")).out
    assert (await home.run("pair", "approve", "AAAA-AAAA")).code == 1
    done = await home.run("pair", "approve", code)
    assert done.code == 0 and f"telegram:{CARL} is let in" in done.out
    await telegram.world.say("/whoami", user=CARL)
    assert "\nTools: read" in (await telegram.wait_sent(CARL, 3))[2].text
