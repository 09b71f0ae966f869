"""The moment that a text names or begins with: in a form of `times`, or as people say it (`spoken_times`)."""

import re
from datetime import tzinfo

from goclaw.conversation.schedules.spoken_times import read_moment
from goclaw.conversation.schedules.times import MAX_SECONDS, Moment, NoTime, UnusableTime, duration, parse_moment

MAX_WORDS = 10
"""Words of the longest moment: `on Monday the 30th of November at quarter to nine`."""
_OFFSET = re.compile(r"[T ].*(?:Z|[+-][0-9]{2}:?[0-9]{2})", re.IGNORECASE)


def understand_moment(text: str, now: float, zone: tzinfo) -> Moment:
    """Return the moment that a text names.

    Raises:
        NoTime: it names none.
        UnusableTime: it has passed, or is more than ten years away.
    """
    text = text.strip()
    said = read_moment(text, now, zone) if duration(text) is None else None  # `8h` is no time of day, but `à 8h`
    if said is None:
        at = parse_moment(text, now, zone)
        return Moment(at, duration(text) is not None, has_offset=bool(_OFFSET.search(text)))
    if not now < said.at <= now + MAX_SECONDS:
        raise UnusableTime(f"`{text}` {'has passed' if said.at <= now else 'is more than ten years away'}")
    return said


def split_moment(text: str, now: float, zone: tzinfo) -> tuple[str, str]:
    """Return the words at the beginning of a text that name a moment, as many as do, and the rest of it.

    Raises:
        NoTime: it begins with no moment.
        UnusableTime: it does, and the moment has passed, or nothing follows it.
    """
    words, failure = text.split(maxsplit=MAX_WORDS), NoTime("the time is missing")
    for count in range(min(len(words), MAX_WORDS), 0, -1):
        moment = " ".join(words[:count])
        try:
            understand_moment(moment, now, zone)
        except NoTime as error:
            failure = failure if isinstance(failure, UnusableTime) else error
            continue
        rest = text.split(maxsplit=count)[count:]
        if not rest:
            raise UnusableTime("the text after the time is missing")
        return moment, rest[0].strip()
    raise failure
