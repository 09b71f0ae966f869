"""A daemon as a process of its own that serves the page, with a model that follows a script. Synchronous, as the
browser's driver is."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goclaw.common.auth.tokens import add_token
from goclaw.common.core.clock import RealClock
from goclaw.common.core.messages import AssistantMessage, Message, UserMessage
from goclaw.common.net import LOOPBACK_ONLY
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from tests.ports import free_port

CLOCK = RealClock()
ROOT = Path(__file__).resolve().parents[3]
RUNNING = "GoClaw is running."
START_SECONDS = 30.0
LOOK_SECONDS = 0.02
ANN, BOB = "tui:ann", "tui:bob"
USERS: Mapping[str, Mapping[str, Any]] = {
    ANN: {"name": "Ann", "roles": ["admin"]},
    BOB: {"name": "Bob", "roles": ["user"], "allowedTools": ["*"]},
}
Json = dict[str, Any]


@dataclass
class WebDaemon:
    """A configuration and a state folder below one folder, and at most one daemon on them."""

    folder: Path
    answers: Sequence[Json] = ()
    """Of the scripted model, with `when`."""
    users: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: USERS)
    config: Json = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    """One that it has again when it is started again."""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    @property
    def workspace(self) -> Path:
        """The agent's workspace."""
        return self.state / "workspace"

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """What the daemons printed so far."""
        path = self.folder / "daemon.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def prepare(self) -> None:
        """Write the configuration, the users and the script."""
        self.workspace.mkdir(parents=True)
        self.state.chmod(0o700)
        (self.state / "users.json").write_text(json.dumps({"users": self.users}))
        script = self.state / "script.json"
        script.write_text(json.dumps({"answers": list(self.answers), "rest": {"text": "All done."}}))
        config = {
            "models": {"agent": [f"scripted:{script}"], "summary": []},
            "http": {"web": True, "port": self.port},
            "state_dir": str(self.state),
            **self.config,
        }
        (self.folder / "config.yaml").write_text(json.dumps(config))

    def seed(self, session: str, messages: Sequence[Message], turns: int = 2) -> None:
        """Let a session have messages before the daemon starts; so many of them are a turn."""
        # In a thread: the browser's driver may have a loop in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._seed(session, messages, turns)).result()

    async def _seed(self, session: str, messages: Sequence[Message], turns: int) -> None:
        async with open_database(self.state / "goclaw.db") as opened:
            statements = [Transcripts(opened).ensure_session(session, 0.0)]
            at = CLOCK.now() - 60.0 * len(messages)
            for number, message in enumerate(messages):
                sender = session if isinstance(message, UserMessage) else ""
                step = "user" if isinstance(message, UserMessage) else f"model:{number}"
                origin = Origin(session, f"seed:{session}:{number // turns}", step, at + 60.0 * number, sender, "")
                statements += rows_of(message, origin)
            await opened.write(*statements)

    def token(self, user: str, name: str = "") -> str:
        """Make an access token of a user."""
        name = name or f"t{uuid.uuid4().hex[:8]}"
        return add_token(self.state / "access-tokens.json", name, user, CLOCK.now())

    def start(self) -> None:
        """Start the daemon and wait until it runs."""
        assert self.process is None, "one daemon at a time"
        before = self.output.count(RUNNING)
        with (self.folder / "daemon.out").open("ab") as output:
            self.process = subprocess.Popen(
                self._command("gateway"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                cwd=self.folder,
            )
        until = CLOCK.monotonic() + START_SECONDS
        while self.output.count(RUNNING) == before:
            assert CLOCK.monotonic() < until, f"it does not run: {self.output[-3000:]}"
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_SECONDS)
                raise AssertionError(f"it ended: {self.output[-3000:]}")

    def run(self, *arguments: str) -> str:
        """Run a command of `goclaw`; return what it prints."""
        ran = subprocess.run(
            self._command(*arguments),
            env=self._environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "goclaw", "--config", str(self.folder / "config.yaml"), *arguments]

    def _environment(self) -> dict[str, str]:
        ours = {"PYTHONPATH": str(ROOT), "GOCLAW_STATE_DIR": str(self.state), LOOPBACK_ONLY: "1"}
        return {**os.environ, **ours}

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end."""
        if self.process is not None:
            self._end(signal.SIGTERM)

    def _end(self, by: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(by)
        self.process.wait(START_SECONDS)
        self.process = None


@contextmanager
def running(daemon: WebDaemon) -> Iterator[WebDaemon]:
    """Start a prepared daemon, and end it with the block."""
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


def talk(count: int, word: str = "message") -> list[Message]:
    """Return so many questions and answers in turn, each with its number."""
    return [
        UserMessage(f"Question {number}: {word} {number}.")
        if number % 2
        else AssistantMessage(f"Answer {number}: **{word}** {number}.")
        for number in range(1, count + 1)
    ]
