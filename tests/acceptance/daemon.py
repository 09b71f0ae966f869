"""The daemon as a process of its own: started, watched, killed, started again on the same state folder."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from goclaw.common.config.values import PostgresPlace
from goclaw.common.health.stuck_tasks import task_stacks, thread_stacks
from goclaw.durable.store.postgres.documents import writer_of
from tests import canaries, on_postgres
from tests.acceptance import forking
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram

ROOT = Path(__file__).resolve().parents[2]
RUNNING = "GoClaw is running."
"""What the daemon says when all of it is there."""
START_SECONDS = 40.0
STOP_SECONDS = 30.0
DUMP_SECONDS = 1.0
"""What a daemon gets to write where its tasks stand."""
TAIL = 20_000
"""Characters of a log that a dump shows."""
SPEC = "openai-chat:echo"
"""The model of `acceptance.model`, as the configuration names it."""
GROUPS = [-100, -5]
"""Where the bot may answer, of the groups of the tests."""
UNLIMITED = {"chat_messages_per_second": 1000, "messages_per_second": 1000, "group_messages_per_minute": 60_000}
"""Telegram's limits, out of the way: they have tests of their own."""


@dataclass(frozen=True)
class Ran:
    """A command line that has ended."""

    code: int
    out: str
    err: str
    seconds: float


async def run_command(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, stdin: str, seconds: float
) -> Ran:
    """Run a command to its end.

    Raises:
        TimeoutError: it took longer; it is killed.
    """
    began = clock.monotonic()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=folder
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(stdin.encode())
    except (TimeoutError, asyncio.CancelledError):
        process.kill()
        await process.wait()
        raise
    return Ran(await process.wait(), out.decode(), err.decode(), clock.monotonic() - began)


