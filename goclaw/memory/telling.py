"""How memory stands, in lines for people: for `/status`, `/memory` and `goclaw memory status`; and how texts of others
are shown below lines of ours.
"""

from collections.abc import Iterator

from goclaw.memory.base import MemoryStatus
from goclaw.memory.off import WHY


def quoted(text: str) -> str:
    """A text of others behind a line of ours: its further lines are indented, so that none passes for one of ours."""
    return "\n    ".join(text.splitlines())


def lines(status: MemoryStatus) -> Iterator[tuple[str, str]]:
    """Names and texts."""
    if WHY in status.details:
        yield "Mode", f"off: {WHY}"
        return
    yield "Files", f"{status.files:,}"
    yield "Conversations", f"{status.conversations:,}"
    yield "Passages", f"{status.passages:,}"
    if status.embedder and not status.trouble:
        yield "Mode", "hybrid: words and meaning"
    else:
        yield "Mode", "keyword: words alone"
    if status.trouble:
        yield "Embedder", status.trouble
    else:
        yield "Embedder", status.embedder or "none is at hand (docs/memory.md says how to get one)"
    if status.embedded < status.to_embed:
        part = int(100 * status.embedded / status.to_embed)
        of_whom = f" of {status.coming}, which takes over then" if status.coming else ""
        yield "Vectors", f"{status.embedded:,} of {status.to_embed:,} ({part} %){of_whom}"
    elif status.to_embed:
        yield "Vectors", f"all {status.to_embed:,}"
    for detail in status.details:
        yield "Note", detail
