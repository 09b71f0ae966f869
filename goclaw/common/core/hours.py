"""Hours of the day on the wall clock, such as `08:00-22:00` or, past midnight, `22:00-07:00`."""

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta, tzinfo

from goclaw.common.core.records import record

DAY_MINUTES = 24 * 60
FORM = "write hours like 08:00-22:00 or 22:00-07:00"
_HOURS = re.compile(r"([0-9]{1,2}):([0-9]{2})\s*-\s*([0-9]{1,2}):([0-9]{2})")


@record
class Hours:
    """From one time of day up to another one, which is not part of it."""

    begin: int
    """Minutes after midnight."""
    end: int
    """Minutes after midnight, up to 24:00; less than `begin` where midnight lies between."""

    def contain(self, moment: float, zone: tzinfo) -> bool:
        """Whether a moment, in epoch seconds, lies in these hours on a zone's wall clock."""
        local = datetime.fromtimestamp(moment, zone)
        minute = 60 * local.hour + local.minute
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def last_start(self, moment: float, zone: tzinfo) -> float:
        """Return when these hours began last, at `moment` or before."""
        return max(each for each in _times(self.begin, moment, zone) if each <= moment)

    def next_start(self, moment: float, zone: tzinfo) -> float:
        """Return when these hours start next, after `moment`."""
        return min(each for each in _times(self.begin, moment, zone) if each > moment)

    def next_end(self, moment: float, zone: tzinfo) -> float:
        """Return when these hours end next, after `moment`."""
        return min(each for each in _times(self.end, moment, zone) if each > moment)


def hours(text: str) -> Hours:
    """Return the hours that a text names.

    Raises:
        ValueError: it names none.
    """
    found = _HOURS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"`{text[:40]}` is not a range of hours: {FORM}")
    begin, end = (60 * int(found[at]) + int(found[at + 1]) for at in (1, 3))
    if begin >= DAY_MINUTES or not 0 <= end <= DAY_MINUTES or int(found[2]) > 59 or int(found[4]) > 59:
        raise ValueError(f"`{text[:40]}` contains an invalid time: {FORM}")
    if begin == end:
        raise ValueError(f"`{text[:40]}` is an empty range; write 00:00-24:00 for the whole day")
    return Hours(begin, end)


def _times(minute: int, moment: float, zone: tzinfo) -> Iterator[float]:
    """Yield the moments at which the wall clock shows a time of day, from two days before to two days after."""
    today = datetime.fromtimestamp(moment, zone).date()
    for days in range(-2, 3):
        at = datetime.combine(
            today + timedelta(days=days + minute // DAY_MINUTES), time(minute // 60 % 24, minute % 60)
        )
        # Both of a repeated hour; of one that is skipped a moment beside the gap.
        for fold in (0, 1):
            yield at.replace(tzinfo=zone, fold=fold).timestamp()
