"""What a benchmark yields: figures with a target, and the arithmetic that they share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.gateways import Gateway

Json = dict[str, Any]
Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Options:
    """How thorough a run is."""

    quick: bool = False
    """Fewer repetitions: to see whether something is broken, not to publish."""
    peers: tuple[Gateway, ...] = ()
    """Other people's gateways that are measured beside GoClaw and the floor."""

    def times(self, usual: int) -> int:
        """Repetitions of what is repeated `usual` times in a whole run: a quarter of them in a quick one."""
        return max(1, usual // 4) if self.quick else usual


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    name: str
    unit: str
    measured: float
    target: float | None = None
    """None: shown because it explains another figure."""
    better: Better = "lower"
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Goes into the JSON only: repetitions, all rounds."""
    aim: float | None = None
    """What is wished beyond the target."""
    note: str = ""
    """Stands behind the row: what the figure is made of."""

    @property
    def reached(self) -> bool:
        """Whether the target is met; one without a target always is."""
        if self.target is None:
            return True
        return self.measured <= self.target if self.better == "lower" else self.measured >= self.target

    def as_json(self) -> Json:
        """The figure as it is kept."""
        return {
            "figure": self.name,
            "unit": self.unit,
            "target": self.target,
            "aim": self.aim,
            "better": self.better,
            "measured": round(self.measured, 3),
            "reached": self.reached,
            "note": self.note,
            "detail": dict(self.detail),
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    rank = round(percent / 100 * (len(ordered) - 1))
    return ordered[rank]


def spread(name: str, unit: str, rounds: Sequence[Sequence[float]], p50: float, p95: float) -> list[Figure]:
    """Two figures, p50 and p95 of the round with the lowest p50: the one that the rest of the machine disturbed least.

    Args:
        rounds: measurements in `unit`, one list per round.
        p50, p95: the targets.
    """
    best = min(rounds, key=lambda values: percentile(values, 50))
    detail = {
        "repetitions": len(best),
        "max": round(max(best), 3),
        "rounds": [{f"p{n}": round(percentile(values, n), 3) for n in (50, 95)} for values in rounds],
    }
    return [
        Figure(f"{name}, p50", unit, percentile(best, 50), p50, detail=detail),
        Figure(f"{name}, p95", unit, percentile(best, 95), p95),
    ]
