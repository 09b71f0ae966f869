"""How much memory the processes of a command hold together. The kernel bounds each of them alone (RLIMIT_DATA).

Imports next to nothing: the broker has it, too.
"""

from collections.abc import Sequence

LOOK_SECONDS = 0.5
"""Between two looks. A program fills about a gigabyte in that time."""
_HELD = ("status", (b"RssAnon:", b"RssShmem:"))
_SHARED_OUT = ("smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))
"""Exact, and forty times as slow: of what processes have in common each counts its share."""


def exceeds(pids: Sequence[int], most: int) -> bool:
    """Whether these processes hold more than `most` bytes together. One that has ended holds nothing."""
    held = [_sum_fields(pid, *_HELD) or 0 for pid in pids]
    if sum(held) <= most:
        return False
    shares = (_sum_fields(pid, *_SHARED_OUT) for pid in pids)
    # A program may forbid the exact look, and counts whole then.
    return sum(whole if share is None else share for whole, share in zip(held, shares, strict=True)) > most


def describe_excess(most: int) -> str:
    """Say why such a command was ended."""
    return f"its processes held more than {most >> 20:,} MB of memory together (tools.exec.memory_mb)"


def _sum_fields(pid: int, name: str, fields: tuple[bytes, ...]) -> int | None:
    """Return the sum of fields of a file in /proc, in bytes; None where it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 -- pathlib would triple the broker's start
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(fields))
    except OSError:
        return None
