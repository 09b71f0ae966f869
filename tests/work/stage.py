"""A counted daemon (`probe`) between a fake Telegram and a fake model, and what is counted of it.

A `Count` is what was done between two moments, by kind and then by place: function, statement, system call …
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.model import EchoModel, echo_model
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram

Json = dict[str, Any]
Count = Mapping[str, Mapping[str, int]]

ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).with_name("probe.py")
TREE = Path(os.environ.get("WORK_TREE", ROOT))
"""The tree that is counted: an older one is counted by the same program."""
SPEC = "openai-chat:echo"
UNLIMITED = {"chat_messages_per_second": 1000, "messages_per_second": 1000, "group_messages_per_minute": 60_000}
"""Telegram's limits, out of the way: waiting for them would be counted."""
START_SECONDS = 60.0
QUIET_SECONDS = 0.7
"""For so long nothing may be written, asked or begun: then the index has taken in the turn, too."""
LOOK_SECONDS = 0.05
LINE = re.compile(r"(\d+) +(?:(\w+)\(|<\.\.\. \w+ resumed)")
MARK = re.compile(r"/work-mark-(\w+)")
UNCOUNTED = (
    "futex,futex_waitv,epoll_wait,epoll_pwait,epoll_pwait2,epoll_ctl,epoll_create1,"
    "mmap,munmap,brk,madvise,mprotect,mremap,mlock,munlock,msync"
)
"""System calls of waiting and of memory, as strace lists them: how many there are is the scheduler's business."""


@cache
def tracer() -> str:
    """The path of a strace that may trace here; empty: there is none, or no ptrace."""
    path = shutil.which("strace")
    if not path:
        return ""
    done = subprocess.run([path, "-f", "-o", os.devnull, "true"], capture_output=True, timeout=10, check=False)
    return path if done.returncode == 0 else ""


@dataclass
class Stage:
    """The daemon and its world; `count` is what there was so far, `since` what came after."""

    folder: Path
    telegram: FakeTelegram
    model: EchoModel
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: int = 0

    async def ask(self, question: str) -> Any:
        """Ask the probe."""
        self.writer.write(f"{question}\n".encode())
        async with asyncio.timeout(START_SECONDS):
            return json.loads(await self.reader.readline())

    async def count(self) -> Count:
        """What was done so far, by kind and place. Each count is a mark in the trace of system calls, too."""
        self.asked += 1
        mark = f"m{self.asked}"
        inside: Count = await self.ask(mark)
        return {
            **inside,
            "requests": Counter(call.method for call in self.telegram.calls)
            | Counter({"model": len(self.model.requests)}),
            "log-lines": self._log_lines(),
            "marks": {mark: 1},
        }

    async def since(self, before: Count) -> Count:
        """What was done since then; call it when the daemon is quiet again."""
        after = await self.count()
        found: dict[str, Mapping[str, int]] = {
            kind: {place: more for place, number in places.items() if (more := number - before[kind].get(place, 0))}
            for kind, places in after.items()
            if kind != "marks"
        }
        if tracer():
            found["system-calls"] = await self._system_calls(next(iter(before["marks"])), next(iter(after["marks"])))
        return found

    async def quiet(self) -> None:
        """Wait until nothing more follows of what was begun."""
        last, since = None, clock.monotonic()
        async with asyncio.timeout(START_SECONDS):
            while clock.monotonic() - since < QUIET_SECONDS:
                now = (len(self.telegram.calls), len(self.model.requests), await self.ask("pulse"))
                if now != last:
                    last, since = now, clock.monotonic()
                await clock.sleep(LOOK_SECONDS)

    def _log_lines(self) -> Counter[str]:
        logs = [*sorted((self.folder / "state" / "logs").glob("*")), self.folder / "daemon.out"]
        lines = (line for log in logs if log.is_file() for line in log.read_text(errors="replace").splitlines())
        return Counter(plain(line) for line in lines)

    async def _system_calls(self, first: str, last: str) -> Mapping[str, int]:
        trace = self.folder / "trace"
        # The tracer writes each line when the call is over, but other threads' a moment later.
        text = await asyncio.to_thread(trace.read_text, "utf-8", "replace")
        listener = str((await self.ask("facts"))["listener"])
        return system_calls(text, first, last, listener)


