"""ICS and VCF: appointments and contacts, a block of lines for each (RFC 5545, RFC 6350)."""

import quopri
import re
from collections.abc import Iterator
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow
from goclaw.extensions.documents.formats.plain import decode

_MAX_BYTES = 20 << 20
_FOLD = re.compile(r"\r?\n[ \t]")
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_ESCAPED = re.compile(r"\\([nN,;\\])")
_BEGINS = {"VEVENT": "Appointment", "VTODO": "Task", "VJOURNAL": "Note", "VFREEBUSY": "Busy", "VCARD": "Contact"}
_UNSAID = frozenset(
    (
        "VERSION",
        "PRODID",
        "CALSCALE",
        "UID",
        "DTSTAMP",
        "SEQUENCE",
        "CREATED",
        "LAST-MODIFIED",
        "REV",
        "PHOTO",
        "LOGO",
        "N",
        "KEY",
    )
)
"""Properties that tell people nothing; `N` is the name once more, in parts."""


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a calendar or contacts."""
    text = decode(file.read(_MAX_BYTES))
    if "BEGIN:V" not in text.upper():
        raise Refused("is neither a calendar nor contacts")
    answer.kind = "contacts" if "BEGIN:VCARD" in text.upper() else "calendar"
    add_flow(
        answer, wanted, ((0, line) for line in _lines(_FOLD.sub("", text.replace("=\r\n", "").replace("=\n", ""))))
    )


def _lines(text: str) -> Iterator[str]:
    skipped = 0  # zones and alarms
    for line in text.splitlines():
        head, colon, value = line.partition(":")
        name, *parameters = head.split(";")
        name = name.rpartition(".")[2].upper()
        if not colon:
            continue
        if name == "BEGIN":
            skipped += value.upper() in ("VTIMEZONE", "VALARM")
            if value.upper() in _BEGINS:
                yield f"{_BEGINS[value.upper()]}:"
        elif name == "END":
            skipped -= value.upper() in ("VTIMEZONE", "VALARM")
        elif not skipped and name not in _UNSAID and value and not name.startswith("X-"):
            yield f"  {name}{_of(parameters)}: {_value(value, parameters)}"


def _of(parameters: list[str]) -> str:
    """Return what parameters say to people: the zone of a time, the kind of a number, the name of a guest."""
    said = [
        each.partition("=")[2].strip('"') for each in parameters if each.upper().startswith(("TZID", "TYPE", "CN="))
    ]
    return f" ({', '.join(said)})" if said else ""


def _value(value: str, parameters: list[str]) -> str:
    if any(each.upper() == "ENCODING=QUOTED-PRINTABLE" for each in parameters):
        value = decode(quopri.decodestring(value.encode()))
    value = _ESCAPED.sub(lambda match: "\n    " if match[1] in "nN" else match[1], value)
    if match := _MOMENT.fullmatch(value):
        year, month, day, hour, minute, _, zone = match.groups()
        return f"{year}-{month}-{day}" + (f" {hour}:{minute}{' UTC' if zone else ''}" if hour else "")
    return value.replace(";", " ").strip() if ";" in value else value
