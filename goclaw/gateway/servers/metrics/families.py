"""The metrics by name: counts of `counting`, counters of other parts, and measures of the moment.

Families are made afresh for each scrape, in a registry of our own: nothing of the library's global registry, of its
multiprocess mode or of its default collectors is used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from goclaw.common.core.events import Outcome
from goclaw.common.core.records import record
from goclaw.common.health.resources import DiskUse
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.replicas import StoreUse
from goclaw.gateway.servers.metrics.counting import TOOL_OUTCOMES, Counts, Histogram

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
LATE = "event_loop_late_ms"
UNHANDLED = "unhandled_errors"


@record
class Measures:
    """The daemon at the moment of a scrape. None: it cannot be measured here, and the metric is left out."""

    vitals: Mapping[str, float]
    """`Vitals.counts`."""
    memory: int | None = None
    disk: DiskUse | None = None
    store: StoreUse | None = None


class Families(Collector):
    """One scrape."""

    def __init__(self, counts: Counts, outbox: Outbox, now: Measures) -> None:
        self._counts = counts
        self._outbox = outbox
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._of_turns()
        yield from self._of_tools()
        yield from self._of_models()
        yield from self._of_deliveries()
        yield from self._of_the_daemon()
        if self._now.store is not None:
            yield from _of_the_store(self._now.store)

    def _of_turns(self) -> Iterator[Metric]:
        counts = self._counts
        # `rate` sees no increase in a series that begins at 1.
        turns = {outcome.value: counts.turns[outcome.value] for outcome in Outcome}
        yield _counter("turns", "Turns that ended, by outcome.", ["outcome"], _rows(turns))
        yield _histogram("turn_seconds", "Time of a turn.", counts.turn_seconds)
        yield _histogram("queue_wait_seconds", "Time from a message to the start of its turn.", counts.queue_wait)
        yield _histogram(
            "turn_overhead_seconds", "Time of a turn that is no model, no tool and no person's.", counts.overhead
        )

    def _of_tools(self) -> Iterator[Metric]:
        counts, labels = self._counts, ["tool", "outcome"]
        calls = {(tool, outcome): 0 for tool in counts.tool_seconds for outcome in TOOL_OUTCOMES} | counts.tool_calls
        yield _counter("tool_calls", "Calls of tools, by outcome.", labels, calls.items())
        yield _counter("tool_seconds", "Time of tools at work.", ["tool"], _rows(counts.tool_seconds))

    def _of_models(self) -> Iterator[Metric]:
        counts, labels = self._counts, ["model", "outcome"]
        yield _counter("model_requests", "Requests to models, by outcome.", labels, counts.model_requests.items())
        yield _counter("model_tokens", "Tokens, as providers count.", ["model", "kind"], counts.model_tokens.items())
        times = HistogramMetricFamily("goclaw_model_seconds", "Time of requests to models.", labels=["model"])
        for model, histogram in counts.model_seconds.items():
            times.add_metric([model], list(histogram.buckets()), histogram.sum)
        yield times

    def _of_deliveries(self) -> Iterator[Metric]:
        counts = self._outbox.counts.items()
        ended = [(key, count) for key, count in counts if key[1] != "retried"]
        retried = sum(count for (_, outcome), count in counts if outcome == "retried")
        yield _counter("deliveries", "Deliveries that arrived or were given up.", ["channel", "outcome"], ended)
        retries = _rows({"model": self._counts.model_retries, "delivery": retried})
        yield _counter("retries", "Tries that were made again.", ["of"], retries)
        yield _gauge("deliveries_waiting", "Deliveries under way or waiting.", self._outbox.waiting())

    def _of_the_daemon(self) -> Iterator[Metric]:
        vitals, memory, disk = self._now.vitals, self._now.memory, self._now.disk
        if LATE in vitals:
            yield _gauge("loop_late_seconds", "Worst delay of the event loop in five minutes.", vitals[LATE] / 1_000)
        if UNHANDLED in vitals:
            yield _counter("unhandled_errors", "Errors that no part handled.", [], [((), vitals[UNHANDLED])])
        if memory is not None:
            yield _gauge("memory_bytes", "Memory of the daemon's process (RSS).", memory)
        if disk is not None:
            yield _gauge("database_bytes", "Database, its log and the memory index.", disk.database)
            yield _gauge("disk_free_bytes", "Free bytes where the state folder is.", disk.free)


def _of_the_store(use: StoreUse) -> Iterator[Metric]:
    yield _gauge("gateways", "Living gateways that share the store.", sum(each.lives for each in use.replicas))
    owned = sum(each.sessions for each in use.replicas if each.is_own)
    yield _gauge("sessions_owned", "Conversations that this gateway works on.", owned)
    yield _gauge("notification_queue_ratio", "Part of Postgres's queue of notices that is full.", use.notices)
    yield _gauge("store_connections", "Connections of these gateways to Postgres.", use.connections)


def exposition(counts: Counts, outbox: Outbox, now: Measures) -> bytes:
    """Return all metrics in the text format (`CONTENT_TYPE`)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(counts, outbox, now))
    return generate_latest(registry)


Rows = Iterable[tuple[Sequence[str], float]]
"""Values of the labels, and the number."""


def _rows(counts: Mapping[str, float]) -> Rows:
    return [((label,), count) for label, count in counts.items()]


def _counter(name: str, about: str, labels: list[str], rows: Rows) -> Metric:
    family = CounterMetricFamily(f"goclaw_{name}", about, labels=labels)
    for values, count in rows:
        family.add_metric(values, count)
    return family


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"goclaw_{name}", about, value=value)


def _histogram(name: str, about: str, histogram: Histogram) -> Metric:
    buckets = list(histogram.buckets())
    return HistogramMetricFamily(f"goclaw_{name}", about, buckets=buckets, sum_value=histogram.sum)