def system_calls(trace: str, first: str, last: str, listener: str) -> Counter[str]:
    """Count a trace's system calls between two marks by name, without the listener's own."""
    found: Counter[str] = Counter()
    inside = False
    for line in trace.splitlines():
        if mark := MARK.search(line):
            inside = mark[1] != last and (inside or mark[1] == first)
        elif inside and (match := LINE.match(line)) and match[2] and match[1] != listener:
            found[match[2]] += 1
    return found


def plain(line: str) -> str:
    """A log line without what differs each time: its event alone."""
    try:
        said = json.loads(line)
    except ValueError:
        said = line
    text = said.get("event") or said.get("message") or line if isinstance(said, dict) else line
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", str(text))[:120]


def settings(folder: Path, telegram: FakeTelegram, model: EchoModel) -> Json:
    """The configuration of the daemon: its defaults, but for where the fakes are."""
    return {
        "state_dir": str(folder / "state"),
        "workspace": str(folder / "work"),
        "telegram": {"token": telegram.token, "base_url": telegram.base_url, **UNLIMITED},
        "models": {"agent": [SPEC], "options": {SPEC: {"context_window": 1_000_000}}},
        "providers": {"openai-chat": {"base_url": model.url, "api_key": "none"}},
        "compaction": {"max_messages": 0},
        # As with a hosted model: a server on the loopback costs nothing, so it would make checkpoints and notes, too.
        "checkpoint": {"main_model": False},
        "memory": {"flush": {"main_model": False}},
    }


def prepare(
    folder: Path, telegram: FakeTelegram, model: EchoModel, people: Mapping[int, int], more: Mapping[str, Any]
) -> None:
    """Write the configuration and users.json; `people` are Telegram ids with the messages of their history."""
    (folder / "state").mkdir(mode=0o700)
    (folder / "work").mkdir()
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**settings(folder, telegram, model), **more}))
    path.chmod(0o600)
    users: Json = {f"telegram:{person}": {} for person in people}
    (folder / "state" / "users.json").write_text(json.dumps({"users": users}))
    for person, messages in people.items():
        if messages:
            # By the tree that is counted, whose tables these are.
            text = (
                "import asyncio, pathlib; from benchmarks.history import write_history;"
                f"asyncio.run(write_history(pathlib.Path({str(folder / 'state' / 'goclaw.db')!r}),"
                f" ['telegram:{person}'], {messages}))"
            )
            subprocess.run([sys.executable, "-c", text], cwd=TREE, env=environment(folder), timeout=60, check=True)


def environment(folder: Path) -> dict[str, str]:
    """Nothing of the machine that counts: no key, no token, no folder of its user, no Ollama."""
    kept = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "OLLAMA_HOST": "http://127.0.0.1:9"}
    return kept | {"PYTHONPATH": str(TREE), "PYTHONHASHSEED": "0"}


@asynccontextmanager
async def open_stage(people: Mapping[int, int], **more: Any) -> AsyncIterator[Stage]:
    """Start the fakes and the daemon, and wait until it is ready; `people` as in `prepare`, `more` configuration."""
    with tempfile.TemporaryDirectory(prefix="goclaw-work-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        async with FakeTelegram() as telegram, echo_model() as model:
            await asyncio.to_thread(prepare, folder, telegram, model, people, more)
            command = [sys.executable, "-P", str(PROBE), str(folder / "probe")]
            command += ["--config", str(folder / "config.yaml"), "gateway"]
            if tracer():
                command[:0] = [
                    tracer(),
                    "-f",
                    "-qq",
                    "--seccomp-bpf",
                    "-e",
                    f"trace=!{UNCOUNTED}",
                    "-o",
                    str(folder / "trace"),
                ]
            with (folder / "daemon.out").open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *command, cwd=folder, env=environment(folder), stdout=output, stderr=output, start_new_session=True
                )
            try:
                async with asyncio.timeout(START_SECONDS):
                    # The first poll goes out early; the menu of commands is set when everything else is there.
                    await eventually(lambda: telegram.called("setMyCommands") or process.returncode, START_SECONDS)
                    assert process.returncode is None, (folder / "daemon.out").read_text()
                    reader, writer = await asyncio.open_unix_connection(str(folder / "probe"), limit=2**24)
                with closing(writer):
                    yield Stage(folder, telegram, model, reader, writer)
            finally:
                await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """End the daemon, and with it its tracer."""
    if process.returncode is None:
        os.killpg(process.pid, 15)
    try:
        async with asyncio.timeout(START_SECONDS):
            await process.wait()
    except TimeoutError:
        os.killpg(process.pid, 9)
        await process.wait()
