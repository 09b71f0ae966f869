"""Commands with the network `proxy`: one port of their own loopback answers, and nothing else does."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from goclaw.common.config.tools import ExecSettings
from goclaw.common.core.clock import RealClock
from goclaw.common.net.client import LOOPBACK_ONLY
from goclaw.common.net.guard import UrlGuard
from goclaw.common.net.proxy import Proxy
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox import proxy_port
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.broker import open_broker
from goclaw.tools.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.tools.execution.sandbox.select import probe, prove
from tests import house, plain_user
from tests.descriptors import open_descriptors
from tests.tools.execution.sandbox.probes import INSIDE_PATH, program

pytestmark = [pytest.mark.sandbox, pytest.mark.skipif(not program(), reason="no python3 in /usr")]

FETCH = """
import os, sys, urllib.request
for url in sys.argv[1:]:
    try: print(urllib.request.urlopen(url, timeout=5).read().decode())
    except OSError as error: print("refused:", getattr(error, "code", ""), error.read().decode().strip() if hasattr(error, "read") else error)
"""  # noqa: E501 -- a program
BEHIND = """
import os, socket, sys
for name in list(os.environ):
    if "proxy" in name.lower(): del os.environ[name]
for family, address in ((2, ("127.0.0.1", int(sys.argv[1]))), (2, ("1.1.1.1", 443)), (10, ("::1", int(sys.argv[1]))),
                        (2, ("169.254.169.254", 80)), (1, sys.argv[2]), (1, "\\0" + sys.argv[3])):
    try:
        s = socket.socket(family); s.settimeout(3); s.connect(address); print("ESCAPED", address)
    except OSError as error: print("refused", error)
try: socket.getaddrinfo("example.com", 80); print("ESCAPED")
except OSError: print("no names")
try:
    s = socket.socket(2, 2); s.sendto(b"x", ("8.8.8.8", 53)); print("ESCAPED")
