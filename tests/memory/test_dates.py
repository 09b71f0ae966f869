"""Queries name times, and days fit them more or less."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.memory.dates import (
    DAY_WORTH,
    LATER_WORTH,
    MONTH_WORTH,
    YEAR_WORTH,
    DateRange,
    NamedTime,
    fit,
    moment,
    named_times,
)

TODAY = date(2026, 3, 18)  # a Wednesday


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("What did Anna plan in May 2023?", NamedTime(2023, 5)),
        ("the trip of 8 May, 2023", NamedTime(2023, 5, 8)),
        ("what happened on July 3rd", NamedTime(None, 7, 3)),
        ("the 21st of december", NamedTime(None, 12, 21)),
        ("Sept. 2024", NamedTime(2024, 9)),
        ("deploys on 2024-02-29", NamedTime(2024, 2, 29)),
        ("deploys in 2024-02", NamedTime(2024, 2)),
        ("who won in 2022?", NamedTime(2022)),
        ("In 2022, what was bought during August?", NamedTime(2022, 8)),
    ],
)
def test_a_query_names_a_time(query: str, named: NamedTime) -> None:
    assert named_times(query, TODAY) == [named]


@pytest.mark.parametrize(
    "query",
    ["", "May I ask what Jan said?", "the march to the sea", "room 2101", "in 12 days", "decades"],
)
def test_words_and_numbers_that_are_no_time_name_none(query: str) -> None:
    assert named_times(query, TODAY) == []


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        ("today", date(2026, 3, 18), date(2026, 3, 18)),
        ("yesterday", date(2026, 3, 17), date(2026, 3, 17)),
        ("last week", date(2026, 3, 9), date(2026, 3, 15)),
        ("this  week", date(2026, 3, 16), date(2026, 3, 22)),
        ("last month", date(2026, 2, 1), date(2026, 2, 28)),
        ("last year", date(2025, 1, 1), date(2025, 12, 31)),
    ],
)
def test_days_are_counted_from_today(words: str, first: date, last: date) -> None:
    assert named_times(f"what did I say {words}?", TODAY) == [DateRange(first, last)]


def test_the_nearer_a_day_is_the_better_it_fits() -> None:
    times = named_times("What happened on 8 May 2023?", TODAY)
    days = [date(2023, 5, 8), date(2023, 5, 11), date(2023, 5, 12), date(2023, 6, 3), date(2023, 6, 16)]
    assert [fit(times, day) for day in days] == [DAY_WORTH, DAY_WORTH, MONTH_WORTH, LATER_WORTH, 0.0]


def test_a_day_that_its_month_does_not_have_leaves_the_month() -> None:
    assert fit([NamedTime(2023, 2, 30)], date(2023, 3, 1)) == LATER_WORTH
    assert fit([NamedTime(2023, 2, 30)], date(2023, 2, 28)) == MONTH_WORTH


def test_december_is_told_of_in_january_when_no_year_is_named() -> None:
    assert fit([NamedTime(None, 12)], date(2024, 1, 9)) == LATER_WORTH
    assert fit([NamedTime(None, 12)], date(2024, 2, 9)) == 0.0


def test_a_year_alone_counts_little() -> None:
    assert fit([NamedTime(2023)], date(2023, 12, 31)) == YEAR_WORTH
    assert fit([NamedTime(2023)], date(2024, 1, 1)) == 0.0


def test_a_span_fades_behind_its_end() -> None:
    span = DateRange(date(2026, 3, 9), date(2026, 3, 15))
    assert [fit([span], span.last + timedelta(days=days)) for days in (0, 3, 4)] == [DAY_WORTH, LATER_WORTH, 0.0]
    assert fit([span], date(2026, 3, 8)) == 0.0


@given(st.text(max_size=200), st.dates(), st.dates())
def test_any_text_is_read_and_fits_any_day_between_nothing_and_one(text: str, today: date, told: date) -> None:
    assert 0.0 <= fit(named_times(text, today), told) <= 1.0


@pytest.mark.parametrize("at", [-1e300, -1e18, -1e12, 0.0, 1e12, 1e18, 1e300])
def test_any_number_of_seconds_is_a_day_that_can_be_asked_for(at: float) -> None:
    """A file system keeps whatever time a program gives to a file, and one such file must not end every search."""
    told = moment(at).date()
    for query in ("in December", "in January", "in May 2026", "2026-11-20", "last week", "2026"):
        assert 0 <= fit(named_times(query, date(2026, 11, 20)), told) <= 1
