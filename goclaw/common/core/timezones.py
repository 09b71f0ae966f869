"""Time zones: by their IANA names, and the machine's own."""

import os
import zoneinfo
from datetime import UTC, tzinfo
from pathlib import Path

LOCALTIME = Path("/etc/localtime")
"""The machine's zone; see localtime(5)."""


def find_zone(name: str) -> tzinfo:
    """Return the zone with an IANA name such as `Europe/Berlin`.

    Raises:
        ValueError: there is no such zone.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone `{name[:60]}`; write one like Europe/Berlin or UTC") from None


def machine_zone() -> tzinfo:
    """Return the machine's zone: `TZ`, else the file that /etc/localtime is, else UTC."""
    if name := os.environ.get("TZ", "").removeprefix(":"):
        try:
            return find_zone(name)
        except ValueError:
            pass
    try:
        target = str(LOCALTIME.resolve(strict=True))
        name = target.partition("zoneinfo/")[2]
        if name in zoneinfo.available_timezones():
            return zoneinfo.ZoneInfo(name)
        with LOCALTIME.open("rb") as file:
            return zoneinfo.ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return zoneinfo.ZoneInfo("UTC") if "UTC" in zoneinfo.available_timezones() else UTC
