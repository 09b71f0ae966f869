"""Whether anything grows: the beginning of the measured time against its end, and the figures of the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.figures import Json
from benchmarks.soak.model import SoakModel
from benchmarks.soak.people import People, Said
from benchmarks.soak.telegram import SoakTelegram
from benchmarks.soak.watch import Sample, Watch

MOST_MEMORY = 2.0
"""MiB of growth."""
MOST_DRIFT = 0.15
"""Of the overhead's p99."""
MOST_OBJECTS = 0.05
"""Of the objects that the collector watches; conversations are of changing length."""
SHARE = 0.15
"""Of the measured time at each end that is compared: single moments say little."""
SLACK = 4
"""Tasks, threads and descriptors: what was first needed under load and stays."""


@dataclass(frozen=True)
class Span:
    """The time that counts, in seconds after the beginning."""

    begin: float
    """Before that, caches fill and conversations grow to their length."""
    end: float

    @property
    def first(self) -> tuple[float, float]:
        """Its first part."""
        return self.begin, self.begin + SHARE * (self.end - self.begin)

    @property
    def last(self) -> tuple[float, float]:
        """Its last part."""
        return self.end - SHARE * (self.end - self.begin), self.end


def growth(samples: Sequence[Sample], span: Span, value: Callable[[Sample], float]) -> tuple[float, float]:
    """The median of a figure in the first part and in the last."""
    parts = [
        [value(sample) for sample in samples if begin <= sample.at <= end] for begin, end in (span.first, span.last)
    ]
    return (median(parts[0]), median(parts[1])) if all(parts) else (0.0, 0.0)


def overheads(people: People, model: SoakModel, telegram: SoakTelegram, began: float) -> list[tuple[float, float]]:
    """When each plain message was answered, and the milliseconds that this took without the model's own time.

    Counted are messages that had their chat for themselves and that no fault touched: the others wait as they should.
    """
    found = []
    for name, said in people.said.items():
        handed, answered = telegram.handed.get(said.update), telegram.answered.get(name)
        if handed is None or answered is None or not _is_plain(said) or model.requests[name] != 1:
            continue
        if any(said.at - 5 <= at <= answered for at in telegram.faults.touched[said.act.chat]):
            continue
        found.append((answered - began, 1000 * (answered - handed - model.seconds[name])))
    return found


def _is_plain(said: Said) -> bool:
    return said.act.kind == "plain" and said.alone and said.act.chat > 0


def p99(values: Sequence[float]) -> float:
    """The 99th percentile; 0 of too few."""
    return quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else 0.0


def drift(measured: Sequence[tuple[float, float]], span: Span) -> tuple[float, float]:
    """p99 in the first third of the span and in its last."""
    third = (span.end - span.begin) / 3
    first = [value for at, value in measured if span.begin <= at <= span.begin + third]
    last = [value for at, value in measured if span.end - third <= at <= span.end]
    return p99(first), p99(last)


def counted_faults(watch: Watch) -> list[str]:
    """What may not be at any speed: among it that there is more at rest after the run than there was before.

    At rest, because each turn has its tasks and descriptors, and how many turns run at a moment is chance.
    """
    found = [f"stuck at {sample.at:.0f} s: {sample.stuck}" for sample in watch.samples if sample.stuck][:3]
    found += [f"nobody handled: {line[:300]}" for line in watch.unretrieved[:3]]
    if watch.samples and watch.samples[-1].unhandled:
        found.append(f"{watch.samples[-1].unhandled} errors that nobody handled")
    figures: dict[str, Callable[[Sample], float]] = {
        "tasks": lambda sample: sample.tasks,
        "threads": lambda sample: sample.threads,
        "descriptors": lambda sample: sample.descriptors,
    }
    for name, value in figures.items():
        before, after = at_rest(watch, value)
        if after > before * 1.1 + SLACK:
            found.append(f"{name} grew from {before:g} to {after:g}")
    return found


def at_rest(watch: Watch, value: Callable[[Sample], float]) -> tuple[float, float]:
    """A figure before anybody wrote, and after everything was answered."""
    return value(watch.samples[0]), value(watch.samples[-1])


def timed_faults(watch: Watch, span: Span, measured: Sequence[tuple[float, float]]) -> list[str]:
    """What a long run on a quiet machine must show."""
    found = []
    before, after = growth(watch.samples, span, lambda sample: sample.memory)
    if after - before > MOST_MEMORY:
        found.append(f"memory grew by {after - before:.1f} MiB, from {before:.1f} to {after:.1f}")
    objects = [counted["total"] for at, counted in watch.objects if at >= span.begin]
    if len(objects) > 1 and objects[-1] > objects[0] * (1 + MOST_OBJECTS):
        found.append(f"objects grew from {objects[0]} to {objects[-1]}")
    first, last = drift(measured, span)
    if first and last > first * (1 + MOST_DRIFT):
        found.append(f"p99 of the overhead drifted from {first:.1f} to {last:.1f} ms")
    return found


def grown_types(watch: Watch, span: Span) -> Json:
    """The types of which there are more at the end than at the beginning of the span."""
    counted = [objects for at, objects in watch.objects if at >= span.begin]
    if len(counted) < 2:
        return {}
    first, last = counted[0], counted[-1]
    more = {name: [first.get(name, 0), count] for name, count in last.items() if count > first.get(name, 0)}
    return dict(sorted(more.items(), key=lambda item: item[1][0] - item[1][1])[:25])


def percentiles(values: Sequence[float]) -> Json:
    """p50, p95, p99 and the longest, in milliseconds."""
    if len(values) < 2:
        return {"count": len(values)}
    cuts = quantiles(values, n=100, method="inclusive")
    shown = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(values)}
    return {"count": len(values), **{name: round(value, 1) for name, value in shown.items()}}
