"""Calendars (ICS, RFC 5545) as events with times and rules in words, and contacts (VCF 2.1 to 4.0, RFC 6350)."""

import quopri
import re
from calendar import month_name
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import BinaryIO, NamedTuple
from zoneinfo import ZoneInfo

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow
from goclaw.extensions.documents.formats.plain import decode

_MAX_BYTES, _MAX_ENTRIES = 20 << 20, 20_000
_HEAD = re.compile(r'((?:[^":]++|"[^"]*+")*+):(.*)', re.DOTALL)
_MOMENT = re.compile(r"(\d{8})(?:T(\d{4})(?:\d\d)?(Z)?)?")
_PERIOD = re.compile(r"([+-])?P(?:(\d{1,5})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?)?")
_UNITS = ("week", "day", "hour", "minute", "second")
_EVERY = {"HOURLY": "hour", "DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
_DAYS = {"MO": "Mon", "TU": "Tue", "WE": "Wed", "TH": "Thu", "FR": "Fri", "SA": "Sat", "SU": "Sun"}
_MONTHS = frozenset(map(str, range(1, 13)))
_PLACES = {"1": "first ", "2": "second ", "3": "third ", "4": "fourth ", "-1": "last "}
_LABELS = (
    "DUE Due|LOCATION Where|ORGANIZER Organizer|ATTENDEE With|RRULE Repeats|RDATE Also on|EXDATE Not on|STATUS Status|"
    "TRIGGER Reminder|DESCRIPTION Notes|NICKNAME Nickname|ORG Organization|TITLE Title|TEL Phone|EMAIL Mail|"
    "ADR Address|BDAY Birthday|IMPP Chat|URL Link|NOTE Notes"
)
"""Properties that are shown, in this order."""
_KNOWN = {pair.partition(" ")[0] for pair in _LABELS.split("|")} | {
    *("BEGIN", "END", "SUMMARY", "FN", "N", "DTSTART", "DTEND", "DURATION")
}
_MAX_NAME = 100


class _Property(NamedTuple):
    name: str
    given: dict[str, str]
    raw: str

    @property
    def text(self) -> str:
        raw = self.raw
        if self.given.get("ENCODING", "").upper() == "QUOTED-PRINTABLE":
            raw = decode(quopri.decodestring(raw.encode(errors="replace")), self.given.get("CHARSET", ""))
        return re.sub(r"\\(.)", lambda match: "\n" if match[1] in "nN" else match[1], raw).strip()


_Component = tuple[str, list[_Property]]


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read events and tasks, or contacts."""
    found = list(islice(_components(decode(file.read(_MAX_BYTES))), _MAX_ENTRIES + 1))
    if len(found) > _MAX_ENTRIES:
        answer.note(f"only the first {_MAX_ENTRIES:,} are read")
        found.pop()
    if not found:
        raise Refused("has no events and no contacts that can be read")
    contacts = sum(name == "VCARD" for name, _ in found)
    answer.kind = (
        f"{contacts:,} contact{'' if contacts == 1 else 's'}"
        if contacts
        else f"calendar, {len(found):,} entr{'y' if len(found) == 1 else 'ies'}"
    )
    add_flow(answer, wanted, (block for component in found for block in _blocks(*component)))


def _components(text: str) -> Iterator[_Component]:
    """Yield events, tasks and contacts, each with the triggers of its alarms."""
    name, properties, inner = "", list[_Property](), ""
    for line in _properties(text):
        what = line.raw.strip().upper()
        if line.name == "BEGIN" and what in ("VEVENT", "VTODO", "VJOURNAL", "VCARD"):
            name, properties, inner = what, [], ""
        elif line.name == "BEGIN":
            inner = inner or what
        elif line.name == "END" and what == name:
            yield name, properties
            name = ""
        elif line.name == "END":
            inner = "" if what == inner else inner
        elif name and (not inner or (inner == "VALARM" and line.name == "TRIGGER")):
            properties.append(line)


def _properties(text: str) -> Iterator[_Property]:
    for line in _unfold(text):
        name = line[:_MAX_NAME].partition(":")[0].partition(";")[0].rpartition(".")[2].strip().upper()
        match = _HEAD.fullmatch(line) if name in _KNOWN else None
        if match is None:
            continue
        parameters: dict[str, str] = {}
        for each in match[1].split(";")[1:]:
            # Version 2.1 has bare words: kinds, and encodings.
            key, _, value = each.partition("=") if "=" in each else ("TYPE", "", each)
            key, value = key.strip().upper(), value.strip('" ')
            key = "ENCODING" if value.upper() == "QUOTED-PRINTABLE" else key
            parameters[key] = f"{parameters[key]},{value}" if key in parameters else value
        yield _Property(name, parameters, match[2])


def _unfold(text: str) -> Iterator[str]:
    held, is_quoted = list[str](), False
    for line in (*re.split(r"\r\n|\n|\r", text), ""):
        if is_quoted and held[-1].endswith("="):
            held[-1:] = [held[-1][:-1], line]
        elif line[:1] in (" ", "\t"):
            held.append(line[1:])
        else:
            yield "".join(held)
            held, is_quoted = [line], "QUOTED-PRINTABLE" in line.upper()


def _blocks(name: str, properties: Sequence[_Property]) -> Iterator[tuple[int, str]]:
    by_name = {each.name: each for each in reversed(properties)}
    title = by_name.get("FN" if name == "VCARD" else "SUMMARY")
    parts = _parts(by_name["N"]) if "N" in by_name else []
    yield 1, title.text if title else " ".join((*parts[1:2], *parts[:1])) or "(without a name)"
    if "DTSTART" in by_name:
        yield 0, f"When: {_when(by_name)}"
    for key, _, label in (pair.partition(" ") for pair in _LABELS.split("|")):
        shown = (_SHOWN.get(key, _text)(each) for each in properties if each.name == key)
        if several := "; ".join(filter(None, shown)):
            yield 0, f"{label}: {several}"


def _parts(line: _Property) -> list[str]:
    """Return the parts of a name or an address, in their order."""
    return [" ".join(line._replace(raw=part).text.split()) for part in re.split(r"(?<!\\);", line.raw)]


def _text(line: _Property) -> str:
    """Return a text, of a number or an address with its kinds: home, work."""
    text = ", ".join(filter(None, _parts(line))) if line.name in ("ADR", "ORG") else line.text
    kinds = (each for each in line.given.get("TYPE", "").lower().split(",") if each not in ("", "internet", "voice"))
    told = ", ".join(kinds)
    return text.removeprefix("tel:").removeprefix("mailto:") + (f" ({told})" if text and told else "")


def _person(line: _Property) -> str:
    address = re.sub("^mailto:", "", line.text, flags=re.IGNORECASE)
    named = f"{line.given['CN']} <{address}>" if line.given.get("CN") else address
    answered = line.given.get("PARTSTAT", "NEEDS-ACTION").lower()
    return named if answered == "needs-action" else f"{named} ({answered})"


def _moment(line: _Property) -> tuple[datetime | None, str]:
    """Return a time, None where it cannot be read, and its zone in words, with the distance from UTC if known."""
    raw, name = line.raw.strip(), line.given.get("TZID", "")
    match = _MOMENT.fullmatch(raw)
    try:
        at = datetime.strptime(f"{match[1]} {match[2] or '0000'}", "%Y%m%d %H%M") if match else None  # noqa: DTZ007 -- below
    except ValueError:
        at = None
    if at is None or not match or not match[2]:
        return at, ""
    if match[3]:
        return at, " UTC"
    try:
        offset = at.replace(tzinfo=ZoneInfo(name)).strftime("%z")
        return at, f" {name} (UTC{offset[:3]}:{offset[3:]})"
    except (ValueError, OSError, KeyError, OverflowError):
        return at, f" {name}" if name else " (no time zone)"


def _when(by_name: dict[str, _Property]) -> str:
    start, end = by_name["DTSTART"], by_name.get("DTEND", by_name["DTSTART"])
    (first, zone), (last, last_zone) = _moment(start), _moment(end)
    if first is None or last is None:
        return f"{start.text} to {end.text}"
    try:
        last += _period(by_name["DURATION"].raw) if "DURATION" in by_name else timedelta()
        # The end of whole days is the day after.
        last -= timedelta(days=not zone and last > first)
    except OverflowError:
        pass
    form = "%a %Y-%m-%d %H:%M" if zone else "%a %Y-%m-%d"
    if last <= first and zone == last_zone:
        return f"{first:{form}}{zone or ', all day'}"
    if first.date() == last.date() and zone.partition("(")[0] == last_zone.partition("(")[0]:
        return f"{first:{form}} to {last:%H:%M}{zone}"
    return f"{first:{form}}{zone} to {last:{form}}{last_zone or ', all day'}"


def _moments(line: _Property) -> str:
    """Return a list of days or times."""
    found = list[str]()
    for part in (line._replace(raw=raw) for raw in line.raw.split(",")[:200]):
        at, zone = _moment(part)
        found.append(f"{at:{'%a %Y-%m-%d %H:%M' if zone else '%a %Y-%m-%d'}}{zone}" if at else part.text)
    return ", ".join(found)


def _period(raw: str) -> timedelta:
    match = _PERIOD.fullmatch(raw.strip())
    values = [int(each or 0) for each in match.groups()[1:]] if match else [0] * 5
    return timedelta(**{f"{unit}s": value for unit, value in zip(_UNITS, values, strict=True)})


def _reminder(line: _Property) -> str:
    match = _PERIOD.fullmatch(line.raw.strip())
    if match is None:
        return _moments(line)
    values = zip(match.groups()[1:], _UNITS, strict=True)
    said = ", ".join(f"{value} {unit}{'' if value == '1' else 's'}" for value, unit in values if value and int(value))
    point = "end" if line.given.get("RELATED", "").upper() == "END" else "start"
    return f"{said} {'before' if match[1] == '-' else 'after'} the {point}" if said else f"at the {point}"


def _rule(line: _Property) -> str:
    """Return a rule of repetition in words; parts without words of ours follow as they are."""
    parts = dict(part.partition("=")[::2] for part in line.raw.strip().upper().split(";"))
    unit, step = _EVERY.get(parts.pop("FREQ", ""), ""), parts.pop("INTERVAL", "1")
    if not unit:
        return line.text
    said = [f"every {unit}" if step == "1" else f"every {step} {unit}s"]
    if days := parts.pop("BYDAY", ""):
        said.append("on " + ", ".join(re.sub(r"([+-]?\d+)?(\w\w)", _day, day) for day in days.split(",")))
    if days := parts.pop("BYMONTHDAY", ""):
        said.append(f"on day {', '.join('last' if day == '-1' else day for day in days.split(','))} of the month")
    if months := parts.pop("BYMONTH", ""):
        said.append(f"in {', '.join(month_name[int(each)] if each in _MONTHS else each for each in months.split(','))}")
    if count := parts.pop("COUNT", ""):
        said.append(f"{count} times")
    if until := parts.pop("UNTIL", ""):
        said.append(f"until {_moments(line._replace(raw=until, given={}))}")
    return " ".join((*said, *(f"({key}={value})" for key, value in parts.items() if key not in ("WKST", ""))))


def _day(match: re.Match[str]) -> str:
    number = (match[1] or "").lstrip("+")
    return f"{_PLACES.get(number, f'{number}. ' if number else '')}{_DAYS.get(match[2], match[2])}"


_SHOWN: dict[str, Callable[[_Property], str]] = {
    **dict.fromkeys(("ORGANIZER", "ATTENDEE"), _person),
    **dict.fromkeys(("RDATE", "EXDATE", "DUE", "BDAY"), _moments),
    "RRULE": _rule,
    "TRIGGER": _reminder,
}
