"""The scenarios whose work is counted: a daemon idle, its warm turns, and all of them with what they leave to do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from tests.acceptance.waiting import clock
from tests.work.stage import Count, Stage, open_stage

PERSON, LONG_PERSON = 5, 6
LONG_HISTORY = 1_000
REPETITIONS = 3
IDLE_SECONDS = 5.0
"""Of an idle minute; what the daemon does more rarely shows in `python -m tests.work --idle 60`."""
FILE = "note.txt"
READ = f"call read {json.dumps({'path': FILE})}"
TURNS: Mapping[str, tuple[int, str]] = {
    "plain": (PERSON, "plain"),
    "tool": (PERSON, READ),
    "long": (LONG_PERSON, "plain"),
}
"""Scenarios that are turns: who writes, and what (see `tests.acceptance.model`)."""
EXEC: Mapping[str, tuple[int, str]] = {"exec": (PERSON, "exec")}
"""What a command costs depends on the machine's sandbox: it is printed, and has no bound."""
ALL, IDLE, START = "all", "idle", "start"
STARTED_SECONDS = 3.0
"""Since it is ready: what a start leaves to do later has begun then."""
DEFERRED_SECONDS = 17.0
"""Since the first turn: what turns left to do later is done then, and is counted with all of them."""
MAINTENANCE_SECONDS = 6.0
"""Since the last turn, for the same reason."""
SYNCS = ("fsync", "fdatasync")


@dataclass(frozen=True)
class Run:
    """What was done in some seconds."""

    count: Count
    seconds: float

    def totals(self) -> dict[str, int]:
        """The total of each kind, of each system call, and of what waits for the disk."""
        found = {kind: sum(places.values()) for kind, places in self.count.items()}
        written = self.count["transactions"]
        found["durable-transactions"] = sum(number for text, number in written.items() if text.startswith("FULL"))
        if (calls := self.count.get("system-calls")) is not None:
            found["fsyncs"] = sum(calls.get(name, 0) for name in SYNCS)
            found |= {f"system-calls.{name}": number for name, number in calls.items()}
        return found


@dataclass(frozen=True)
class Work:
    """What one scenario did: totals (of turns the median), and the places of the run in the middle."""

    totals: Mapping[str, int]
    places: Count


async def measure(turns: Mapping[str, tuple[int, str]], idle_seconds: float = IDLE_SECONDS) -> dict[str, Work]:
    """Count all scenarios, one after the other, on one daemon; the idle one as a minute."""
    async with open_stage({PERSON: 0, LONG_PERSON: LONG_HISTORY}) as stage:
        modules = (await stage.ask("facts"))["modules"]
        (stage.folder / "work" / FILE).write_text("The blue boat.\n")
        await clock.sleep(STARTED_SECONDS)
        await stage.quiet()
        idle = await idle_run(stage, idle_seconds)
        loaded = dict.fromkeys(await stage.ask("modules"), 1)
        began, before = clock.monotonic(), await stage.count()
        runs = {name: await runs_of(stage, name, *turns[name]) for name in turns if name in TURNS}
        await clock.sleep(max(MAINTENANCE_SECONDS, began + DEFERRED_SECONDS - clock.monotonic()))
        await stage.quiet()
        all_ = Run(await stage.since(before), clock.monotonic() - began)
        runs |= {name: await runs_of(stage, name, *turns[name]) for name in turns if name not in TURNS}
    rates = {kind: number / idle.seconds for kind, number in idle.totals().items()}
    return {
        START: Work({"modules": len(modules)}, {"modules": dict.fromkeys(modules, 1)}),
        IDLE: Work(
            {"modules": len(loaded)} | {kind: round(60 * rate) for kind, rate in rates.items()},
            {**idle.count, "modules": loaded},
        ),
        **{name: middle(runs[name], rates) for name in turns},
        ALL: middle([all_], rates),
    }


async def runs_of(stage: Stage, name: str, person: int, text: str) -> list[Run]:
    """The turns of one scenario, without the first one, which warms the daemon up."""
    return [await turn(stage, person, f"m{name}{number} {text}") for number in range(1 + REPETITIONS)][1:]


async def turn(stage: Stage, person: int, text: str) -> Run:
    """Let a person write, and count until nothing more follows."""
    began, before, messages = clock.monotonic(), await stage.count(), len(stage.telegram.sent(person))
    await stage.telegram.world.say(text, user=person)
    await stage.telegram.wait_sent(person, messages + 1)
    await stage.quiet()
    answer = stage.telegram.sent(person)[-1].text
    assert "(end)" in answer and "error" not in answer, answer
    count = await stage.since(before)
    return Run(count, clock.monotonic() - began)


async def idle_run(stage: Stage, seconds: float) -> Run:
    """Count for some seconds in which nobody writes."""
    began, before = clock.monotonic(), await stage.count()
    await clock.sleep(seconds)
    count = await stage.since(before)
    return Run(count, clock.monotonic() - began)


def middle(runs: Sequence[Run], idle_rates: Mapping[str, float]) -> Work:
    """The median of each total, and the places of the run with the median of calls.

    What the daemon does anyway in that time is taken off the totals: a slow machine has more of it in each turn.
    """
    each = [run.totals() for run in runs]
    kinds = sorted({kind for totals in each for kind in totals}, key=lambda kind: ("." in kind, kind))
    own = [
        {kind: max(0, totals.get(kind, 0) - round(idle_rates.get(kind, 0) * run.seconds)) for kind in kinds}
        for totals, run in zip(each, runs, strict=True)
    ]
    shown = sorted(runs, key=lambda run: run.totals()["calls"])[len(runs) // 2]
    return Work({kind: median_low(totals[kind] for totals in own) for kind in kinds}, shown.count)
