"""Three minutes of the soak: the counts, not the times, which need a quiet machine (`python -m benchmarks.soak`)."""

from pathlib import Path

import pytest

from benchmarks.soak.run import Soak
from benchmarks.soak.script import acts, breaks, troubles

SECONDS, RATE = 180.0, 5.0
WITH_DRAIN = 400


@pytest.mark.slow
@pytest.mark.timeout(WITH_DRAIN)
async def test_under_load_and_in_bad_weather_everything_is_answered_once_and_nothing_sticks_or_grows(
    folder: Path,
) -> None:
    soak = Soak(folder, "ci", SECONDS, RATE)
    assert await soak.run(times=False) == []
    assert soak.outcome.answered > 0.8 * SECONDS * RATE
    assert sum(soak.telegram.faults.happened.values()) > 20 and sum(soak.model.failed.values()) > 20
    assert soak.terminal.losses > 3


def test_the_seed_fixes_what_people_write_and_what_goes_wrong() -> None:
    for made in (lambda seed: acts(seed, 60, RATE), lambda seed: troubles(seed, 60), lambda seed: breaks(seed, 60)):
        assert list(made("1")) == list(made("1")) != list(made("2"))
