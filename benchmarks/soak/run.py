"""One soak: the world, the daemon, the people, the watch, and the report that is written while it goes on."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.figures import Json
from benchmarks.soak.books import SPEC, Outcome, close_books
from benchmarks.soak.model import soak_model
from benchmarks.soak.people import People
from benchmarks.soak.script import FAULT_SECONDS, GROUPS, PEOPLE, acts, breaks, troubles
from benchmarks.soak.telegram import SoakTelegram
from benchmarks.soak.terminal import Terminal
from benchmarks.soak.verdict import (
    Span,
    at_rest,
    counted_faults,
    drift,
    grown_types,
    growth,
    overheads,
    percentiles,
    timed_faults,
)
from benchmarks.soak.watch import Watch
from goclaw.common.core.supervise import background
from tests.acceptance.daemon import Installation
from tests.acceptance.scenes import open_work
from tests.acceptance.waiting import clock, eventually

SETTLE_SECONDS = 3.0
"""After a start, until nothing of it is under way: the sandbox is tried, models are looked for."""
DRAIN_SECONDS = 60.0
REPORT_SECONDS = 30.0
MOST_CONTEXT, LEAST_CONTEXT = 80, 8
"""Messages after which a context is compacted."""
MOST_KEPT = 20
"""Messages that are kept then at least, or half of the context."""


@dataclass
class Soak:
    """One run."""

    folder: Path
    seed: str
    seconds: float
    rate: float
    output: Path | None = None
    fault_seconds: float = FAULT_SECONDS
    outcome: Outcome = field(default_factory=Outcome)
    faults: list[str] = field(default_factory=list)

    async def run(self, *, times: bool = True) -> list[str]:
        """Returns what is wrong; without `times` only what is wrong at any speed."""
        async with AsyncExitStack() as stack:
            self.telegram = SoakTelegram()
            await stack.enter_async_context(self.telegram)
            self.model = await stack.enter_async_context(soak_model(self.seed))
            self.home = Installation(self.folder, self._config())
            self._furnish()
            stack.push_async_callback(self._end)
            await self.home.start(self.telegram)
            await clock.sleep(SETTLE_SECONDS)
            self.began = clock.monotonic()
            self.people = People(self.telegram, self.seed)
            self.terminal = Terminal(self.home.state / "goclaw.sock")
            self.watch = Watch(self.home, self.began)
            await self.watch.sample()
            await self._live(stack)
            await self._drain()
            if (code := await self.home.stop()) != 0:
                self.outcome.left_open.append(f"the daemon ended with {code}")
            self.watch.read_log()
        self.faults = self.judge(times=times)
        self._report("finished")
        return self.faults

    async def _live(self, stack: AsyncExitStack) -> None:
        """Let everything happen; what follows the script ends with it, the rest goes on."""
        pauses = breaks(self.seed, self.seconds)
        await stack.enter_async_context(background(self.people.look(), "people who read"))
        await stack.enter_async_context(background(self.watch.run(), "watch"))
        self._at_terminal = asyncio.create_task(self.terminal.run(pauses, self.began), name="person at the terminal")
        stack.callback(self._at_terminal.cancel)
        async with background(self._tell(), "report"), asyncio.TaskGroup() as group:
            group.create_task(self.people.follow(acts(self.seed, self.seconds, self.rate), self.began))
            group.create_task(self.people.spoil(troubles(self.seed, self.seconds, self.fault_seconds), self.began))

    async def _drain(self) -> None:
        """Nobody writes any more; what was written is answered."""
        self.telegram.faults.waiting.clear()
        try:
            await eventually(self._is_quiet, DRAIN_SECONDS)
        except TimeoutError:
            self.outcome.left_open += open_work(self.home)
            sys.stderr.write(await self.home.dump())
        self._at_terminal.cancel()
        await asyncio.wait({self._at_terminal})
        await self.watch.sample()

    def _is_quiet(self) -> bool:
        waits = self.telegram.world.updates or self.terminal.open_ones()[:-1]
        return not waits and not open_work(self.home)

    async def _end(self) -> None:
        if self.home.process is not None:
            await self.home.kill()

    def judge(self, *, times: bool) -> list[str]:
        """Everything that is wrong."""
        self.terminal.said = [name for name in self.terminal.said if name not in self.terminal.open_ones()[-1:]]
        self.outcome = close_books(self.people, self.model.requests, self.terminal, self.outcome.left_open)
        faults = [*self.outcome.faults, *counted_faults(self.watch)]
        faults += self.telegram.hasty_polls[:5]
        return faults + (timed_faults(self.watch, self.span, self._overheads()) if times else [])

    @property
    def span(self) -> Span:
        """What is measured: after a third of the run."""
        return Span(self.seconds / 3, self.seconds)

    @property
    def context(self) -> int:
        """How long conversations become: so long that all of them are at their full length when the span begins."""
        rows = 1.6 * self.rate * self.span.begin / (len(PEOPLE) + len(GROUPS))
        return int(min(MOST_CONTEXT, max(LEAST_CONTEXT, rows)))

    def _overheads(self) -> list[tuple[float, float]]:
        return overheads(self.people, self.model, self.telegram, self.began)

    async def _tell(self) -> None:
        """How far it is, again and again."""
        while True:
            await clock.sleep(REPORT_SECONDS)
            last = self.watch.samples[-1] if self.watch.samples else None
            sys.stdout.write(
                f"{clock.monotonic() - self.began:6.0f} s: {len(self.people.said)} messages, "
                f"{len(self.telegram.answered)} answers, {last}\n"
            )
            sys.stdout.flush()
            self._report("running")

    def _report(self, state: str) -> None:
        if self.output is None:
            return
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.output.write_text(json.dumps(self.report() | {"state": state}, indent=1) + "\n", "utf-8")

    def report(self) -> Json:
        """All figures."""
        measured, span, samples = self._overheads(), self.span, self.watch.samples
        in_span = [value for at, value in measured if at >= span.begin]
        first, last = drift(measured, span)
        return {
            "seed": self.seed,
            "seconds": self.seconds,
            "rate": self.rate,
            "measured_from_second": span.begin,
            "faults": self.faults,
            "outcome": asdict(self.outcome),
            "memory_mib": list(growth(samples, span, lambda sample: sample.memory)),
            "tasks_at_rest": list(at_rest(self.watch, lambda sample: sample.tasks)),
            "descriptors_at_rest": list(at_rest(self.watch, lambda sample: sample.descriptors)),
            "overhead_ms": percentiles(in_span),
            "overhead_p99_ms_first_and_last_third": [round(first, 1), round(last, 1)],
            "polls_per_second": round(len(self.telegram.polls) / self.seconds, 2),
            "telegram_faults": dict(self.telegram.faults.happened.most_common()),
            "model_faults": dict(self.model.failed.most_common()),
            "flood_limits_passed": dict(self.telegram.floods),
            "terminal": {"messages": len(self.terminal.said), "breaks": self.terminal.losses},
            "script_late_seconds": round(self.people.late, 2),
            "log": dict(self.watch.logged.most_common(30)),
            "grown_types": grown_types(self.watch, span),
            "objects": [[at, counted["total"]] for at, counted in self.watch.objects],
            "samples": [list(asdict(sample).values()) for sample in samples],
        }

    def _config(self) -> Json:
        """As a user would have it, but that every write is asked about, and that contexts come to their full length."""
        return {
            "workspace": str(self.folder / "work"),
            "telegram": {
                "token": self.telegram.token,
                "base_url": self.telegram.base_url,
                "groups": list(GROUPS),
            },
            "models": {"agent": SPEC, "options": {SPEC: {"images": True, "context_window": 200_000}}},
            "providers": {"openai-chat": {"base_url": self.model.url, "api_key": "sk-none"}},
            "compaction": {"max_messages": self.context, "min_messages": min(MOST_KEPT, self.context // 2)},
            "policy": {"stricter": {"medium": "ask"}},
        }

    def _furnish(self) -> None:
        self.home.write_config()
        self.home.write_users({f"telegram:{user}": {"name": f"User {user}"} for user in PEOPLE})
        self.home.workspace.mkdir(parents=True, exist_ok=True)
        (self.home.workspace / "given.txt").write_text("The report is ready on Friday.\n" * 20)
