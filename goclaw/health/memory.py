"""The machine's memory that programs may still take."""

from pathlib import Path

MEMINFO = Path("/proc/meminfo")
"""Linux's own table, in kibibytes; see proc(5)."""
AVAILABLE = "MemAvailable:"


def free_memory(table: Path = MEMINFO) -> int | None:
    """Return the bytes that programs can have without swapping, as the kernel estimates; None without such a table."""
    try:
        rows = table.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    found = next((row.split() for row in rows if row.startswith(AVAILABLE)), [])
    return int(found[1]) * 1_024 if len(found) > 1 and found[1].isdecimal() else None
