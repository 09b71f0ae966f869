"""Hours of the day: across midnight, and where the clock is changed."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from goclaw.common.core.hours import hours

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("08:00-22:00", ["08:00", "21:59"], ["07:59", "22:00", "00:00"]),
        ("22:00-07:00", ["22:00", "23:59", "00:00", "06:59"], ["07:00", "21:59"]),
        ("00:00-24:00", ["00:00", "23:59"], []),
        ("22:00-24:00", ["22:00", "23:59"], ["00:00", "21:59"]),
    ],
)
def test_hours_contain_their_beginning_and_not_their_end(text: str, inside: list[str], outside: list[str]) -> None:
    for time in inside + outside:
        assert hours(text).contain(at(f"2026-11-24T{time}"), BERLIN) == (time in inside), time


@pytest.mark.parametrize(
    ("text", "moment", "end"),
    [
        ("22:00-07:00", at("2026-11-24T23:00"), at("2026-11-25T07:00")),
        ("22:00-07:00", at("2026-11-24T03:00"), at("2026-11-24T07:00")),
        ("20:00-24:00", at("2026-11-24T23:00"), at("2026-11-25T00:00")),
        ("22:00-07:00", at("2027-03-27T23:00"), at("2027-03-28T07:00")),  # a night of eight hours
        ("01:00-02:30", at("2026-10-25T02:10"), at("2026-10-25T02:30")),
        ("01:00-02:30", at("2026-10-25T02:10", 1), at("2026-10-25T02:30", 1)),  # the hour that comes twice
    ],
)
def test_hours_end_on_the_clock_on_the_wall(text: str, moment: float, end: float) -> None:
    assert hours(text).contain(moment, BERLIN)
    assert hours(text).next_end(moment, BERLIN) == end


@pytest.mark.parametrize(
    "text", ["", "8-22", "08:00", "25:00-26:00", "08:60-09:00", "24:00-08:00", "08:00-08:00", "00:00-24:01"]
)
def test_what_names_no_hours_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"08:00-22:00|00:00-24:00"):
        hours(text)
