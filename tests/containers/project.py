"""A compose file that runs: what a person at the machine does with it, and what they see."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goclaw.common.core.clock import RealClock
from tests.containers.engine import Engine

UP_SECONDS = 1_200
"""The image is built, and packages are downloaded, on a busy machine."""
SEND_SECONDS = 90
HEALTHY_SECONDS = 300


@dataclass
class Project:
    """A folder with a compose file."""

    engine: Engine
    folder: Path
    secrets: tuple[str, ...] = ("telegram_token",)

    @contextmanager
    def running(self) -> Iterator["Project"]:
        """Start it, and remove its containers, volumes and networks at the end."""
        (self.folder / "secrets").mkdir(mode=0o700, exist_ok=True)
        for name in self.secrets:
            self.set_secret(name, "")
        # Also before: a run that was killed leaves containers in an engine whose data is kept.
        self.remove()
        try:
            self.up("--build")
            yield self
        finally:
            self.remove()

    def remove(self) -> None:
        """Remove its containers, volumes and networks."""
        self.compose("down", "--volumes", "--timeout", "5", check=False)

    def compose(self, *words: str, text: str = "", check: bool = True, seconds: float = UP_SECONDS) -> str:
        """Run `docker compose` and return what it printed on standard output."""
        return self.engine.run(
            "docker", "compose", *words, folder=self.folder, text=text, check=check, seconds=seconds
        ).stdout

    def up(self, *options: str) -> None:
        """`docker compose up`, until the gateways answer: the engine asks them every 30 seconds only."""
        self.compose("up", "--detach", *options)
        for container in self.containers():
            self.wait_healthy(container)

    @contextmanager
    def settings(self, **variables: str) -> Iterator[None]:
        """Give the gateway these variables at its next `up`."""
        override = self.folder / "docker-compose.override.yml"
        override.write_text(json.dumps({"services": {"gateway": {"environment": variables}}}))
        try:
            yield
        finally:
            override.unlink()

    def kill_daemon(self, container: str) -> None:
        """`kill -9` of the daemon, which is the only child of the container's `init`."""
        pid = self.inspect(container)["State"]["Pid"]
        subprocess.run(self.engine.enter("sh", "-c", f"kill -9 $(cat /proc/{pid}/task/{pid}/children)"), check=True)

    def shell(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run lines of a page in the project's folder."""
        settings = [f"{name}={value}" for name, value in variables.items()]
        return self.engine.run("env", *settings, "sh", "-euc", script, folder=self.folder, seconds=UP_SECONDS)

    def inside(self, *command: str, text: str = "", check: bool = True) -> str:
        """`docker compose exec -T gateway …`."""
        return self.compose("exec", "-T", "gateway", *command, text=text, check=check, seconds=SEND_SECONDS)

    def send(self, text: str) -> str:
        """Say something to the agent; return its answer."""
        return self.inside("goclaw", "send", text)

    def execute(self, command: str) -> str:
        """Have the agent's `exec` tool run a command; the demo model asks for it."""
        return self.send("/tool exec " + json.dumps({"command": command, "timeout": 60}))

    def set_secret(self, name: str, value: str) -> None:
        """Write a secret's file."""
        file = self.folder / "secrets" / name
        file.write_text(value)
        file.chmod(0o644)

    def containers(self, service: str = "gateway") -> list[str]:
        """Return the ids of a service's containers, also of those that ended."""
        return self.compose("ps", "--all", "--quiet", service).split()

    def inspect(self, container: str) -> dict[str, Any]:
        """Return what the engine knows of a container."""
        [found] = json.loads(self.engine.run("docker", "inspect", container).stdout)
        assert isinstance(found, dict)
        return found

    def wait_healthy(self, container: str) -> None:
        """Return when the health check of a container succeeds."""
        clock = RealClock()
        deadline = clock.monotonic() + HEALTHY_SECONDS
        while clock.monotonic() < deadline:
            asked = self.engine.run("docker", "exec", container, "goclaw", "status", check=False)
            if asked.returncode == 0:
                return
            subprocess.run(["sleep", "0.5"], check=True)
        raise AssertionError(self.compose("logs", "--tail", "50"))
