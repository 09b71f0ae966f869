"""Moments as people write and read them."""

from datetime import datetime

import pytest

from goclaw.common.core.timezones import find_zone
from goclaw.conversation.schedules.times import (
    NoTime,
    format_moment,
    in_zone,
    parse_moment,
    shown_shortly,
)

BERLIN = find_zone("Europe/Berlin")
NOW = datetime(2026, 11, 23, 19, 0, tzinfo=BERLIN).timestamp()
"""A Monday."""


def at(text: str) -> str:
    return format_moment(parse_moment(text, NOW, BERLIN), BERLIN)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("20m", "Monday 23 November 2026, 19:20 (Europe/Berlin)"),
        ("1h30m", "Monday 23 November 2026, 20:30 (Europe/Berlin)"),
        ("90s", "Monday 23 November 2026, 19:01:30 (Europe/Berlin)"),
        ("8:00", "Tuesday 24 November 2026, 08:00 (Europe/Berlin)"),
        ("19:01", "Monday 23 November 2026, 19:01 (Europe/Berlin)"),
        ("tomorrow 8:00", "Tuesday 24 November 2026, 08:00 (Europe/Berlin)"),
        ("2026-12-24T18:00", "Thursday 24 December 2026, 18:00 (Europe/Berlin)"),
        ("2026-12-24 18:00", "Thursday 24 December 2026, 18:00 (Europe/Berlin)"),
        ("2026-12-24T18:00+00:00", "Thursday 24 December 2026, 19:00 (Europe/Berlin)"),
    ],
)
def test_a_moment_is_read_in_the_persons_zone(written: str, read: str) -> None:
    assert at(written) == read


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("soon", "`soon` is not a time"),
        ("", "is not a time"),
        ("25:00", "not a time of day"),
        ("8:61", "not a time of day"),
        ("2026-12-24", "has no time of day"),
        ("2020-01-01T08:00", "has passed"),
        ("0m", "has passed"),
        ("2060-01-01T08:00", "more than ten years away"),
        ("999999w", "more than ten years away"),
        ("20 m", "is not a time"),
        ("-5m", "is not a time"),
    ],
)
def test_what_names_no_moment_is_refused_with_the_reason(written: str, why: str) -> None:
    with pytest.raises(NoTime, match=why):
        at(written)


def test_a_time_in_the_gap_of_spring_is_the_end_of_the_gap_and_one_in_the_repeated_hour_its_first() -> None:
    spring, autumn = datetime.fromisoformat("2027-03-28T02:30"), datetime.fromisoformat("2026-10-25T02:30")
    assert in_zone(spring, BERLIN).isoformat() == "2027-03-28T03:00:00+02:00"
    assert in_zone(autumn, BERLIN).isoformat() == "2026-10-25T02:30:00+02:00"
    # A zone whose clock changes by half an hour.
    lord_howe = find_zone("Australia/Lord_Howe")
    assert in_zone(datetime.fromisoformat("2026-10-04T02:10"), lord_howe).isoformat() == "2026-10-04T02:30:00+11:00"


def test_a_near_moment_is_shown_shortly() -> None:
    def short(year: int, month: int, day: int) -> str:
        return shown_shortly(datetime(year, month, day, 8, tzinfo=BERLIN).timestamp(), BERLIN, NOW)

    assert [short(2026, 11, day) for day in (22, 23, 24)] == ["yesterday 08:00", "08:00", "tomorrow 08:00"]
    assert [short(2026, 12, 1), short(2027, 1, 1)] == ["Tue 1 Dec 08:00", "Fri 1 Jan 2027 08:00"]
