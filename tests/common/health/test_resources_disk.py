"""What the state folder takes is measured, said in words, and not measured again for a minute."""

from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.health.resources import KEEP_SECONDS, LOW_BYTES, REMEDY, DiskGauge, DiskUse, amount, measure


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A state folder with something of everything."""
    state = tmp_path / "state"
    (state / "blobs" / "media").mkdir(parents=True)
    (state / "logs").mkdir()
    for name, size in {
        "goclaw.db": 1000,
        "goclaw.db-wal": 200,
        "memory.db": 30,
        "blobs/media/a": 5000,
        "logs/goclaw.log": 600,
        "logs/goclaw.log.1": 60,
        "config.yaml": 7,
    }.items():
        (state / name).write_bytes(b"x" * size)
    return Config(state_dir=state)


def test_everything_is_counted_once(config: Config) -> None:
    found = measure(config)
    assert (found.database, found.media, found.logs) == (1230, 5000, 660)
    assert found.free > 0


def test_a_folder_that_does_not_exist_yet_takes_nothing(tmp_path: Path) -> None:
    found = measure(Config(state_dir=tmp_path / "not" / "yet"))
    assert (found.database, found.media, found.logs) == (0, 0, 0)
    assert found.free > 0


async def test_it_is_measured_at_most_once_a_minute(config: Config, clock: SteppedClock) -> None:
    gauge = DiskGauge(config, clock)
    assert (await gauge.use()).database == 1230
    config.database_path.write_bytes(b"x" * 2000)
    clock.advance(KEEP_SECONDS - 1)
    assert (await gauge.use()).database == 1230
    clock.advance(1)
    assert (await gauge.use()).database == 2230


def test_plenty_of_room_is_no_reason_to_worry() -> None:
    plenty = DiskUse(12_000_000, 40_000_000, 3_000_000, 87_000_000_000)
    assert plenty.text() == "12 MB database, 40 MB media, 3.0 MB logs; 87 GB free"
    assert plenty.numbers() == {
        "database": 12_000_000,
        "media": 40_000_000,
        "logs": 3_000_000,
        "free": 87_000_000_000,
        "low": False,
    }


@pytest.mark.parametrize(
    ("database", "free", "words"),
    [
        (1_000_000, LOW_BYTES - 1, "no message can be stored"),
        (9_000_000_000, 8_000_000_000, "less space is free than the database uses"),
    ],
)
def test_little_room_is_a_warning_with_the_reason(database: int, free: int, words: str) -> None:
    use = DiskUse(database, 0, 0, free)
    assert words in use.warning
    assert use.text().endswith(f"{use.warning}; {REMEDY}")
    assert use.numbers()["low"] is True


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 kB"), (96_000, "96 kB"), (999_600, "1.0 MB"), (12_000_000, "12 MB"), (87e9, "87 GB"), (1.5e12, "1,500 GB")],
)
def test_bytes_are_said_in_words(count: float, words: str) -> None:
    assert amount(int(count)) == words
