"""Times as people write them: how many of 120 phrases in six languages each reader understands, and what it costs.

    python -m benchmarks.spoken_times    where dateparser, recurrent and parsedatetime are installed, too

The phrases are those of the tests (`tests/conversation/schedules/phrases.tsv`); each library is told the language, ours
is not. "Wrong" is a moment other than the one that was meant; the rest was not understood. Import time is that of a new
process, the least of five; size is that of the library with what it needs and GoClaw does not have.
"""

import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from goclaw.conversation.schedules.spoken_times import read_moment

PHRASES = Path(__file__).parents[1] / "tests/conversation/schedules/phrases.tsv"
ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 25, 15, 30, tzinfo=ZONE)
OURS = "goclaw.conversation.schedules.spoken_times"
NEEDS = {
    "ours": (),
    "dateparser": ("dateparser", "regex", "pytz", "tzlocal", "python-dateutil"),
    "recurrent": ("recurrent", "parsedatetime"),
    "parsedatetime": ("parsedatetime",),
}
Reader = Callable[[str, str], datetime | None]


def read_ours(_: str, phrase: str) -> datetime | None:
    found = read_moment(phrase, NOW.timestamp(), ZONE)
    return datetime.fromtimestamp(found.at, ZONE) if found else None


def read_by_dateparser(language: str, phrase: str) -> datetime | None:
    dateparser: Any = importlib.import_module("dateparser")
    settings = {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": NOW.replace(tzinfo=None), "DATE_ORDER": "DMY"}
    found: datetime | None = dateparser.parse(phrase, languages=[language], settings=settings)
    return found


def read_by_recurrent(_: str, phrase: str) -> datetime | None:
    recurrent: Any = importlib.import_module("recurrent.event_parser")
    found = recurrent.RecurringEvent(now_date=NOW.replace(tzinfo=None)).parse(phrase)
    return found if isinstance(found, datetime) else None


def read_by_parsedatetime(language: str, phrase: str) -> datetime | None:
    parsedatetime: Any = importlib.import_module("parsedatetime")
    locales = {"en": "en_US", "de": "de_DE", "fr": "fr_FR", "es": "es", "pt": "pt_BR"}
    if language not in locales:
        return None
    calendar = parsedatetime.Calendar(parsedatetime.Constants(locales[language], usePyICU=False))
    found, kind = calendar.parseDT(phrase, NOW.replace(tzinfo=None))
    return found if kind else None


READERS: dict[str, Reader] = {
    "ours": read_ours,
    "dateparser": read_by_dateparser,
    "recurrent": read_by_recurrent,
    "parsedatetime": read_by_parsedatetime,
}


def measure(name: str) -> dict[str, Any]:
    """Return the figures of one reader."""
    right, wrong = dict[str, int](), 0
    for line in PHRASES.read_text().splitlines():
        language, phrase, meant = line.split("\t")
        try:
            found = READERS[name](language, phrase)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # however a library fails
            found = None
        said = found and f"{found:%Y-%m-%d %H:%M}"
        right[language] = right.get(language, 0) + (said == meant)
        wrong += said not in (None, meant)
    module = OURS if name == "ours" else name
    return {"right": sum(right.values()), **right, "wrong": wrong, "import ms": _import_ms(module), "KiB": _size(name)}


def _import_ms(module: str) -> float:
    """Return the milliseconds to import a module beyond a process that has what each of ours imports anyway."""
    code = (
        "import re, datetime, functools, unicodedata, goclaw.common.core.records, goclaw.conversation.schedules.times\n"
        f"import time; began = time.perf_counter(); import {module}; print((time.perf_counter() - began) * 1000)"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # the first one compiles
    tries = [float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(5)]
    return round(min(tries), 1)


def _size(name: str) -> int:
    if name == "ours":
        return Path(sys.modules[OURS].__file__ or "").stat().st_size >> 10
    files = [file for each in NEEDS[name] for file in importlib.metadata.files(each) or ()]
    return sum(Path(file.locate()).stat().st_size for file in files if Path(file.locate()).is_file()) >> 10


def main() -> None:
    """Print the figures of all readers as JSON."""
    print(json.dumps({name: measure(name) for name in READERS}, indent=2))


if __name__ == "__main__":
    main()
