"""The labels of a window, for the guard (`tools.approval.guard`): which parts others wrote, and which are private.

They follow from the provenance of each part, which is stored with the rows and with a summary of them; no model and no
text takes a part in it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goclaw.common.core.messages import AssistantMessage, SourceKind, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.window import Window
from goclaw.tools.approval.guard import Part, WindowContent, domain_of, host_of
from goclaw.tools.approval.sentences import in_heading

WEB_FETCH = "web_fetch"
_PAGE = re.compile(r"URL: (\S+)")
"""The head of a page, which says where it was in the end."""
_SOURCES = frozenset(
    {
        *((SourceKind.WEB, name) for name in (WEB_FETCH, "web_search")),
        *((SourceKind.FILE, name) for name in ("read", "memory_read", "memory_get")),
    }
)
"""Results in which others, or a person, chose the addresses: a file that the agent wrote after foreign words is a
document."""
MAX_COMMAND = 40
"""Characters of a command that is named as a source."""
SUMMARY = "earlier in this conversation"

FOREIGN = frozenset(SourceKind) - {
    SourceKind.PERSON,
    SourceKind.AGENT,
    SourceKind.VOICE,
    SourceKind.HOOK,
    SourceKind.FILE,
    SourceKind.TOOL,
}
"""Sources whose words others chose."""
PRIVATE = frozenset({SourceKind.FILE, SourceKind.TOOL, SourceKind.MCP, SourceKind.DOCUMENT, SourceKind.UNKNOWN})
"""Sources of results that are nobody else's business."""


def window_content(windows: Sequence[Window], ordered: str = "") -> WindowContent:
    """Return the labelled content of the window of an agent.

    Args:
        windows: the agent's, and those of the agents above it, the first one last: messages in that one are a person's.
        ordered: the schedule that began the turn, if an agent set it that had read others' words.
    """
    parts = [Part(f"what led to {ordered}", foreign=True, private=True)] if ordered else list[Part]()
    written: list[str] = []
    pages: Counter[str] = Counter()
    for window in reversed(windows):
        parts += _summary(window)
        calls: dict[str, ToolCall] = {}
        for entry in window.entries:
            match entry.message:
                case UserMessage() as message:
                    parts += _pieces(message)
                    written += [_own_words(message)] if window is windows[-1] else []
                case AssistantMessage(calls=made):
                    calls.update((call.id, call) for call in made)
                case ToolResult() as result:
                    given = _input_of(calls.get(result.call_id))
                    parts += _result(result, given)
                    if result.name == WEB_FETCH and any(part.private for part in parts):
                        pages[domain_of(str(given.get("url")))] += 1
    return WindowContent(parts, written, pages)


def source_of(content: WindowContent) -> SourceKind:
    """Return the source whose labels are those of a window."""
    if content.foreign:
        return SourceKind.DOCUMENT if content.private else SourceKind.WEB
    return SourceKind.FILE


def _summary(window: Window) -> Iterator[Part]:
    if window.outside:
        yield Part(SUMMARY, foreign=bool(window.outside & FOREIGN), private=bool(window.outside & PRIVATE))


def _pieces(message: UserMessage) -> Iterator[Part]:
    """Yield the pieces of a message that its sender did not write."""
    for piece in message.foreign:
        kind = piece.provenance.kind if piece.provenance else SourceKind.UNKNOWN
        # A file that a person sends was as a rule written by others, and what it says they hand over themselves.
        is_foreign = kind in FOREIGN or kind is SourceKind.FILE
        if is_foreign and not piece.is_own:
            yield Part(piece.origin, message.text[piece.start : piece.end], foreign=True, is_source=True)


def _own_words(message: UserMessage) -> str:
    at, words = 0, []
    for piece in message.foreign:
        kind = piece.provenance.kind if piece.provenance else SourceKind.UNKNOWN
        words.append(message.text[at : piece.start])
        if kind in (SourceKind.PERSON, SourceKind.VOICE):
            words.append(message.text[piece.start : piece.end])
        at = piece.end
    return "".join((*words, message.text[at:]))


def _input_of(call: ToolCall | None) -> Mapping[str, Any]:
    """Return the arguments of a call, also of one that `tool_call` makes."""
    given = call.input if call else {}
    return within if isinstance(within := given.get("arguments"), dict) else given


def _result(result: ToolResult, given: Mapping[str, Any]) -> Iterator[Part]:
    if not result.foreign:
        return
    kind = result.provenance.kind if result.provenance else SourceKind.UNKNOWN
    server = result.name.split("__")[1] if kind is SourceKind.MCP and result.name.count("__") > 1 else ""
    name = server or _source(result.name, given)
    page = _PAGE.match(result.content) if kind is SourceKind.WEB else None
    yield Part(
        *(name, result.content, kind in FOREIGN, kind in PRIVATE, server, page[1] if page else ""),
        is_source=not result.is_error and (kind is SourceKind.MCP or (kind, result.name) in _SOURCES),
        asked=str(dict(given)),
    )


def _source(tool: str, given: Mapping[str, Any]) -> str:
    """Return the name of a result's source for people."""
    if address := given.get("url"):
        return host_of(str(address)) or tool
    if command := str(given.get("command") or ""):
        shown = in_heading(command) if len(command) <= MAX_COMMAND else ""
        return f"the output of {shown}" if shown else "the output of a command"
    found = next((given[key] for key in ("path", "file_path", "key", "name", "query") if given.get(key)), "")
    return str(found) or tool
