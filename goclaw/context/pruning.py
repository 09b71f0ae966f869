"""Pruning of tool results: the cheapest way to make room, and one that loses no word of a person.

Results are pruned in the window only; the store keeps every result whole. A window that is loaded anew is
pruned in the same places (`PrunedView`), so that the part that a provider has cached stays byte for byte.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from goclaw.context.untrusted_content import TOKENS, ContentMarkers, count_of
from goclaw.llm.estimate import estimate_message
from goclaw.messages import AssistantMessage, Message, ToolResult
from goclaw.records import record

LATEST_RESULTS = 6
"""Results that are never pruned, and every result of the latest answer besides: the model is working with them."""
HEAD = 400
"""Characters left of a pruned result: enough to recognise it."""
WINDOW_SHARE = 4
"""One result takes at most a quarter of the model's window."""


@record
class ContextEntry:
    """A message and the row where it begins."""

    row: int
    message: Message
    turn: str = ""
    """The turn that it belongs to, which no history policy splits."""
    tokens: int = field(init=False, repr=False, compare=False)
    """Estimated; asked for several times in every turn."""
    _marked: tuple[ContentMarkers, Message] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", estimate_message(self.message) + TOKENS * count_of(self.message))

    def marked(self, markers: ContentMarkers) -> Message:
        """Return the message as it is sent. Always the same object: models cache their encoding of it."""
        if self._marked and self._marked[0] is markers:
            return self._marked[1]
        marked = markers.around(self.message, self.row)
        object.__setattr__(self, "_marked", (markers, marked))
        return marked


@record
class PrunedView:
    """The parts of a context that are shown smaller than they are stored."""

    thinned_before: int = 0
    """Results in rows before this one are pruned."""
    no_tools_to: int = 0
    """Tool calls and results up to this row are left out (`/cleartool`)."""

    left_out: tuple[tuple[int, int], ...] = ()
    """Rows, from and to, that are not shown: turns of the demo model."""

    def leaves_out(self, row: int) -> bool:
        """Whether the message that begins at `row` is not shown."""
        return any(first <= row <= last for first, last in self.left_out)

    def of(self, entries: Iterable[ContextEntry]) -> list[ContextEntry]:
        """Return the entries as this view shows them."""
        shown = (entry for entry in entries if not self.leaves_out(entry.row)) if self.left_out else entries
        seen = (_without_tools(entry) if entry.row <= self.no_tools_to else entry for entry in shown)
        kept = [entry for entry in seen if entry is not None]
        return [_thinned(entry) if entry.row < self.thinned_before else entry for entry in kept]


def thinnable_before(entries: Sequence[ContextEntry]) -> int:
    """Return the row before which results may be thinned; 0: none."""
    results = [entry.row for entry in entries if isinstance(entry.message, ToolResult)]
    answers = [entry.row for entry in entries if isinstance(entry.message, AssistantMessage)]
    if len(results) <= LATEST_RESULTS or not answers:
        return 0
    return min(results[-LATEST_RESULTS], answers[-1])


def cut_to_window(entry: ContextEntry, context_window: int) -> ContextEntry:
    """Return a result too large for the model's window without its middle; any other entry unchanged."""
    message, most = entry.message, context_window // WINDOW_SHARE
    if not isinstance(message, ToolResult) or entry.tokens <= most:
        return entry
    shorter, room = entry, len(message.content) * most // entry.tokens
    while shorter.tokens > most:  # what is left may be denser than the rest; cut to the end now, not with every request
        shorter, room = replace(entry, message=_without_middle(message, room)), room * 9 // 10
    return shorter


def _without_middle(message: ToolResult, room: int) -> ToolResult:
    head, tail = room * 2 // 3, room // 3
    left_out = len(message.content) - head - tail
    note = (
        f"\n[{left_out:,} characters are left out here: they do not fit into your window. Ask {message.name} for less "
        "at a time, or for the part that you need.]\n"
    )
    return replace(message, content=message.content[:head] + note + message.content[head + left_out :])


def _thinned(entry: ContextEntry) -> ContextEntry:
    message = entry.message
    if not isinstance(message, ToolResult):
        return entry
    content = message.content
    if len(content) > 2 * HEAD:
        left_out = len(content) - HEAD
        note = f"\n[thinned: {left_out:,} more characters were here. Call {message.name} again if you need them.]"
        content = content[:HEAD] + note
    elif message.images:
        content += f"\n[thinned: a picture was here. Call {message.name} again if you need it.]"
    else:
        return entry
    return replace(entry, message=replace(message, content=content, images=()))


def _without_tools(entry: ContextEntry) -> ContextEntry | None:
    match entry.message:
        case ToolResult():
            return None
        case AssistantMessage(calls=calls) if calls:
            # What the provider would replay names the calls, too.
            text = entry.message.text
            return ContextEntry(entry.row, AssistantMessage(text), entry.turn) if text else None
        case _:
            return entry
