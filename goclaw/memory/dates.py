"""Times that a query names, and how well a day fits them. Pure; the caller passes today's date.

People mention an event on the day itself or soon after, so the days after a named time count, too, but less. The
weights were measured together with the rest of the recipe (`benchmarks/recall`; `ranking` has the weight of the whole).
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

from goclaw.common.core.records import record

DAY_WORTH, MONTH_WORTH, YEAR_WORTH = 1.0, 0.6, 0.2
"""The weights of a day within a named day, month or year: the narrower the period, the more it says."""
LATER_WORTH = 0.2
"""The weight of the days after a named month."""
DAYS_AFTER_A_DAY = 3
DAYS_AFTER_A_MONTH = 15
"""Days after a named month during which people still mention it."""

_MONTHS = "january february march april may june july august september october november december"
_NUMBERS = {word: number for number, name in enumerate(_MONTHS.split(), 1) for word in (name, name[:3])} | {"sept": 9}
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_MONTH = re.compile(
    r"\b(?:(?P<before>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)?"
    r"(?:(?P<hint>in|on|since|of|until|till|by|early|late|mid|last|this|before|after|during)[\s-]+)?"
    rf"(?P<name>{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b)?"
    r"(?:,?\s+(?:of\s+)?(?P<year>(?:19|20)\d\d)\b)?"
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_AMBIGUOUS = frozenset(("may", "march", "mar", "jan"))
"""Months that are also other words or names: they count only next to a number or a word of time."""
_RELATIVE = re.compile(r"\b(today|yesterday|(?:this|last)\s+(?:week|month|year))\b")

_FIRST, _LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""A year from the limits of dates, so that there are days before and after each."""


def moment(at: float) -> datetime:
    """Convert epoch seconds to UTC. A file can have any time: one out of range becomes the nearest date."""
    return datetime.fromtimestamp(min(max(at, _FIRST.timestamp()), _LAST.timestamp()), UTC)


@record
class NamedTime:
    """A time named in a query; None marks a part left open."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def fit(self, told: date) -> float:
        """Return how well something mentioned on `told` fits: 0 to 1."""
        if self.month is None:
            return YEAR_WORTH if told.year == self.year else 0.0
        # Without a year: the latest such time before it was mentioned.
        years = [self.year] if self.year is not None else [told.year, told.year - 1]
        return max(self._fit_in(year, self.month, told) for year in years)

    def _fit_in(self, year: int, month: int, told: date) -> float:
        first, behind = date(year, month, 1), _next_month(year, month)
        if self.day is not None and self.day <= (behind - first).days:
            named = first.replace(day=self.day)
            if named <= told <= named + timedelta(days=DAYS_AFTER_A_DAY):
                return DAY_WORTH
        if first <= told < behind:
            return MONTH_WORTH
        return LATER_WORTH if behind <= told < behind + timedelta(days=DAYS_AFTER_A_MONTH) else 0.0


@record
class DateRange:
    """Days that a query names by their distance from today, both ends included."""

    first: date
    last: date

    def fit(self, told: date) -> float:
        """Return how well something mentioned on `told` fits: 0 to 1."""
        if self.first <= told <= self.last:
            return DAY_WORTH
        return LATER_WORTH if self.last < told <= self.last + timedelta(days=DAYS_AFTER_A_DAY) else 0.0


def named_times(query: str, today: date) -> list[NamedTime | DateRange]:
    """Return the times that a query names, unordered; empty if it names none.

    Recognised are English names of months with a day or a year next to them, ISO dates, years, and days counted from
    `today` (`yesterday`, `last month`).
    """
    text = query.lower()
    times: list[NamedTime | DateRange] = [_span(match[1], today) for match in _RELATIVE.finditer(text)]
    found = [*_iso(text), *_months(text)]
    times += found
    told = {time.year for time in found}
    times += [NamedTime(year) for year in dict.fromkeys(map(int, _YEAR.findall(text))) if year not in told]
    return times


def fit(times: Sequence[NamedTime | DateRange], told: date) -> float:
    """Return how well `told` fits the best of the times; 0 when the query names none."""
    return max((time.fit(told) for time in times), default=0.0)


def _iso(text: str) -> Iterator[NamedTime]:
    for match in _ISO.finditer(text):
        year, month, day = int(match[1]), int(match[2]), int(match[3] or 0)
        if 1 <= month <= 12:
            yield NamedTime(year, month, day or None)


def _months(text: str) -> Iterator[NamedTime]:
    years = [int(year) for year in _YEAR.findall(text)]
    for match in _MONTH.finditer(text):
        day = int(match["before"] or match["after"] or 0)
        if match["name"] in _AMBIGUOUS and not (day or match["hint"] or match["year"]):
            continue
        # "In 2023, when was it that … in March?": one year counts for a month that has none of its own.
        year = int(match["year"]) if match["year"] else years[0] if len(years) == 1 else None
        yield NamedTime(year, _NUMBERS[match["name"]], day if 1 <= day <= 31 else None)


def _span(words: str, today: date) -> DateRange:
    which, _, unit = " ".join(words.split()).partition(" ")
    back = which in ("last", "yesterday")
    if not unit:
        day = today - timedelta(days=int(back))
        return DateRange(day, day)
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return DateRange(monday, monday + timedelta(days=6))
    if unit == "year":
        return DateRange(date(today.year - back, 1, 1), date(today.year - back, 12, 31))
    first = today.replace(day=1)
    first = (first - timedelta(days=1)).replace(day=1) if back else first
    return DateRange(first, _next_month(first.year, first.month) - timedelta(days=1))


def _next_month(year: int, month: int) -> date:
    return date(year + month // 12, month % 12 + 1, 1)
