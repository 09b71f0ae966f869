"""Moments as people write and read them, in a time zone.

Written: a duration from now (`20m`, `1h30m`, `2d`), a time of day (`8:00`: the next one), `tomorrow 8:00`, or an ISO
8601 date and time (`2026-12-24T18:00`, with or without an offset); `moments` understands more. Read: `Tuesday 24
November 2026, 08:00 (Europe/Berlin)`.

A wall-clock time that daylight saving skips means the end of the gap; one that comes twice means its first.
"""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from goclaw.common.core.records import record

MAX_SECONDS = 10 * 366 * 86_400
"""How far ahead a moment may be: beyond that it is a slip of the pen."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"(?:[0-9]{1,6}[smhdw])+", re.IGNORECASE)
_PIECE = re.compile(r"([0-9]+)([smhdw])", re.IGNORECASE)
_OF_DAY = re.compile(r"(?:(?P<tomorrow>tomorrow)\s+)?(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})", re.IGNORECASE)


@record
class Moment:
    """A moment as it was said."""

    at: float
    """Epoch seconds."""
    by_duration: bool = False
    """Whether a duration named it."""
    has_offset: bool = False
    """Whether it was said with its offset from UTC, so that no zone moves it."""


class NoTime(ValueError):
    """The text names no moment; the message says why, and which forms there are."""


class UnusableTime(NoTime):
    """The text names a moment, which cannot be waited for, or nothing that is to happen then."""


FORMS = "write 20m, tomorrow 8:00, friday 17:00 or 2026-12-24T18:00"


def duration(text: str) -> float | None:
    """Return the seconds in a duration such as `90s`, `20m` or `1h30m`; None: it is no duration."""
    if not _DURATION.fullmatch(text):
        return None
    return float(sum(int(count) * _UNITS[unit.lower()] for count, unit in _PIECE.findall(text)))


def parse_moment(text: str, now: float, zone: tzinfo) -> float:
    """Return the moment that a text names, in epoch seconds.

    Args:
        text: one of the forms of this module.
        now: epoch seconds; durations and times of day count from here.
        zone: where the person is; an ISO text with an offset of its own does not need it.

    Raises:
        NoTime: the text has another form, or its moment has passed or is more than ten years away.
    """
    text = text.strip()
    if (seconds := duration(text)) is not None:
        return _ahead(now + seconds, now, text)
    if match := _OF_DAY.fullmatch(text):
        return _of_day(match, now, zone, text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise NoTime(f"`{text[:60]}` is not a time: {FORMS}") from None
    if re.fullmatch(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}", text):
        raise NoTime(f"`{text}` has no time of day: {FORMS}")
    return _ahead((parsed if parsed.tzinfo else in_zone(parsed, zone)).timestamp(), now, text)


def _of_day(match: re.Match[str], now: float, zone: tzinfo, text: str) -> float:
    try:
        at = time(int(match["hour"]), int(match["minute"]))
    except ValueError:
        raise UnusableTime(f"`{text}` is not a time of day") from None
    today = datetime.fromtimestamp(now, zone).date()
    day = today + timedelta(days=1) if match["tomorrow"] else today
    moment = in_zone(datetime.combine(day, at), zone).timestamp()
    if moment <= now:
        moment = in_zone(datetime.combine(day + timedelta(days=1), at), zone).timestamp()
    return moment


def _ahead(moment: float, now: float, text: str) -> float:
    if moment <= now:
        raise UnusableTime(f"`{text}` has passed")
    if moment - now > MAX_SECONDS:
        raise UnusableTime(f"`{text}` is more than ten years away")
    return moment


def in_zone(naive: datetime, zone: tzinfo) -> datetime:
    """Return a wall-clock time in a zone: in a gap of daylight saving its end, of a repeated hour the first."""
    local = naive.replace(tzinfo=zone, fold=0)
    if local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive:
        return local
    # In a gap the two folds use the offsets before and after it: the change lies between their moments (PEP 495).
    earliest, latest = (
        int(bound.timestamp()) for bound in sorted((local.replace(fold=1), local), key=datetime.timestamp)
    )
    after = datetime.fromtimestamp(latest, zone).utcoffset()
    while latest - earliest > 1:
        middle = (earliest + latest) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == after:
            latest = middle
        else:
            earliest = middle
    return datetime.fromtimestamp(latest, zone)


def format_moment(moment: float, zone: tzinfo) -> str:
    """Return a moment in words: `Tuesday 24 November 2026, 08:00 (Europe/Berlin)`."""
    local = datetime.fromtimestamp(moment, zone)
    day = f"{_DAYS[local.weekday()]} {local.day} {_MONTHS[local.month - 1]} {local.year}"
    return f"{day}, {_clock(local)} ({name_of(zone, local)})"


def shown_shortly(moment: float, zone: tzinfo, now: float) -> str:
    """Return a moment in the shortest unambiguous form: `08:00`, `tomorrow 08:00`, `Tue 24 Nov 08:00`."""
    local, today = datetime.fromtimestamp(moment, zone), datetime.fromtimestamp(now, zone).date()
    days = (local.date() - today).days
    if days == 0:
        return _clock(local)
    if days == 1:
        return f"tomorrow {_clock(local)}"
    if days == -1:
        return f"yesterday {_clock(local)}"
    year = "" if local.year == today.year else f" {local.year}"
    return f"{_DAYS[local.weekday()][:3]} {local.day} {_MONTHS[local.month - 1][:3]}{year} {_clock(local)}"


def _clock(local: datetime) -> str:
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def name_of(zone: tzinfo, at: datetime) -> str:
    """Return the zone's name for people: its IANA key where it has one."""
    key = getattr(zone, "key", None)
    return str(key) if key else at.strftime("%Z") or "local time"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FIRST_HALF = ("January", "February", "March", "April", "May", "June")
_MONTHS = (*_FIRST_HALF, "July", "August", "September", "October", "November", "December")
"""Spelt out: `strftime` follows the locale of the process."""
