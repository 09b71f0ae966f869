"""`ls -l`: names only, and the columns requested by options.

The size stays with `-h`, `-S` and their long forms, the time with `-t`, `-c`, `-u`, `--full-time`. Folders get a slash.
Output with further columns (`-i`, `-s`, `-Z`) is not recognised and stays.
"""

import re
from collections.abc import Sequence

from goclaw.compression.base import MAX_RECOGNISED, Family, Shown, Words, flags, signals

_ENTRY = re.compile(
    r"(?P<kind>[bcdlps-])[rwxsStT-]{9}[.+@]?\s+\d+\s+(?:\S{1,64}\s+){0,2}?"
    r"(?P<size>\d[\d.,]{0,20}[KMGTPE]?|\d+,\s+\d+)\s+"
    r"(?P<time>[A-Z][a-z]{2}\s+\d{1,2}\s+[\d:]{4,5}|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d\.\d+ [+-]\d{4})?)\s(?P<name>.+)"
)
"""A line of GNU's and BusyBox' long form; numbers of devices stand in place of the size."""
_TOTAL = re.compile(r"total [\d.,]+[KMGTPE]?")
_LONG = {"-l", "-g", "-n", "-o", "--full-time", "--format=long", "--format=verbose", "--numeric-uid-gid"}
_SIZES = {"-h", "-S", "--human-readable", "--si", "--sort=size", "--block-size"}
_TIMES = {"-t", "-c", "-u", "--sort=time", "--time", "--time-style", "--full-time"}


def compress(lines: Sequence[str], words: Words) -> Shown | None:
    """Return the long form without unrequested columns; None for every other form."""
    asked = flags(words)
    if not asked & _LONG:
        return None
    sizes, times = bool(asked & _SIZES), bool(asked & _TIMES)
    shown = []
    for line in lines:
        found = _ENTRY.fullmatch(line) if len(line) <= MAX_RECOGNISED else None
        if found and found["name"] not in (".", ".."):
            shown.append(_short(found, sizes=sizes, times=times))
        elif not found and not _TOTAL.fullmatch(line):
            shown.append(line)
    return Shown(shown, left_out=True)


def _short(entry: re.Match[str], *, sizes: bool, times: bool) -> str:
    is_folder = entry["kind"] == "d" and not entry["name"].endswith("/")
    name = entry["name"] + "/" * is_folder
    if signals(entry[0]) and not signals(name):
        return entry[0]
    return " ".join([*[entry["size"]] * sizes, *[entry["time"]] * times, name])


FAMILY = Family("names only", compress)
