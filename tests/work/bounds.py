"""The table of counts (`counts.txt`): its rows, and the bound that each of them sets."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.work.measure import ALL, IDLE, IDLE_SECONDS, Work

TABLE = Path(__file__).with_name("counts.txt")
PYTHON = (3, 11)
"""The Python whose counts the table holds: another one calls and imports differently."""
BY_PYTHON = ("calls", "modules", "system-calls")
PRINTED_ONLY = ("library-calls", "wakes", "system-calls.read")
"""`read` among them: a loop that slept reads its own pipe for each thread that wakes it, and only then."""
FEW = 20
"""A system call that is made less often has no row of its own."""
SHARE, ROOM, LITTLE_ROOM = 0.1, 5, 1
"""A bound is so much above what was measured, whichever is more: schedules and buffers differ from run to run."""
LOOSE = {(ALL, "tasks"): 0.3}
"""On a busy machine messages that came together are fetched one by one, each with its request and its tasks."""
STEADY = ("transactions", "log-lines")
"""Kinds that get little room: what is written together may now and then fall apart in two."""
SAME = ("durable-transactions", "fsyncs", "requests")
"""What was little already may stay so, and does not differ from turn to turn: the bound is what was measured."""
GOALS: Mapping[tuple[str, str], int] = {
    ("plain", "transactions"): 3,
    ("long", "transactions"): 3,
    ("idle", "system-calls"): 600,
}
"""Goals that are not half of what was: inbox (FULL); model step, promise of the delivery and end of the turn
(FULL); receipt."""
HEAD = f"{'scenario':9}{'count':28}{'5651ec5':>9}{'goal':>9}{'now':>9}"


@dataclass(frozen=True)
class Row:
    """One count: what it was at commit 5651ec5, where it shall go, and what was measured when the bound was set."""

    scenario: str
    kind: str
    before: int
    goal: int
    now: int

    @property
    def bound(self) -> int:
        """The highest count that passes."""
        if self.kind in SAME and self.scenario != ALL:
            return self.now
        room = LITTLE_ROOM if self.kind in STEADY else ROOM
        # An idle minute is reckoned from a part of it, in which there is that room.
        room *= round(60 / IDLE_SECONDS) if self.scenario == IDLE else 1
        return max(int(self.now * (1 + LOOSE.get((self.scenario, self.kind), SHARE))), self.now + room)

    def __str__(self) -> str:
        """The row as a line of the table."""
        return f"{self.scenario:9}{self.kind:28}{self.before:9}{self.goal:9}{self.now:9}"


def rows() -> list[Row]:
    """The table."""
    lines = (line.split() for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#"))
    return [
        Row(scenario, kind, int(before), int(goal), int(now))
        for scenario, kind, before, goal, now in filter(None, lines)
        if scenario != "scenario"
    ]


def goal_of(scenario: str, kind: str, before: int) -> int:
    """Half of what was, unless the goal is another one."""
    return GOALS.get((scenario, kind), before if kind in SAME else before // 2)


def measured_rows(found: Mapping[str, Work], before: Mapping[tuple[str, str], int]) -> Iterator[Row]:
    """The rows of what was measured now; those of a system call only where it is often made in one turn, or idle."""
    for scenario, work in found.items():
        for kind, now in work.totals.items():
            was = before.get((scenario, kind), 0)
            if kind not in PRINTED_ONLY and ("." not in kind or (scenario != ALL and max(now, was) >= FEW)):
                yield Row(scenario, kind, was, goal_of(scenario, kind, was), now)


def excesses(found: Mapping[str, Work], table: Iterable[Row]) -> Iterator[str]:
    """A text for each count above its bound, with the places that have most of it.

    And for each that is gone: what is not counted any more, since the probe came off, would hold every bound.
    """
    for row in table:
        totals = found[row.scenario].totals
        if row.now >= FEW and "." not in row.kind and is_taken(row.kind, totals) and not totals.get(row.kind, 0):
            yield f"{row.scenario} {row.kind}: nothing was counted (it was {row.now}); is it counted at all?"
        if is_comparable(row.kind) and (now := totals.get(row.kind, 0)) > row.bound:
            yield f"{row.scenario} {row.kind}: {now}, at most {row.bound} (it was {row.now}); most of it:" + "".join(
                f"\n{number:8}  {place}" for place, number in top(found[row.scenario], row.kind, 8)
            )


def is_comparable(kind: str) -> bool:
    """Whether this Python's count can be held against the table."""
    return sys.version_info[:2] == PYTHON or not kind.startswith(BY_PYTHON)


def is_taken(kind: str, totals: Mapping[str, int]) -> bool:
    """Whether a kind can be counted here: system calls need a tracer."""
    return kind not in ("system-calls", "fsyncs") or "system-calls" in totals


def top(work: Work, kind: str, most: int) -> list[tuple[str, int]]:
    """The places with most of a kind."""
    places = work.places.get(kind.partition(".")[0], {})
    return sorted(places.items(), key=lambda item: -item[1])[:most]
