"""What happens to each of several daemons on one Postgres, from a seed: how its lives end, and what it outlives."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.acceptance.crash_points import POINTS
from tests.acceptance.fuzz import FAULTS

START, TIME, TERM = "start", "time", "SIGTERM"
PAUSE, RESET, HOLE, RESTART = "pause", "reset", "black hole", "restart of Postgres"
TROUBLES = {PAUSE: 0.26, RESET: 0.045, HOLE: 0.045, RESTART: 0.028}
"""What a daemon outlives, and in which share of the lives: of 1,000 lives more than the 200 pauses, 50 cut lines and
20 restarts that are to be tried."""
ENDS = {START: 0.12, TIME: 0.34, TERM: 0.08}
"""How a life ends, and how often; the others end at a point."""
STALLS = (2.05, 3.2)
"""How long a pause and a black hole last, in times of the stall."""
MOST_PASSINGS = 3


@dataclass(frozen=True)
class Life:
    """One process, from its start to its end."""

    end: str
    """`START`, `TIME`, `TERM`, or the name of a point."""
    share: float
    """Of the longest life (or start): when the end comes."""
    passing: int
    trouble: str
    """Of `TROUBLES`, or empty."""
    trouble_share: float
    """Of the longest life: when it comes."""
    early: bool
    """It comes while the process starts."""
    stalls: float
    """How long it lasts, in times of the stall."""
    ends_with_reset: bool
    """What was held back by a black hole is lost, and does not arrive late; before a pause, an edit is put off."""
    rest: float
    """Share of the longest rest, until the next process starts."""
    faults: Sequence[str]
    """Of Telegram's network."""


def life_of(seed: str, number: int) -> Life:
    """The life with this number, counted over all daemons."""
    random = Random(f"{seed}:replica life:{number}")
    order = Random(f"{seed}:points").sample(list(POINTS), len(POINTS))
    return Life(
        end=_drawn(random, ENDS) or order[number % len(order)],
        share=random.random(),
        passing=random.randint(1, MOST_PASSINGS),
        trouble=_drawn(random, TROUBLES),
        trouble_share=random.random(),
        early=random.random() < 0.15,
        stalls=random.uniform(*STALLS),
        ends_with_reset=random.random() < 0.5,
        rest=random.random() ** 2,
        faults=random.sample(list(FAULTS), random.choice((0, 0, 0, 1))),
    )


def _drawn(random: Random, shares: "dict[str, float]") -> str:
    """One of the names by its share; empty: none of them."""
    chance = random.random()
    for name, share in shares.items():
        chance -= share
        if chance < 0:
            return name
    return ""
