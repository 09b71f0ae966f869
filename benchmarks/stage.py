"""The stage: the fake world and the daemon under test, each a process of its own, its state in a folder on disk."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil
import yaml

from benchmarks.fake_telegram import TOKEN
from benchmarks.figures import Json
from benchmarks.gateways import GOCLAW, ROOT, Gateway
from goclaw.common.config.schema import Config

PEOPLE = tuple(range(1_000_001, 1_000_051))
"""Telegram ids of the fifty people who write in most benchmarks."""
CROWD = tuple(range(1_000_001, 1_001_001))
"""Telegram ids of the thousand people in users.json; the fifty are the first."""
OUTPUT = "output.txt"
"""What a gateway says, in its state folder."""
START_SECONDS = 60.0
STOP_SECONDS = 30.0
NO_LIMIT = 1_000_000
"""In place of Telegram's own limits, which would be all that a benchmark of many messages shows."""
WIRES = {"openai-chat": "/v1", "anthropic": ""}
"""Provider and what its base URL ends in."""
NO_INDEX: Json = {"memory": {"transcripts": False}}
"""The index is made once in the life of an installation; here gigabytes would be read for it while turns are timed."""


@dataclass
class World:
    """The fakes' process, seen from outside."""

    url: str
    http: aiohttp.ClientSession

    async def model(
        self,
        *,
        deltas: int = 4,
        pieces: Sequence[str] = (),
        think: float = 0.0,
        pause: float = 0.0,
        command: str = "",
        marked: bool = False,
        together: int = 0,
    ) -> None:
        """How the model answers from now on; see `FakeModels`."""
        answers = {"deltas": deltas, "pieces": list(pieces), "think": think, "pause": pause}
        await self._post("model", answers | {"command": command, "marked": marked, "together": together})

    async def talk(self, people: Sequence[int], messages: int, text: str = "What do you think of this?") -> Json:
        """See `fake_world`. Fails when a reply was not the model's whole answer."""
        answer = await self._post("talk", {"people": list(people), "messages": messages, "text": text, "whole": True})
        if answer["wrong"]:
            raise RuntimeError(f"{len(answer['wrong'])} replies are not the model's answer: {answer['wrong'][0]!r}")
        return answer

    async def command(self, person: int, text: str) -> Json:
        """A person's slash command; the reply is `wrong`'s only text."""
        return await self._post("talk", {"people": [person], "messages": 1, "text": text, "whole": False})

    async def state(self) -> Json:
        """See `fake_world`."""
        async with self.http.get(f"{self.url}/sim/state") as response:
            found: Json = await response.json()
            return found

    async def _post(self, name: str, body: Json) -> Json:
        async with self.http.post(f"{self.url}/sim/{name}", json=body) as response:
            response.raise_for_status()
            found: Json = await response.json()
            return found


@dataclass(frozen=True)
class Daemon:
    """The daemon's process, seen from outside."""

    process: psutil.Process
    started: float
    """When it was started, on the machine's monotonic clock."""
    config: Path
    """Its configuration; the state folder is where that is."""

    def family(self) -> list[psutil.Process]:
        """The daemon and its children."""
        return [self.process, *self.process.children(recursive=True)]

    def megabytes(self) -> float:
        """Proportional set size of the family, as the kernel counts it (smaps_rollup); of 1,000,000 bytes."""
        return sum(pss_kibibytes(process.pid) for process in self.family()) * 1024 / 1_000_000

    def cpu_seconds(self) -> float:
        """User and system time of the family so far, threads and ended children included."""
        return sum(cpu_seconds(process) for process in self.family())


def cpu_seconds(process: psutil.Process) -> float:
    """User and system time of a process and its ended children; 0 for one that has just ended: its parent has it."""
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def pss_kibibytes(pid: int) -> int:
    """The `Pss:` line of a process; the kernel's kB are of 1,024 bytes."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    """Start the fakes."""
    command = [sys.executable, "-m", "benchmarks.fake_world"]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = json.loads(await process.stdout.readline())["url"]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as http:
            yield World(url, http)
    finally:
        await end(process)


def settings(folder: Path, url: str, wire: str) -> Json:
    """The configuration of the daemon under test: its defaults, but for what README.md lists."""
    spec = f"{wire}:bench"
    limits = ("messages_per_second", "chat_messages_per_second", "group_messages_per_minute")
    return {
        "state_dir": str(folder),
        "telegram": {"token": TOKEN, "base_url": url, **dict.fromkeys(limits, NO_LIMIT)},
        "models": {"agent": [spec], "options": {spec: {"context_window": 1_000_000}}},
        "providers": {wire: {"api_key": "none", "base_url": url + WIRES[wire]}},
        "compaction": {"max_messages": 0},
    }


def prepare(folder: Path, url: str, wire: str, changes: Json | None = None) -> tuple[Path, Config]:
    """Write the configuration, with other sections than usual if need be, and users.json.

    Returns the former's path and what it says.
    """
    content = settings(folder, url, wire) | (changes or {})
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    path.chmod(0o600)
    users: Json = {f"telegram:{person}": {} for person in CROWD}
    (folder / "users.json").write_text(json.dumps({"users": users}), "utf-8")
    return path, Config.model_validate(content)


def environment_of(config: Path) -> dict[str, str]:
    """What the daemon and its clients get of the environment: little, and a home of their own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return kept | {"HOME": str(config.parent), "PYTHONPATH": str(ROOT)}


@asynccontextmanager
async def open_daemon(world: World, config: Path, gateway: Gateway = GOCLAW) -> AsyncIterator[Daemon]:
    """Start the daemon and wait for its first poll; end it with SIGTERM."""
    command = [gateway.python, *gateway.options, "-m", gateway.module, "--config", str(config), gateway.command]
    said = config.with_name(OUTPUT)
    with said.open("wb") as output:
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command, cwd=config.parent, env=environment_of(config), stdout=output, stderr=output
        )
    try:
        while (await world.state())["first_poll"] is None:
            if process.returncode is not None or time.monotonic() - started > START_SECONDS:
                raise RuntimeError(f"the daemon did not start:\n{said.read_text('utf-8')}")
            await asyncio.sleep(0.02)
        yield Daemon(psutil.Process(process.pid), started, config)
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process of ours, if need be by force."""
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class Stage(NamedTuple):
    """A world and the gateway that answers in it."""

    world: World
    daemon: Daemon


@asynccontextmanager
async def open_stage(wire: str = "openai-chat", gateway: Gateway = GOCLAW) -> AsyncIterator[Stage]:
    """A new world and a new gateway in an empty state folder."""
    with state_folder() as folder:
        async with open_stage_in(folder, gateway, wire=wire) as stage:
            yield stage


@asynccontextmanager
async def open_stage_in(
    folder: Path, gateway: Gateway = GOCLAW, *, wire: str = "openai-chat", changes: Json | None = None
) -> AsyncIterator[Stage]:
    """A new world, and a new gateway on what the state folder has; `changes`: other sections than usual."""
    async with open_world() as world:
        config, _ = prepare(folder, world.url, wire, changes)
        async with open_daemon(world, config, gateway) as daemon:
            yield Stage(world, daemon)


@contextmanager
def state_folder() -> Iterator[Path]:
    """A folder on disk until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)