@dataclass
class Installation:
    """A configuration, a state folder and a workspace below one folder, and at most one daemon on them."""

    folder: Path
    config: dict[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | forking.Forked | None = None
    forks: bool = False
    """Whether its processes are forked from one that has imported GoClaw, and not started from nothing."""
    module: str = "goclaw"
    """What is run as the gateway: `tests.acceptance.crashing` is the same daemon, killed at a point (`arm`)."""

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def workspace(self) -> Path:
        return self.folder / "work"

    @property
    def config_path(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def output(self) -> str:
        """What the daemons of this installation printed so far."""
        path = self.folder / "daemon.out"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def trigger(self) -> Path:
        """The file that tells `tests.acceptance.crashing` where to die."""
        return self.folder / "crash"

    def arm(self, point: str, passing: int = 1) -> None:
        """Let the daemon die when it passes `point` for the k-th time from now on; it may run already, or not yet."""
        fresh = self.folder / "crash.new"
        fresh.write_text(f"{point} {passing}")
        fresh.replace(self.trigger)

    def disarm(self) -> None:
        """Let the daemon live."""
        self.trigger.unlink(missing_ok=True)

    def write_config(self) -> None:
        """Put `config` where the daemon reads it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config_path.write_text(yaml.safe_dump(self.config))

    def write_users(self, users: Mapping[str, Mapping[str, Any]] | str) -> None:
        """Replace users.json at once, as an editor or `goclaw users import` does; a string goes in as it is."""
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, address = (
            self.state / "users.json",
            self.config.get("store") or self.store_environment.get("GOCLAW_STORE"),
        )
        with writer_of(PostgresPlace.of(address), self.state)(path) if address else nullcontext():
            fresh = self.state / "users.json.new"
            fresh.write_text(users if isinstance(users, str) else json.dumps({"users": users}))
            fresh.replace(path)

    async def spawn(self) -> None:
        """Start the daemon and wait for nothing."""
        assert self.process is None, "one daemon at a time"
        command, environment = self._command("gateway", module=self.module), self._environment()
        with (self.folder / "daemon.out").open("ab") as output:
            if self._can_fork:
                files = {1: output.fileno(), 2: output.fileno()}
                self.process = await forking.template().start(command, environment, files, own_session=True)
                return
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )

    async def start(self, telegram: FakeTelegram | None = None) -> float:
        """Start the daemon and wait until it runs, and polls Telegram; returns the seconds that it took."""
        began = clock.monotonic()
        polls = len(telegram.called("getUpdates")) if telegram else 0
        listening = self.output.count(RUNNING)
        await self.spawn()

        def ready() -> bool:
            assert self.process is not None and self.process.returncode is None, f"it ended: {self.output[-2000:]}"
            # The first poll goes out before the rest of the daemon is there.
            polled = telegram is None or len(telegram.called("getUpdates")) > polls
            return polled and self.output.count(RUNNING) > listening

        await eventually(ready, START_SECONDS)
        return clock.monotonic() - began

    async def kill(self) -> None:
        """kill -9, at once."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.kill()
        await self.wait()

    async def stop(self) -> int:
        """Ask it to end with SIGTERM; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        if code := await self.wait():
            sys.stderr.write(f"it ended with {code}: {self.output[-TAIL:]}\n")
        return code

    async def wait(self) -> int:
        """Wait until it has ended; returns the exit code."""
        assert self.process is not None
        async with asyncio.timeout(STOP_SECONDS):
            code = await self.process.wait()
        self.process = None
        return code

    async def dump(self) -> str:
        """Return where the daemon and this program stand, to explain why they do not go on. The daemon may be dead."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGUSR2)
            await clock.sleep(DUMP_SECONDS)
        logs = sorted((self.state / "logs").glob("*")) if (self.state / "logs").is_dir() else []
        parts = {
            "daemon": f"{self.process}",
            "what it printed": self.output[-TAIL:],
            **{str(log): log.read_text(errors="replace")[-TAIL:] for log in logs},
            "tasks of the harness": task_stacks(asyncio.all_tasks()),
            "threads of the harness": thread_stacks(),
        }
        return "\n".join(f"=== {name}\n{text}" for name, text in parts.items())

    async def run(self, *arguments: str, stdin: str = "", seconds: float = START_SECONDS) -> Ran:
        """`goclaw --config … <arguments>`, to its end."""
        if self._can_fork:
            return await self._run_forked(arguments, stdin, seconds)
        words = [sys.executable, "-m", *self._command(*arguments)]
        return await run_command(words, self._environment(), ROOT, stdin, seconds)

    async def _run_forked(self, arguments: Sequence[str], stdin: str, seconds: float) -> Ran:
        began = clock.monotonic()
        reading, writing = os.pipe()
        with (
            os.fdopen(reading) as stdin_end,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            with os.fdopen(writing, "w", encoding="utf-8") as told:
                told.write(stdin)  # less than a pipe holds
            files = {0: stdin_end.fileno(), 1: out.fileno(), 2: err.fileno()}
            process = await forking.template().start(self._command(*arguments), self._environment(), files)
            try:
                async with asyncio.timeout(seconds):
                    code = await process.wait()
            except (TimeoutError, asyncio.CancelledError):
                process.kill()
                await process.wait()
                raise
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode())
        return Ran(code, said[0], said[1], clock.monotonic() - began)

    def read(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the daemon's database, whether it runs or not."""
        path = self.state / "goclaw.db"
        if self.store_environment:
            return on_postgres.query(path, statement)
        if not path.exists():
            return []
        with closing(sqlite3.connect(path, timeout=10)) as database:
            return database.execute(statement).fetchall()

    def integrity(self) -> str:
        """What SQLite finds wrong in the daemon's database; `ok`: nothing. Postgres looks after its own."""
        return "ok" if self.store_environment else str(self.read("PRAGMA integrity_check")[0][0])

    @property
    def store_environment(self) -> Mapping[str, str]:
        """The variable for the schema that this run wants; empty: SQLite, or what the configuration says."""
        address = "" if "store" in self.config else on_postgres.address_of(self.state / "goclaw.db")
        return {"GOCLAW_STORE": address} if address else {}

    def _command(self, *arguments: str, module: str = "goclaw") -> Sequence[str]:
        config = ["--config", str(self.config_path)] if self.config_path.exists() else []
        return [module, *config, *arguments]

    @property
    def _can_fork(self) -> bool:
        """A process with a module path of its own has to be started from nothing."""
        return self.forks and forking.IS_POSSIBLE and "PYTHONPATH" not in self.environment

    def _environment(self) -> dict[str, str]:
        """Nothing of the machine that runs the tests: no key, no token, no folder of its user."""
        path = os.environ.get("PATH", os.defpath)
        home = {"HOME": str(self.folder), "PYTHONPATH": str(ROOT), "GOCLAW_STATE_DIR": str(self.state)}
        if self.module != "goclaw":
            home["CRASH_TRIGGER"] = str(self.trigger)
        home |= self.store_environment
        # A port where nobody answers: an Ollama of this machine must not be found.
        home["OLLAMA_HOST"] = "http://127.0.0.1:9"
        return {"PATH": path, **home, **canaries.ENVIRONMENT, **self.environment}


@asynccontextmanager
async def installation(
    folder: Path, telegram: FakeTelegram | None = None, model_url: str = "", *, forks: bool = False, **config: Any
) -> AsyncIterator[Installation]:
    """An installation with these parts; a daemon that still runs at the end is killed."""
    settings: dict[str, Any] = {"workspace": str(folder / "work"), **config}
    if telegram:
        settings["telegram"] = {"token": telegram.token, "base_url": telegram.base_url, "groups": GROUPS, **UNLIMITED}
    if model_url:
        settings["models"] = {"agent": SPEC, "options": {SPEC: {"images": True, "context_window": 1_000_000}}}
        settings["providers"] = {"openai-chat": {"base_url": model_url, "api_key": canaries.PROVIDER_KEY}}
    settings["tools"] = {"exec": {"env": {"SERVICE_TOKEN": canaries.EXEC_TOKEN}}} | settings.get("tools", {})
    made = Installation(folder, settings, forks=forks)
    made.write_config()
    try:
        yield made
    finally:
        if made.process is not None:
            await made.kill()
    sent = [call.parameters for call in telegram.calls] if telegram else []
    await asyncio.to_thread(canaries.check, folder, sent, token=telegram.token if telegram else "")


@asynccontextmanager
async def replicas_on(
    store: str,
    folder: Path,
    telegram: FakeTelegram,
    model_url: str,
    names: Sequence[str],
    users: Mapping[str, Mapping[str, Any]],
) -> AsyncIterator[list[Installation]]:
    """Installations on one schema of Postgres, with a state folder each, one workspace and the same users."""
    async with AsyncExitStack() as stack:
        made = list[Installation]()
        for name in names:
            opening = installation(folder / name, telegram, model_url, store=store, workspace=str(folder / "work"))
            home = await stack.enter_async_context(opening)
            home.write_users(users)
            made.append(home)
        yield made
