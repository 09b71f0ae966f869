"""Samples of the daemon's last hour, for plots. Taken only where there is a page that shows them."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.health.resources import resident_memory

EVERY_SECONDS = 30.0
MAX_SAMPLES = 120


@record
class Sample:
    """Measurements at one moment."""

    at: float
    """Epoch seconds."""
    values: Mapping[str, float]


class Samples:
    """The latest samples, while `run` goes on."""

    def __init__(self, clock: Clock, measure: Callable[[], Mapping[str, float]]) -> None:
        self._clock = clock
        self._measure = measure
        self._kept: deque[Sample] = deque(maxlen=MAX_SAMPLES)

    def of(self, name: str) -> Sequence[tuple[float, float]]:
        """Return moments and values of one measurement, oldest first."""
        return [(sample.at, sample.values[name]) for sample in self._kept if name in sample.values]

    async def run(self) -> None:
        """Take samples forever."""
        while True:
            self._kept.append(Sample(self._clock.now(), self._measure()))
            await self._clock.sleep(EVERY_SECONDS)


def resident_megabytes() -> float:
    """Return the memory that the process has; 0 where the system does not say."""
    return (resident_memory() or 0) / 1e6
