"""The text of an answer while it streams: without marks of ours that a model imitates, and without calls in it.

Small models begin with a reminder or a line of context of their own making, put `<material …>` around text they made
up, or repeat a result in the `<tool_response>` of their template. Those marks go, and with them the content of an
imitated reminder or line of context. Where a call may begin, the text is held back until its nature is clear; calls
themselves are shown at no time. Code stays as it is.

However an answer is cut into pieces, the same comes out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from goclaw.llm.base import Finished, ModelEvent, Restarted, TextDelta
from goclaw.llm.text_calls import CALL_KEYS, NAME_KEYS, begins_with_mark, calls_in, is_open_mark

_SPECIAL = re.compile(r"[<\[{`~]")
_OWN = re.compile(
    r"<\s*(/?)\s*(system[\s_-]*reminder|material|tool[\s_-]*response|context)(?:\s[^<>]{0,300})?/?>", re.IGNORECASE
)
_OWN_BEGUN = re.compile(r"<\s*/?\s*([\w\s-]{0,17})(?:\s[^<>]{0,300})?\Z")
_OWN_NAMES = ("systemreminder", "material", "toolresponse", "context")
_EMPTIED = {"c": "context", "s": r"system[\s_-]*reminder"}
"""By the first letter of their name: the marks that go with what stands in them."""
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}(?=[^`]*\Z)|~{3,})(.*)\Z")
"""The first line of a block of code; behind its backticks, unlike its tildes, stands no other backtick (CommonMark)."""
_FENCE_BEGUN = re.compile(r"[ \t]{0,3}(`{1,2}|~{1,2})?\Z")
_CLOSING = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})[ \t]*\Z")
_INFOS = frozenset({"", "json", "jsonc", "json5", "tool_call", "tool_calls", "toolcall", "tool_code", "xml", "text"})
_BRACKET = re.compile(r"[ \t]{0,3}[{\[]")
_INLINE = re.compile(r"[<\[`]")
_OPENING = re.compile(r"\[?\s*\{{0,2}\s*")
_KEY = re.compile(r"""["'](\w*)(?:(["'])\s*(?::\s*(?:["']([^"']*)(["']?))?)?)?""")
_LONGEST_NAME = 100


class _May(Enum):
    """Whether what begins at a place is a call or a mark of ours."""

    YES = "yes"
    NO = "no"
    OPEN = "open"
    """The following text decides."""


@dataclass
class _Scan:
    """One look at a text that begins with a line."""

    text: str
    knows: Callable[[str], bool]
    is_whole: bool
    visible: list[str] = field(default_factory=list)
    swallowed: list[str] = field(default_factory=list)
    stopped: int = -1
    """Where the text that is held back begins; -1: nowhere."""
    settled: tuple[int, int] = (0, 0)
    """The beginning of a line before which nothing changes any more, and the visible characters up to there."""
    fence: str = ""
    """The marks of the block of code that its end is part of."""
    _size: int = 0
    _mark_end: int = -1
    """Behind the last mark of ours that stood alone: the line breaks there go with it."""

    def run(self) -> "_Scan":
        at = 0
        while 0 <= at < len(self.text) and self.stopped < 0:
            self._resolve(at)
            at = self._line(at)
        if self.stopped < 0 and self.text.endswith("\n"):
            self._resolve(len(self.text))
        return self

    def _resolve(self, at: int) -> None:
        is_behind_mark = self._mark_end >= 0 and not self.text[self._mark_end : at].strip()
        if not self.fence and not self.swallowed and not is_behind_mark:
            self.settled = (at, self._size)

    def _show(self, text: str) -> None:
        self.visible.append(text)
        self._size += len(text)

    def _line(self, at: int) -> int:
        """Read the line at `at`; return where the next one begins."""
        end = self.text.find("\n", at)
        is_complete, end = end >= 0, end if end >= 0 else len(self.text)
        line = self.text[at:end]
        next_line = end + is_complete
        if self.fence:
            closing = _CLOSING.match(line)
            if closing and closing.group(1)[0] == self.fence[0] and len(closing.group(1)) >= len(self.fence):
                self.fence = ""
            self._show(self.text[at:next_line])
            return next_line
        if fence := _FENCE.match(line):
            return self._open_fence(at, next_line, fence, is_complete)
        if not is_complete and line and not self.is_whole and _FENCE_BEGUN.match(line):
            self.stopped = at
            return at
        if _BRACKET.match(line) and self._holds(at, may_be_call(self.text[at:].lstrip(" \t"), self.knows)):
            return at
        return self._inline(at, next_line)

    def _holds(self, at: int, answer: _May) -> bool:
        """Note that the text is held back from `at`, if it is."""
        if answer is _May.YES or (answer is _May.OPEN and not self.is_whole):
            self.stopped = at
            return True
        return False

    def _open_fence(self, at: int, next_line: int, fence: re.Match[str], is_complete: bool) -> int:
        info = fence.group(2).strip().lower()
        may_change = fence.group(1)[0] == "`" or any(known.startswith(info) for known in _INFOS)
        if may_change and not is_complete and not self.is_whole:
            self.stopped = at
            return at
        if info in _INFOS and self._holds(at, may_be_call(self.text[next_line:].lstrip(), self.knows)):
            return at
        self.fence = fence.group(1)
        self._show(self.text[at:next_line])
        return next_line

    def _inline(self, at: int, next_line: int) -> int:
        """Read the marks in a line outside of code."""
        begin, ticks = at, 0
        for found in _INLINE.finditer(self.text, at, next_line):
            place = found.start()
            if found.group() == "`":
                ticks += 1
                continue
            if ticks % 2 or place < begin:
                continue
            if found.group() == "<" and (own := _OWN.match(self.text, place)):
                self._show(self.text[begin:place])
                return self._own(own, alone=not self.text[at:place].strip())
            answer = begins_with_mark(self.text[place:])
            if answer or (not self.is_whole and (is_open_mark(self.text[place:]) or _own_begins(self.text[place:]))):
                self._show(self.text[begin:place])
                self.stopped = place
                return place
        self._show(self.text[begin:next_line])
        return next_line

    def _own(self, mark: re.Match[str], *, alone: bool) -> int:
        """Leave out a mark of ours, and its content; return where the text goes on."""
        end, name = mark.end(), mark.group(2)
        if not mark.group(1) and (kind := _EMPTIED.get(name[0].lower())):
            closing = re.compile(rf"<\s*/\s*{kind}\s*>", re.IGNORECASE).search(self.text, end)
            if closing is None and not self.is_whole:
                self.stopped = mark.start()
                return mark.start()
            inside = self.text[end : closing.start() if closing else len(self.text)]
            self.swallowed.append(inside)
            end = closing.end() if closing else len(self.text)
        if alone:
            self._mark_end = end
            while self.text[end : end + 1] == "\n":
                end += 1
        return end


class AnswerText:
    """Takes the pieces of one answer; gives what can be shown of them."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        """`knows`: whether a name is that of a tool."""
        self._knows = knows
        self._pieces: list[str] = []
        self._raw: list[str] = []
        self._rest = ""
        """The text from the beginning of a line on."""
        self._visible = 0
        """Characters of it that were shown."""
        self._is_plain = True
        """The rest is shown as it is."""
        self.held = ""
        """The end of the answer, where calls stand, once it is closed."""

    @property
    def shown(self) -> str:
        """The text that was shown so far."""
        return "".join(self._pieces)

    @property
    def raw(self) -> str:
        """The text as the model wrote it."""
        return "".join(self._raw)

    def visible_event(self, event: ModelEvent) -> ModelEvent:
        """Return an event of the stream as it is shown."""
        if isinstance(event, TextDelta):
            return TextDelta(self.add(event.text))
        if isinstance(event, Restarted):
            self.__init__(self._knows)  # type: ignore[misc]  # everything begins anew
        return event

    def add(self, text: str) -> str:
        """Add a piece; return what can be shown by now."""
        self._raw.append(text)
        if self._is_plain and not _SPECIAL.search(text):
            line = text.rpartition("\n")
            self._rest = line[2] if line[1] else self._rest + text
            self._visible = len(self._rest)
            self._pieces.append(text)
            return text
        self._rest += text
        return self._scan(is_whole=False)

    def close(self) -> str:
        """Return the text still to be shown when nothing follows; calls stay in `held`."""
        return "" if self._is_plain else self._scan(is_whole=True)

    def _scan(self, *, is_whole: bool) -> str:
        scan = _Scan(self._rest, self._knows, is_whole).run()
        visible = "".join(scan.visible)
        new = visible[self._visible :]
        self._pieces.append(new)
        if is_whole:
            self.held = self._rest[scan.stopped :] if scan.stopped >= 0 else ""
            if scan.swallowed and not self.shown.strip() and not self.held.strip():
                new = "".join(scan.swallowed).strip()  # there is no other answer
                self._pieces[:] = [new]
            return new
        at, size = scan.settled
        self._rest, self._visible = self._rest[at:], len(visible) - size
        self._is_plain = scan.stopped < 0 and visible[size:] == self._rest and not scan.fence
        return new


def with_text(done: Finished, text: str) -> Finished:
    """Return the answer with another text; its native form holds the one that the model wrote."""
    if text == done.message.text:
        return done
    return replace(done, message=replace(done.message, text=text, native=None))


def may_be_call(text: str, knows: Callable[[str], bool]) -> _May:
    """Return whether a text begins with a call of a known tool, in marks or as JSON."""
    if not text:
        return _May.OPEN
    if begins_with_mark(text):
        return _May.YES
    if is_open_mark(text):
        return _May.OPEN
    if text[0] not in "{[":
        return _May.NO
    opening = _OPENING.match(text)
    inside = text[opening.end() :] if opening else ""
    return _may_be_object(text, inside, knows) if inside else _May.OPEN


def _may_be_object(text: str, inside: str, knows: Callable[[str], bool]) -> _May:
    """Judge an object, or a list of some, by its first key; `inside`: what follows the opening brackets."""
    key = _KEY.match(inside)
    if key is None or "{" not in text[: len(text) - len(inside)]:
        return _May.NO
    name, closed, value, value_closed = key.groups()
    if not closed:
        return _May.OPEN if key.end() == len(inside) and any(each.startswith(name) for each in CALL_KEYS) else _May.NO
    if name not in CALL_KEYS:
        return _May.NO
    if name in NAME_KEYS and value is not None:
        if value_closed:
            return _May.YES if knows(value) else _May.NO
        return _May.OPEN if len(value) < _LONGEST_NAME else _May.NO
    return _whole_call(text, knows)


def _whole_call(text: str, knows: Callable[[str], bool]) -> _May:
    """Judge a call that does not begin with its name by the whole of it."""
    calls = calls_in(text)
    if calls is None:
        return _May.OPEN
    return _May.YES if calls and all(knows(call.name) for call in calls) else _May.NO


def _own_begins(text: str) -> bool:
    """Return whether a text may be the beginning of a mark of ours."""
    found = _OWN_BEGUN.match(text)
    if found is None:
        return False
    name = re.sub(r"[\s_-]", "", found.group(1)).lower()
    return any(each.startswith(name) or name.startswith(each) for each in _OWN_NAMES)
