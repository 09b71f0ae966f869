"""Measures the daemon from outside: memory, what its status counts, what its log says."""

import json
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Json
from benchmarks.stage import pss_kibibytes
from goclaw.clients.tui.client import attach
from goclaw.common.auth.users import login_name
from tests.acceptance.daemon import Installation
from tests.acceptance.waiting import clock

SAMPLE_SECONDS = 10.0
DUMP_SAMPLES = 6
"""Every so many samples the daemon counts its objects by type: that holds it up for a moment."""
UNRETRIEVED = ("never retrieved", "nobody handled this", "was never awaited", "Task was destroyed")


@dataclass
class Sample:
    """The daemon at one moment."""

    at: float
    """Seconds after the beginning."""
    memory: float
    """MiB: proportional set size of the daemon and its broker."""
    tasks: int
    threads: int
    descriptors: int
    """Without connections."""
    connections: int
    """To the model and to Telegram: kept open for a while after a burst; their pools bound them."""
    unhandled: int
    late: float
    """Milliseconds that the event loop was late at worst in the last minutes."""
    turns: int
    deliveries: int
    stuck: Sequence[Any]


@dataclass
class Watch:
    """Everything that was measured."""

    home: Installation
    began: float
    samples: list[Sample] = field(default_factory=list)
    objects: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    """By type, with the time of the count."""
    logged: Counter[str] = field(default_factory=Counter)
    """Warnings and errors by their first words."""
    unretrieved: list[str] = field(default_factory=list)
    _read: int = 0
    _family: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The broker is there from the start; commands come and go, and are no part of the figure."""
        assert self.home.process is not None
        daemon = psutil.Process(self.home.process.pid)
        self._family = [daemon.pid, *(child.pid for child in daemon.children(recursive=True))]

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await clock.sleep(SAMPLE_SECONDS - (clock.monotonic() - self.began) % SAMPLE_SECONDS)
            await self.sample()

    async def sample(self) -> Sample:
        """Measure now."""
        assert self.home.process is not None
        if len(self.samples) % DUMP_SAMPLES == 0:
            self.home.process.send_signal(signal.SIGUSR2)
        async with attach(self.home.state / "goclaw.sock", f"tui:{login_name()}", limit=1) as client:
            health = (await client.status())["health"]
        counts = health["counts"]
        connections = len(psutil.Process(self.home.process.pid).net_connections("inet"))
        self.samples.append(
            Sample(
                at=round(clock.monotonic() - self.began, 1),
                memory=round(sum(map(pss_kibibytes, self._alive())) / 1024, 2),
                tasks=counts["tasks"],
                threads=counts["threads"],
                descriptors=counts["descriptors"] - connections,
                connections=connections,
                unhandled=counts["unhandled_errors"],
                late=counts["event_loop_late_ms"],
                turns=health["turns"],
                deliveries=health["deliveries"],
                stuck=list(health["stuck"]),
            )
        )
        self.read_log()
        return self.samples[-1]

    def read_log(self) -> None:
        """What was logged since the last time."""
        path = self.home.state / "logs" / "goclaw.log"
        if path.stat().st_size < self._read:  # a new file was begun
            self._take(path.with_name(f"{path.name}.1"))
            self._read = 0
        self._take(path)
        self.unretrieved += [line for line in self.home.output.splitlines() if any(map(line.__contains__, UNRETRIEVED))]

    def _take(self, path: Path) -> None:
        with path.open("rb") as file:
            file.seek(self._read)
            content = file.read()
        content = content[: content.rfind(b"\n") + 1]
        self._read += len(content)
        for line in content.splitlines():
            self._take_line(line.decode())

    def _take_line(self, line: str) -> None:
        record: Json = json.loads(line)
        if any(words in line for words in UNRETRIEVED):
            self.unretrieved.append(line[:2_000])
        if "objects" in record:
            counted = (row.split(maxsplit=1) for row in record["objects"].splitlines())
            at = round(clock.monotonic() - self.began, 1)
            self.objects.append((at, {name: int(count) for count, name in counted}))
        elif record["level"] in ("warning", "error", "critical"):
            self.logged[f"{record['level']}: {' '.join(str(record['event']).split()[:7])}"] += 1

    def _alive(self) -> list[int]:
        return [pid for pid in self._family if psutil.pid_exists(pid)]
