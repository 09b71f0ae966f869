"""kill -9 at random moments and at every named point, while many people talk; then the books are checked.

    python -m tests.acceptance.fuzz --kills 1000 --worlds 2 --seed 1 --output benchmarks/results/kill-<date>.json
    python -m tests.acceptance.fuzz --point "sent before" --kills 5

The seed fixes what people write, which faults the network has, how slowly the model answers, and when and where each
daemon dies; what comes of it depends on the machine's clock, as in life. Worlds are run side by side.
"""

import argparse
import asyncio
import faulthandler
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from tests.acceptance.crash_points import POINTS
from tests.acceptance.daemon import RUNNING, Installation, installation
from tests.acceptance.ledger import Outcome, close_books
from tests.acceptance.model import FILE, EchoModel, echo_model
from tests.acceptance.people import CHATS, MEDIUM_ASKS, People, ended
from tests.acceptance.scenes import open_work
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram

IN_START, AT_POINT = 0.15, 0.5
"""Share of the kills that hit a daemon while it starts, and at a point; the others come at any time."""
LONGEST_START, LONGEST_FORKED_START = 1.2, 0.3
"""Seconds after its start at which a daemon is killed while it starts, at most."""
LONGEST_LIFE = 0.9
"""Seconds after its first poll that a daemon lives at most."""
PATIENCE = 4.0
"""Seconds that a daemon gets to come to its point."""
MOST_PASSINGS = 3
SLOWEST_PIECE = 0.2
"""Seconds that the model takes for a piece of an answer, at most: some of them are long enough to be previewed."""
DRAIN_SECONDS = 60.0
LIFE_SECONDS = 90.0
"""In which a life is over, its start on a busy machine included."""
HANG_SECONDS = 300.0
"""After which this program says where it stands, should even its event loop hang."""
NEEDED = {"stop": "/stop", "step settle": "/stop", "settled": "/stop", "compaction": "/compact"}
"""What a person must write, or the daemon would seldom come to these points."""
SUMMED = ("messages", "answered_once", "stopped", "marked", "marked_twice_shown", "effects", "unknown", "previews_left")
"""What the report counts over all worlds."""
FAULTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "429 of a message": ("sendMessage", {"status": 429, "retry_after": 1}),
    "502 of a message": ("sendMessage", {"status": 502, "description": "Bad Gateway"}),
    "message cut before": ("sendMessage", {"cut": "before"}),
    "message cut after": ("sendMessage", {"cut": "after"}),
    "429 of an edit": ("editMessageText", {"status": 429, "retry_after": 1}),
    "edit cut after": ("editMessageText", {"cut": "after"}),
    "429 of a draft": ("sendMessageDraft", {"status": 429, "retry_after": 1}),
    "poll cut after": ("getUpdates", {"cut": "after"}),
    "502 of a poll": ("getUpdates", {"status": 502, "description": "Bad Gateway"}),
    "poll without JSON": ("getUpdates", {"body": b"<html>"}),
}


@dataclass(frozen=True)
class Fate:
    """How a daemon ends, from the seed."""

    kind: str
    """`start`, `time`, or the name of a point."""
    share: float
    """Of the longest start, or of the longest life; for a point of the shutdown that is the time until SIGTERM."""
    passing: int
    faults: Sequence[str]


def fate(seed: str, life: int, point: str | None) -> Fate:
    """The end of the daemon with this number."""
    random = Random(f"{seed}:life:{life}")
    # Each point has its turn, in an order of the seed.
    order = Random(f"{seed}:points").sample(list(POINTS), len(POINTS))
    chance, name = random.random(), order[life % len(order)]
    passing, share = random.randint(1, MOST_PASSINGS), random.random()
    faults = random.sample(list(FAULTS), random.choice((0, 0, 1, 2)))
    if point or chance >= 1 - AT_POINT:
        return Fate(point or name, share, passing, faults)
    return Fate("start" if chance < IN_START else "time", share, passing, faults)