except OSError: print("no datagrams")
"""


@pytest.fixture
async def bubblewrap(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    monkeypatch.delenv(LOOPBACK_ONLY)  # the guard keeps these tests from leaving the machine
    try:
        async with open_bubblewrap() as opened:
            await prove(opened, "proxy", RealClock())
            yield opened
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


class Site:
    """A server on this machine that stands for one in the internet, and what the proxy said of it."""

    def __init__(self) -> None:
        self.port = 0
        self.reached = 0
        self.told: list[tuple[str, bool, str]] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reached += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nthe site")
        writer.close()

    def policy(self, workspace: Path) -> Policy:
        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.1"] if host == "inside.example" else ["127.9.9.9"]

        guard = UrlGuard(allow=[f"site.example:{self.port}"], resolve=resolve)
        proxy = Proxy(guard, (80, 443, self.port), lambda *said: self.told.append(said))
        return Policy(workspace, network="proxy", proxy=proxy.serve)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    server = await asyncio.start_server(made.answer, "127.9.9.9", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


async def run(sandbox: Sandbox, policy: Policy, *argv: str) -> str:
    command = SandboxCommand((program(), "-I", "-c", *argv), policy.workspace, {"PATH": INSIDE_PATH})
    async with asyncio.timeout(30), sandbox.run(command, policy) as process:
        output = b"".join([chunk async for chunk in process.output]).decode()
        await process.wait()
    return output


async def test_programs_find_the_proxy_and_reach_what_the_guard_allows(
    bubblewrap: Sandbox, site: Site, tmp_path: Path
) -> None:
    refused = (f"http://inside.example:{site.port}/", "http://169.254.169.254/latest/", "http://other.example:22/")
    said = await run(bubblewrap, site.policy(tmp_path), FETCH, f"http://site.example:{site.port}/", *refused)
    answers = said.splitlines()
    assert answers[0] == "the site"
    assert [answer[:12] for answer in answers[1:]] == ["refused: 403"] * 3, said
    assert site.reached == 1
    assert [(place, reached) for place, reached, _ in site.told] == [
        (f"site.example:{site.port}", True),
        (f"inside.example:{site.port}", False),
        ("169.254.169.254:80", False),
        ("other.example:22", False),
    ]


async def test_a_command_that_goes_past_the_proxy_reaches_nothing(
    bubblewrap: Sandbox, site: Site, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "sock"
    abstract = f"goclaw-inlet-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX)) as by_path, closing(socket.socket(socket.AF_UNIX)) as by_name:
        for server, address in ((by_path, str(outside)), (by_name, f"\0{abstract}")):
            server.bind(address)
            server.listen()
        said = await run(bubblewrap, site.policy(tmp_path), BEHIND, str(site.port), str(outside), abstract)
    assert "ESCAPED" not in said
    assert len(said.splitlines()) == 8
    assert site.reached == 0


async def test_two_commands_have_a_proxy_each(bubblewrap: Sandbox, site: Site, tmp_path: Path) -> None:
    url = f"http://site.example:{site.port}/"
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(run(bubblewrap, site.policy(tmp_path), FETCH, url)) for _ in range(8)]
    assert [task.result() for task in running] == ["the site\n"] * 8


async def test_open_connections_end_with_the_command(bubblewrap: Sandbox, site: Site, tmp_path: Path) -> None:
    connect = f"s = socket.create_connection(('127.0.0.1', {proxy_port.PORT}))"
    hold = f"import socket; {connect}; print(1, flush=True); s.recv(1)"
    command = SandboxCommand((program(), "-I", "-c", hold), tmp_path, {"PATH": INSIDE_PATH})
    await run(bubblewrap, site.policy(tmp_path), "1")
    before = open_descriptors(), len(asyncio.all_tasks())
    async with asyncio.timeout(20), bubblewrap.run(command, site.policy(tmp_path)) as process:
        assert await anext(process.output) == b"1\n"
    for _ in range(10):  # transports close in one of the loop's next rounds
        await asyncio.sleep(0)
    assert (open_descriptors(), len(asyncio.all_tasks())) == before


async def test_nothing_of_ours_is_visible_inside(bubblewrap: Sandbox, site: Site, tmp_path: Path) -> None:
    look = (
        "import os\nprint(sorted(p for p in os.listdir('/proc') if p.isdigit()))\n"
        "print(open('/proc/net/tcp').read().count(':0C38 '))"
    )
    assert await run(bubblewrap, site.policy(tmp_path), look) == "['1', '2']\n1\n"


async def test_a_failing_inlet_runs_nothing(
    bubblewrap: Sandbox, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_port, "_BOOT", "raise SystemExit(1)")
    with pytest.raises(SandboxUnavailable, match="the proxy cannot be opened in the sandbox"):
        await run(bubblewrap, site.policy(tmp_path), "open('ran', 'w')")
    with pytest.raises(SandboxUnavailable, match="belong together"):
        await run(bubblewrap, Policy(tmp_path, network="proxy"), "open('ran', 'w')")
    assert not (tmp_path / "ran").exists()


async def test_cancelling_while_the_inlet_opens_leaves_nothing(bubblewrap: Sandbox, site: Site, tmp_path: Path) -> None:
    await run(bubblewrap, site.policy(tmp_path), "1")
    before = open_descriptors()
    for step in range(12):
        starting = asyncio.create_task(run(bubblewrap, site.policy(tmp_path), "1"))
        await asyncio.wait([starting], timeout=step * 0.003)
        starting.cancel()
        await asyncio.wait([starting])
    for _ in range(10):
        await asyncio.sleep(0)
    assert open_descriptors() == before


async def test_the_broker_refuses_in_words(site: Site, tmp_path: Path) -> None:
    async with open_broker() as broker:
        with pytest.raises(SandboxUnavailable, match=r"the broker cannot limit commands to a proxy"):
            await run(broker, site.policy(tmp_path), "open('ran', 'w')")
    assert not (tmp_path / "ran").exists()
    reports = {report.tier: report for report in await probe(ExecSettings(network="proxy"))}
    assert "which only bubblewrap makes" in reports["broker"].text
    if reports["bubblewrap"].works:
        assert "files, pids, network but for a proxy isolated" in reports["bubblewrap"].text


@pytest.mark.skipif(os.geteuid() != 0, reason="already a plain user: the other tests prove it")
def test_a_plain_user_gets_the_same_proxy() -> None:
    if why := plain_user.refusal():
        pytest.skip(f"root cannot become a plain user here: {why}")
    told = subprocess.run(
        [sys.executable, "-m", "tests.tools.execution.sandbox.as_plain_user"],
        cwd=house.ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip
    if "unavailable" in told.stdout:
        pytest.skip(told.stdout)
    assert told.stdout == "bubblewrap: proxied\n", told.stderr
