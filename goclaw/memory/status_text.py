"""The state of memory as text: briefly for `/status`, in full for `/memory` and `goclaw memory status`; and quoting of
untrusted texts."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from goclaw.memory.base import MemoryStatus
from goclaw.memory.off import WHY

SEARCHED = "Searched"
"""The name of the brief line that counts the data of all users."""
COUNTS = frozenset({"files", "conversations", "passages", "embedded", "to_embed"})
"""Fields of `MemoryStatus` that count notes and conversations of all users, which are for admins."""


def quoted(text: str) -> str:
    """Return an untrusted text with its further lines indented, so that none passes for one of ours."""
    return "\n    ".join(text.splitlines())


def lines(status: MemoryStatus, *, counts: bool) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the whole state; with `counts`, also totals over all users."""
    if WHY in status.details:
        yield "Mode", f"off: {WHY}"
        return
    if counts:
        yield "Files", f"{status.files:,}"
        yield "Conversations", f"{status.conversations:,}"
        yield "Passages", f"{status.passages:,}"
    yield "Mode", _mode(status)
    yield "Embedder", status.trouble or status.embedder or "none is at hand (docs/memory.md says how to get one)"
    if made := _vectors(status, counts=counts):
        yield "Vectors", made
    for detail in status.details:
        yield "Note", detail


def brief(status: MemoryStatus) -> Iterator[tuple[str, str]]:
    """Yield two lines while all is well, and every irregularity: work in progress, and why vectors are not used."""
    if WHY in status.details:
        yield "Mode", f"off: {WHY}"
        return
    counted = ((status.files, "file"), (status.conversations, "conversation"))
    yield SEARCHED, ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counted)
    yield "Mode", _mode(status)
    if status.trouble:
        yield "Embedder", status.trouble
    elif status.embedded < status.to_embed:
        yield "Vectors", _vectors(status, counts=False)
    for detail in status.details:
        yield "Note", detail


def numbers(status: MemoryStatus, *, counts: bool) -> dict[str, Any]:
    """Return the same for machines."""
    return {name: value for name, value in asdict(status).items() if counts or name not in COUNTS}


def _mode(status: MemoryStatus) -> str:
    return "hybrid: words and meaning" if status.embedder and not status.trouble else "keyword: words alone"


def _vectors(status: MemoryStatus, *, counts: bool) -> str:
    """Return the progress of the vectors; empty if there is nothing to make any of."""
    if status.embedded < status.to_embed:
        part = f"{int(100 * status.embedded / status.to_embed)} %"
        how_far = f"{status.embedded:,} of {status.to_embed:,} ({part})" if counts else part
        return f"{how_far} of {status.coming}, which takes over then" if status.coming else how_far
    if not status.to_embed:
        return ""
    return f"all {status.to_embed:,}" if counts else "all"