@dataclass
class World:
    """People, a Telegram, a model, and a daemon that does not live long."""

    home: Installation
    telegram: FakeTelegram
    model: EchoModel
    seed: str
    point: str | None = None
    found: Outcome = field(default_factory=Outcome)
    kills_at: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    resumes: list[float] = field(default_factory=list)

    async def run(self, kills: int) -> Outcome:
        """Kill so many daemons, let the last one finish, and check the books."""
        self.prepare()
        people = People(self.telegram, self.seed)
        reacting = asyncio.create_task(people.react(), name="people")
        try:
            for life in range(kills):
                await self.bounded(self.one_life(people, life), f"life {life}", LIFE_SECONDS)
            self.telegram.faults.waiting.clear()
            await self.bounded(self.last_life(), "the last life", LIFE_SECONDS + DRAIN_SECONDS)
        finally:
            await ended(reacting)
        close_books(self.found, people, self.home)
        return self.counted()

    def prepare(self) -> None:
        """Whom the daemon knows, and what it finds in its workspace."""
        users = sorted({user for habits in CHATS.values() for user in habits.users})
        self.home.write_users({f"telegram:{user}": {"name": f"User {user}"} for user in users})
        self.home.module = "tests.acceptance.crashing"
        self.home.workspace.mkdir(parents=True, exist_ok=True)
        (self.home.workspace / FILE).write_text("given")

    def counted(self) -> Outcome:
        """The outcome with what is counted on the way."""
        self.found.kills = sum(self.kills_at.values())
        self.found.kills_at = dict(self.kills_at)
        self.found.faults_injected = dict(self.injected)
        self.found.model_requests = len(self.model.requests)
        self.found.strange += [f"asked without a message: {messages}" for messages in self.model.unasked]
        self.found.resume = percentiles(self.resumes)
        return self.found

    async def bounded(self, work: Any, name: str, seconds: float) -> None:
        """Do `work`; if it does not end in time, note where everything stands, and go on with the next daemon."""
        faulthandler.dump_traceback_later(HANG_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            self.found.stuck.append(f"{name}: {open_work(self.home)[:20]}")
            sys.stderr.write(f"--- {self.seed}: {name} does not end\n{await self.home.dump()}\n")
            if self.home.process is not None:
                await self.home.kill()
        finally:
            faulthandler.cancel_dump_traceback_later()

    async def one_life(self, people: People, number: int) -> None:
        """A daemon, from its start to its sudden end."""
        end = fate(self.seed, number, self.point)
        await people.talk(number, NEEDED.get(end.kind.rpartition(" ")[0], ""))
        for name in end.faults:
            method, fault = FAULTS[name]
            self.telegram.fail(method, **fault)
            self.injected[name] += 1
        if end.kind in POINTS:
            self.home.arm(end.kind, end.passing)
        if end.kind == "start":
            await self.home.spawn()
            await clock.sleep(end.share * (LONGEST_FORKED_START if self.home.forks else LONGEST_START))
        else:
            began, asked = clock.monotonic(), len(self.model.requests)
            await self.start(began, asked, may_die=end.kind in POINTS)
            await self.until_the_end(end)
        await self.home.kill()
        reached = end.kind not in POINTS or not self.home.trigger.exists()
        self.home.disarm()
        self.kills_at[end.kind if reached else "unreached"] += 1

    async def start(self, began: float, asked: int, *, may_die: bool) -> None:
        """A daemon, until it polls; one that is armed may die before."""
        polls, running = len(self.telegram.called("getUpdates")), self.home.output.count(RUNNING)
        await self.home.spawn()
        process = self.home.process
        assert process is not None
        resumed = 0.0

        def ready() -> bool:
            nonlocal resumed
            polled = len(self.telegram.called("getUpdates")) > polls and self.home.output.count(RUNNING) > running
            if not resumed and (polled or len(self.model.requests) > asked):
                resumed = clock.monotonic() - began
            return polled or process.returncode is not None

        await eventually(ready, LIFE_SECONDS)
        if process.returncode is not None and not may_die:
            raise AssertionError(f"it ended with {process.returncode}: {self.home.output[-2000:]}")
        if resumed:
            self.resumes.append(resumed)

    async def until_the_end(self, end: Fate) -> None:
        """Return when the daemon is to be dead, or is."""
        process = self.home.process
        assert process is not None
        if end.kind not in POINTS:
            await clock.sleep(end.share * LONGEST_LIFE)
            return
        deadline = clock.monotonic() + PATIENCE
        if end.kind.startswith("shutdown"):
            await clock.sleep(end.share * LONGEST_LIFE)
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        while process.returncode is None and clock.monotonic() < deadline:
            await clock.sleep(0.01)

    async def last_life(self) -> None:
        """A daemon that may finish everything."""
        began, asked = clock.monotonic(), len(self.model.requests)
        await self.start(began, asked, may_die=False)
        try:
            await eventually(self.is_quiet, DRAIN_SECONDS)
        except TimeoutError:
            self.found.stuck += open_work(self.home)
            sys.stderr.write(f"--- {self.seed}: work is left\n{await self.home.dump()}\n")
        if (code := await self.home.stop()) != 0:
            self.found.unfinished.append(f"the last daemon ended with {code}")

    def is_quiet(self) -> bool:
        """Whether nothing is left to do."""
        return not self.telegram.world.updates and not open_work(self.home)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and the longest."""
    if len(seconds) < 2:
        return {"count": float(len(seconds))}
    cuts = quantiles(seconds, n=100, method="inclusive")
    found = {"count": len(seconds), "p50": cuts[49], "p95": cuts[94], "max": max(seconds)}
    return {name: round(value, 3) for name, value in found.items()}


def pause(seed: str, said: str, piece: int) -> float:
    """Seconds before a piece of an answer."""
    return float(Random(f"{seed}:pause:{said[:20]}:{piece}").random() ** 2 * SLOWEST_PIECE)


async def fuzz(
    folder: Path,
    kills: int,
    seed: str,
    point: str | None = None,
    worlds: list[World] | None = None,
    *,
    forks: bool = False,
) -> Outcome:
    """One run in its own world, which is put into `worlds`, so that others can watch it."""
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(FakeTelegram())
        model = await stack.enter_async_context(echo_model(lambda said, piece: pause(seed, said, piece)))
        made = installation(folder, telegram, model.url, forks=forks, policy=MEDIUM_ASKS)
        home = await stack.enter_async_context(made)
        world = World(home, telegram, model, seed, point)
        if worlds is not None:
            worlds.append(world)
        return await world.run(kills)


async def fuzz_side_by_side(
    folder: Path,
    kills: int,
    seed: str,
    *,
    worlds: int,
    point: str | None = None,
    report: "Report | None" = None,
    forks: bool = False,
) -> list[Outcome]:
    """Several worlds at once, the kills shared among them; `forks`: see `Installation`."""
    opened: list[World] = []
    shares = [kills // worlds + (number < kills % worlds) for number in range(worlds)]
    async with asyncio.TaskGroup() as group:
        runs = [
            group.create_task(fuzz(folder / str(number), share, f"{seed}.{number}", point, opened, forks=forks))
            for number, share in enumerate(shares)
        ]
        if report:
            await report.follow(opened, runs)
    return [run.result() for run in runs]


@dataclass
class Report:
    """The file that is written while the run goes on."""

    seed: str
    path: Path | None
    kills: int
    began: float = field(default_factory=clock.monotonic)

    async def follow(self, worlds: Sequence[World], runs: Sequence["asyncio.Task[Outcome]"]) -> None:
        """Say how far it is, again and again."""
        while not all(run.done() for run in runs):
            await asyncio.wait(runs, timeout=20)
            outcomes = [world.counted() for world in worlds]
            done = sum(outcome.kills for outcome in outcomes)
            stuck = sum(len(outcome.stuck) for outcome in outcomes)
            sys.stdout.write(f"{self.seconds():6.0f} s: {done} of {self.kills} kills, {stuck} waits that did not end\n")
            sys.stdout.flush()
            self.write(outcomes)

    def seconds(self) -> float:
        """Since the begin of the run."""
        return round(clock.monotonic() - self.began, 1)

    def write(self, outcomes: Sequence[Outcome]) -> str:
        """The report so far."""
        worlds = [asdict(outcome) | {"faults": outcome.faults} for outcome in outcomes]
        at = sum((Counter(outcome.kills_at) for outcome in outcomes), Counter[str]())
        total = {
            "seed": self.seed,
            "seconds": self.seconds(),
            "kills": sum(outcome.kills for outcome in outcomes),
            **{name: sum(getattr(outcome, name) for outcome in outcomes) for name in SUMMED},
            "resume_of_the_slowest_world": max(
                (outcome.resume for outcome in outcomes), key=lambda resume: resume.get("p95", 0.0), default={}
            ),
            "faults": [fault for outcome in outcomes for fault in outcome.faults],
            "points_never_reached": [name for name in POINTS if not at[name]],
            "kills_at": dict(at.most_common()),
        }
        text = json.dumps({**total, "worlds": worlds}, indent=2)
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(f"{text}\n")
        return text


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--worlds", type=int, default=2)
    parser.add_argument("--point", choices=list(POINTS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    report = Report(options.seed, options.output, options.kills)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = asyncio.run(
            fuzz_side_by_side(
                *(Path(folder), options.kills, options.seed),
                worlds=options.worlds,
                point=options.point,
                report=report,
            )
        )
    sys.stdout.write(f"{report.write(outcomes)}\n")
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
