"""The service on a real systemd: a user manager of the test's own, in namespaces that end with it."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.daemon import ROOT, START_SECONDS
from tests.acceptance.waiting import clock, eventually

SYSTEMD = Path("/lib/systemd/systemd")
PROGRAMS = ("systemctl", "unshare", "nsenter")
SOON = "RestartSec=100ms"
"""A daemon that has ended comes again at once, and not after five seconds."""
SCENE = """
mount -t tmpfs none /run && mkdir -p /run/systemd/system && mkdir -m 700 "$XDG_RUNTIME_DIR" || exit 1
# Not this shell itself: as the first process it would be the machine's systemd.
/lib/systemd/systemd --user & wait
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),  # a dozen starts of the daemon, on machines that are busy
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes the namespaces for a systemd of its own"),
    pytest.mark.skipif(not SYSTEMD.exists() or not all(map(shutil.which, PROGRAMS)), reason="needs systemd"),
]


class Scene:
    """A home, a state folder and a systemd that runs this user's services."""

    def __init__(self, folder: Path) -> None:
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": "/run/of-this-user",
            "GOCLAW_STATE_DIR": str(folder / "a state $5 of 50%"),
            "OLLAMA_HOST": "http://127.0.0.1:9",
            "SYSTEMD_LOG_TARGET": "console",
        }
        self.state = folder / "a state $5 of 50%"
        self._home = folder
        self._outer: asyncio.subprocess.Process | None = None
        self._inner = 0

    async def open(self) -> None:
        """Start the systemd; skips the test where this machine allows no namespaces."""
        self._outer = await self._spawn(
            *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", SCENE)
        )
        outer = self._outer.pid

        def inner() -> int | None:
            if self._outer is None or self._outer.returncode is not None:
                pytest.skip("this machine lets nobody make namespaces")
            children = psutil.Process(outer).children()
            return children[0].pid if children else None

        self._inner = await eventually(inner)
        async with asyncio.timeout(START_SECONDS):
            while (await self.run("systemctl", "--user", "is-system-running"))[1] not in ("running\n", "degraded\n"):
                if self._outer.returncode is not None:
                    pytest.skip("no systemd of a user runs here")
                await clock.sleep(0.1)

    async def close(self) -> None:
        """Kill everything in the scene."""
        if self._outer and self._outer.returncode is None:
            self._outer.kill()
            await self._outer.communicate()

    async def run(self, *command: str) -> tuple[int, str]:
        """A command in the scene: its exit code, and all that it said."""
        process = await self._spawn("nsenter", "-t", str(self._inner), "-m", "-p", "--", *command)
        async with asyncio.timeout(START_SECONDS):
            said, _ = await process.communicate()
        return await process.wait(), said.decode()

    async def goclaw(self, *arguments: str) -> tuple[int, str]:
        """`goclaw …` in the scene."""
        return await self.run(sys.executable, "-m", "goclaw", *arguments)

    async def unit(self, name: str) -> str:
        """A property of the unit."""
        return (await self.run("systemctl", "--user", "show", "goclaw", f"--property={name}", "--value"))[1].strip()

    async def becomes(self, name: str, value: str) -> None:
        """Wait until a property of the unit has this value."""
        async with asyncio.timeout(START_SECONDS):
            while await self.unit(name) != value:
                await clock.sleep(0.1)

    async def change(self, *settings: str) -> None:
        """Change the unit as its operator may; in force from its next start on."""
        folder = self._home / ".config" / "systemd" / "user" / "goclaw.service.d"
        folder.mkdir(exist_ok=True)
        (folder / "changed.conf").write_text("\n".join(["[Service]", *settings, ""]))
        assert (await self.run("systemctl", "--user", "daemon-reload"))[0] == 0

    async def _spawn(self, *command: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            cwd=ROOT,
        )


@pytest.fixture
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """The systemd, running."""
    made = Scene(folder)
    try:
        await made.open()
        yield made
    finally:
        await made.close()


@pytest.mark.sandbox
async def test_systemd_starts_it_keeps_it_running_and_lets_commands_be_contained(scene: Scene) -> None:
    code, said = await scene.goclaw("service", "install")
    assert code == 0 and "systemd runs the daemon (pid " in said
    assert await scene.unit("ActiveState") == "active" and "event loop" in await scene.unit("StatusText")
    ran = (await scene.goclaw("send", '/tool exec {"command": "grep NoNewPrivs /proc/self/status; ls"}'))[1]
    assert "NoNewPrivs:\t1" in ran and "AGENTS.md" in ran
    await scene.change(SOON)
    before = await scene.unit("MainPID")
    assert (await scene.run("kill", "-9", before))[0] == 0
    await scene.becomes("NRestarts", "1")
    await scene.becomes("ActiveState", "active")
    assert await scene.unit("MainPID") not in (before, "0")
    assert (await scene.goclaw("service", "remove"))[0] == 0
    assert await scene.unit("LoadState") == "not-found"


@pytest.mark.long
async def test_start_stop_and_restart_are_done_by_systemd(scene: Scene) -> None:
    assert (await scene.goclaw("service", "install"))[0] == 0
    assert (await scene.goclaw("service", "status"))[0] == 0
    assert "systemd runs it" in (await scene.goclaw("start"))[1]
    before = await scene.unit("MainPID")
    assert (await scene.goclaw("restart"))[0] == 0
    assert await scene.unit("MainPID") not in (before, "0"), "and systemd runs the new one"
    assert (await scene.goclaw("stop"))[0] == 0
    await scene.becomes("ActiveState", "inactive")
    assert (await scene.goclaw("start"))[0] == 0
    assert await scene.unit("ActiveState") == "active", "started by systemd again"
    assert (await scene.goclaw("service", "remove"))[0] == 0
    assert await scene.unit("LoadState") == "not-found"
    assert (await scene.goclaw("status"))[0] == 1


@pytest.mark.long
async def test_one_that_falls_silent_is_ended_and_started_anew(scene: Scene) -> None:
    assert (await scene.goclaw("service", "install"))[0] == 0
    await scene.change(SOON, "WatchdogSec=2")
    assert (await scene.goclaw("restart"))[0] == 0
    pid = await scene.unit("MainPID")
    assert (await scene.run("kill", "-STOP", pid))[0] == 0
    await scene.becomes("NRestarts", "1")
    await scene.becomes("ActiveState", "active")
    assert await scene.unit("MainPID") != pid


@pytest.mark.long
async def test_a_broken_configuration_is_not_tried_again_and_again(scene: Scene) -> None:
    assert (await scene.goclaw("service", "install"))[0] == 0
    (scene.state / "config.yaml").write_text("workspase: /x\n")
    assert (await scene.run("systemctl", "--user", "restart", "goclaw"))[0] != 0
    assert await scene.unit("ExecMainStatus") == "78"
    assert (await scene.unit("ActiveState"), await scene.unit("NRestarts")) == ("failed", "0")
    code, said = await scene.goclaw("start")
    assert code == 78 and "workspase: unknown key" in said
