"""What the tools for commands stand on in tests: a room for tasks, a task that waits, a real sshd on loopback."""

import asyncio
import getpass
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.errors import ToolError
from goclaw.tools.builtin.background_tasks import start_task
from goclaw.tools.execution.tasks.base import Owner
from goclaw.tools.execution.tasks.room import TaskRoom, open_tasks
from tests.ports import free_port
from tests.tools.builtin.memory_support import ANNA, Surroundings

ANNAS = Owner(ANNA.key, ANNA.key)
WAITS = 'echo ready; read -r line; echo "got $line"'
"""Says something, then waits for a line."""


@asynccontextmanager
async def with_tasks(around: Surroundings) -> AsyncIterator[TaskRoom]:
    """Tools can run in the background."""
    async with open_tasks(around.blobs, around.clock, around.config.tools.tasks) as room:
        around.tasks = room
        yield room


async def waiting_task(around: Surroundings, room: TaskRoom, task_id: str) -> None:
    """A task of this id that waits for a line."""
    room._new_id = lambda: task_id  # type: ignore[method-assign]  # an example names its task
    context = around.context()
    await start_task(
        context, ("/bin/sh", "-c", WAITS), around.the_workspace.root, WAITS, seconds=None, keeps_input=True
    )
    while await room.tail(task_id, ANNAS, 100) != "ready\n":  # noqa: ASYNC110 -- output has no event
        await asyncio.sleep(0)


async def cut_off(call: Callable[[int], Awaitable[object]], after: str) -> tuple[int, str]:
    """Make a call that its time ends, and return that time and the error: once the command has said `after`.

    A busy machine may need the shortest time for the start of the command alone.
    """
    for seconds in (1, 4, 16):
        with pytest.raises(ToolError, match="timed out") as caught:
            await call(seconds)
        if after in str(caught.value):
            return seconds, str(caught.value)
    raise AssertionError(f"within its time it did not say {after!r}")


@dataclass
class SshServer:
    """A real sshd that lets the user of the tests in, with one key."""

    folder: Path
    port: int

    def host(self, **other: Any) -> dict[str, Any]:
        """An entry of `tools.ssh.hosts`."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": getpass.getuser(),
            "identity_file": self.folder / "key",
            "known_hosts": self.folder / "known_hosts",
            **other,
        }

    def configure(self, around: Surroundings, name: str = "web1", **other: Any) -> None:
        around.config = Config.model_validate(
            {"state_dir": around.config.state_dir, "tools": {"ssh": {"hosts": {name: self.host(**other)}}}}
        )


@asynccontextmanager
async def ssh_server(folder: Path) -> AsyncIterator[SshServer]:
    """A server with keys of its own below `folder`; the test is skipped where there is no sshd."""
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if not program or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        pytest.skip("no sshd, ssh and ssh-keygen here (Debian: openssh-server)")
    port = await asyncio.to_thread(_prepare, folder)
    sshd = await asyncio.create_subprocess_exec(
        program, "-D", "-e", "-f", str(folder / "sshd_config"), stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(10):
            assert sshd.stderr
            while b"listening" not in (line := await sshd.stderr.readline()):
                if not line:
                    pytest.skip("sshd does not start here")
        yield SshServer(folder, port)
    finally:
        sshd.terminate()
        await sshd.wait()


def _prepare(folder: Path) -> int:
    """Keys and settings; returns a port that is free."""
    folder.mkdir(mode=0o700)
    for name in ("host_key", "key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=20)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd is no service, nobody else makes it
    port = free_port()
    public = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    (folder / "authorized").write_text((folder / "key.pub").read_text())
    (folder / "sshd_config").write_text(
        f'ListenAddress 127.0.0.1\nPort {port}\nHostKey "{folder}/host_key"\nAuthorizedKeysFile "{folder}/authorized"\n'
        "StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nAllowAgentForwarding yes\nPermitUserEnvironment no\nPrintMotd no\n"
        f'SetEnv "HOME={folder}"\n'  # what the user's own shell says at a login is no part of any test
    )
    return port
