"""Less than a minute of the soak: the counts, not the times, which need half an hour (`python -m benchmarks.soak`)."""

from pathlib import Path

import pytest

from benchmarks.soak.run import Soak
from benchmarks.soak.script import KINDS, acts, breaks, troubles

SEED, SECONDS, RATE, FAULT_SECONDS = "9", 50.0, 6.0, 1.0
"""So little time has more in it: everything that people do, and a fault of Telegram's each second."""
WITH_DRAIN = 150


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(WITH_DRAIN)
async def test_under_load_and_in_bad_weather_everything_is_answered_once_and_nothing_sticks_or_grows(
    folder: Path,
) -> None:
    soak = Soak(folder, SEED, SECONDS, RATE, fault_seconds=FAULT_SECONDS)
    assert await soak.run(times=False) == []
    assert soak.outcome.answered > 0.8 * SECONDS * RATE
    assert sum(soak.telegram.faults.happened.values()) > 20 and sum(soak.model.failed.values()) > 20
    assert soak.model.requests["summary"] > 20, "conversations become so long that they are compacted"
    assert soak.terminal.losses > 1


def test_so_little_time_has_everything_in_it_that_people_do() -> None:
    assert {act.kind for act in acts(SEED, SECONDS, RATE)} == set(KINDS)


def test_the_seed_fixes_what_people_write_and_what_goes_wrong() -> None:
    for made in (lambda seed: acts(seed, 60, RATE), lambda seed: troubles(seed, 60), lambda seed: breaks(seed, 60)):
        assert list(made("1")) == list(made("1")) != list(made("2"))
