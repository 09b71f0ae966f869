"""The Unix socket before the first client: no server is loaded, and clients who come are served."""

import asyncio
import subprocess
import sys
from pathlib import Path

from goclaw.clients.tui.client import attach
from goclaw.gateway.servers.socket_file import open_socket
from tests.harness import PATIENCE, World

IDLE = """
import asyncio, pathlib, sys
from goclaw.common.core.clock import RealClock
from goclaw.gateway.servers.socket_file import open_socket

async def main():
    async with open_socket(pathlib.Path(sys.argv[1]), None, RealClock(), str):
        for _ in range(20):
            await asyncio.to_thread(int)
    print(*(name for name in ("aiohttp.web", "goclaw.gateway.servers.terminals") if name in sys.modules))

asyncio.run(main())
"""


def test_no_server_is_loaded_while_no_client_comes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IDLE, str(tmp_path / "s")]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")


async def test_clients_that_come_together_as_the_first_are_all_served(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core, asyncio.timeout(PATIENCE):
        async with open_socket(tmp_path / "s", core.gateway, world.clock, lambda: "Hello."):

            async def greeting(session: str) -> str:
                async with attach(tmp_path / "s", session) as client:
                    return client.attached.greeting

            assert await asyncio.gather(*(greeting(f"tui:{number}") for number in range(5))) == ["Hello."] * 5
    assert not (tmp_path / "s").exists()
