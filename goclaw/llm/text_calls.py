"""Calls that a model writes into its text, in place of the protocol's own: found and read here, judged by the turn.

A call is read only where it is a block of its own: it begins on a line of its own outside of code, and nothing but
calls, their marks and blank space follows it to the end. Known are JSON, bare or fenced, and the marks of the templates
of Hermes and Qwen (`<tool_call>`), Llama (`<|python_tag|>`, `<function=…>`), Mistral (`[TOOL_CALLS]`), DeepSeek, GLM,
Kimi, Phi, Granite, MiniMax and LM Studio.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from goclaw.common.core.records import record
from goclaw.llm.lenient_json import Unreadable, end_of, parse

MAX_CALLS = 32
"""Calls of one answer; a longer list is not read."""
MAX_STARTS = 64
"""Places of an answer that are looked at, the last ones."""

_LONGEST_TOKEN = 40
_WORDS = (
    r"(?:tool_?calls?|tool_?requests?|tool_?use|tools?|function_?calls?|functions?|functioncalls?|invoke|"
    r"minimax:tool_call|action)"
)
_MARK = re.compile(
    rf"</?\s*{_WORDS}\s*/?>|<[|｜][^<>|｜\n]{{1,{_LONGEST_TOKEN}}}[|｜]>|\[/?(?:TOOL_CALLS?|ARGS|TOOL_REQUEST|END_TOOL_REQUEST)\]"
    r"|\[CALL_ID\]\w*",
    re.IGNORECASE,
)
"""Marks that stand around calls, and special tokens that a server let through."""
_TAGGED = re.compile(rf"<\s*{_WORDS}\s+(?=\w+\s*=)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"\s*(\w+)\s*=\s*")
_NAMED = re.compile(
    r"<(?:function|invoke|tool_call|tool)(?:=|\s+name\s*=\s*)[\"']?([\w.:-]{1,100})[\"']?\s*>", re.IGNORECASE
)
"""`<function=write>`, `<invoke name="write">`: what follows is JSON or parameters."""
_PARAMETER = re.compile(
    r"<(?:parameter|param)(?:=|\s+name\s*=\s*)[\"']?([\w.-]{1,100})[\"']?[^<>]*>(.*?)</(?:parameter|param)>"
    r"|<arg_key>\s*([\w.-]{1,100})\s*</arg_key>\s*<arg_value>(.*?)</arg_value>",
    re.IGNORECASE | re.DOTALL,
)
_FENCE = re.compile(
    r"(`{3,}|~{3,})[ \t]*(?:json|jsonc|json5|tool_?calls?|tool_code|xml|plaintext|text)?[ \t]*(?=[\n<]|\Z)"
)
_NAME = re.compile(r"(?:functions\.)?[A-Za-z_][\w.-]{0,99}(?::\d+)?")
_SPACE = re.compile(r"[\s,;]*")
_SPACE_BEHIND = re.compile(r"[\s,;}]*")
"""Characters that may follow a call: small models close more braces than they opened."""
_START = re.compile(r"^[ \t]{0,3}(?=[<\[{`~])", re.MULTILINE)
_TAG = re.compile(r"<(?!br\b|hr\b|img\b)([A-Za-z][\w:-]*)\b(?![^<>]*/>)")
_ANY_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})([^\n]*)", re.MULTILINE)
NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "tool_args", "action_input", "params")
_BESIDE = frozenset({"id", "type", "call_id", "tool_call_id", "index"})
CALL_KEYS = frozenset({*NAME_KEYS, *_ARGUMENTS, *_BESIDE, "tool_calls"})
"""Names in the objects that stand for calls; `NAME_KEYS` hold the tool's."""
_OPEN_TAG = re.compile(r"<\s*/?\s*([\w:]*)(?:[\s=][^<>\n]{0,200})?\Z")
_TAG_NAMES = (
    *("tool_calls", "toolcalls", "tool_requests", "toolrequests", "tool_use", "tools", "function_calls", "functions"),
    *("functioncalls", "invoke", "minimax:tool_call"),
)
_CLOSING_MARK = re.compile(rf"</\s*{_WORDS}\s*>|<[|｜]/[^<>|｜]*[|｜]>|\[END_TOOL_REQUEST\]", re.IGNORECASE)
_SOME_NAME = re.compile(r"[\"'](?:name|tool|function)[\"']\s*:\s*[\"']([\w.-]{1,100})|(?<==)([\w.-]{1,100})")
_NEXT = re.compile(r"\n(?=[ \t]{0,3}[\[{`~<])|(?=[<\[])")
"""Where a call may begin."""
_BRACKETS = ("[TOOL_CALLS]", "[TOOL_REQUEST]")


class Form(StrEnum):
    """How the calls of a text are written."""

    MARKED = "marked"
    """In marks that stand for nothing else."""
    FENCED = "fenced"
    BARE = "bare"


@record
class WrittenCall:
    """A call as it is written: neither name nor arguments are checked."""

    name: str
    arguments: Mapping[str, Any]


@record
class CallBlock:
    """The calls at the end of an answer, and where they begin."""

    start: int
    form: Form
    calls: tuple[WrittenCall, ...]


class Unread(StrEnum):
    """Why a call that was written as text did not run."""

    OFF = "off"
    """Reading is off for the model (`models.options.<model>.text_calls`)."""
    FIRST = "first"
    """It is the model's first one, and the model is on no server of one's own."""
    UNKNOWN = "unknown"
    """It names no tool that is offered."""
    UNFIT = "unfit"
    """Its arguments do not fit the schema."""
    DICTATED = "dictated"
    """The same stands in what the model read."""
    ASKED = "asked"
    """The person asked to be shown one."""
    MISPLACED = "misplaced"
    """It is no block of its own at the end of the answer, or it is broken."""


@record
class UnreadCall:
    """A call that was written as text and did not run."""

    name: str
    why: Unread
    detail: str = ""
    """The fault of its arguments."""
    again: bool = False
    """The model is informed, and asked once more."""


def read_block(text: str) -> CallBlock | None:
    """Return the block of calls that ends a text, or None."""
    for start in _starts(text):
        scan = _Scan(text, start)
        if scan.reads_all() and scan.calls:
            return CallBlock(start, scan.form, tuple(scan.calls))
    return None


def _starts(text: str) -> Iterator[int]:
    """Yield the places where a block may begin, in their order: outside of code, and within nothing else."""
    starts = [found.end() for found in _START.finditer(text)][-MAX_STARTS:]
    inside = _code(text)
    for number, start in enumerate(starts):
        if any(begin < start < end for begin, end in inside) or mark_in(text[:start]) >= 0:
            continue
        if not any(_encloses(text, other, start) for other in starts[:number]):
            yield start


def _encloses(text: str, other: int, start: int) -> bool:
    """Return whether what begins at `other` (an object, a list, a tag, a comment) has not ended at `start`."""
    if text[other] in "{[":
        return not 0 <= end_of(text, other) <= start
    if text.startswith("<!--", other):
        return text.find("-->", other, start) < 0
    tag = _TAG.match(text, other)
    return tag is not None and text.find(f"</{tag.group(1)}", other, start) < 0


def begins_with_mark(text: str) -> bool:
    """Return whether a text begins with a mark of a call."""
    return any(pattern.match(text) for pattern in (_MARK, _TAGGED, _NAMED))


def is_open_mark(text: str) -> bool:
    """Return whether a text may become the beginning of such a mark."""
    if text[:1] == "[":
        return any(mark.startswith(text.upper()) for mark in _BRACKETS)
    if text[:2] in ("<|", "<｜"):
        return len(text) < _LONGEST_TOKEN and not any(sign in text[2:].rstrip("|｜") for sign in "<>|｜\n")
    found = _OPEN_TAG.match(text)
    return found is not None and any(name.startswith(found.group(1).lower()) for name in _TAG_NAMES)


def calls_in(text: str) -> Sequence[WrittenCall] | None:
    """Return the calls of the object or list that a text begins with, none if it is no call; None: it is open."""
    end = end_of(text, 0)
    if end < 0:
        return None
    scan = _Scan(text[:end], 0)
    return scan.calls if scan.reads_all() else ()


def opening_of(text: str) -> str:
    """Return the text before the object or list that begins a block: nothing, or the first line of a fence."""
    found = re.match(r"\s*(?:(?:`{3,}|~{3,})[^\n]*\n\s*)?", text)
    return found.group() if found else ""


def name_in(text: str) -> str:
    """Return the name that a call which cannot be read seems to have; `a tool` where it has none."""
    found = _SOME_NAME.search(text)
    return found.group(1) or found.group(2) if found else "a tool"


def without_calls(text: str, start: int) -> tuple[str, tuple[WrittenCall, ...]]:
    """Return a text without the calls and their marks from `start` on, and these calls.

    An unreadable call after a mark goes up to the closing mark, or to the end.
    """
    kept, calls, at = [text[:start]], list[WrittenCall](), start
    while at < len(text):
        scan = _Scan(text, at)
        if (end := scan.reads_some()) > at and (scan.calls or begins_with_mark(text[at:])):
            calls += scan.calls
            at = end
            continue
        if begins_with_mark(text[at:]):
            closing = _CLOSING_MARK.search(text, at + 1)
            end = closing.end() if closing else len(text)
            if _SOME_NAME.search(text, at, end):
                calls.append(WrittenCall(name_in(text[at:end]), {}))
            at = end
            continue
        following = _NEXT.search(text, at + 1)
        end = following.end() if following else len(text)
        kept.append(text[at:end])
        at = end
    return "".join(kept), tuple(calls)


def mark_in(text: str) -> int:
    """Return where the first mark of a call stands outside of code; -1: nowhere."""
    inside: Sequence[tuple[int, int]] | None = None
    for pattern in (_MARK, _TAGGED, _NAMED):
        for found in pattern.finditer(text):
            inside = _code(text) if inside is None else inside
            line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            if line.count("`") % 2 == 0 and not any(begin <= found.start() < end for begin, end in inside):
                return found.start()
    return -1


def _code(text: str) -> Sequence[tuple[int, int]]:
    """Return where the fenced blocks begin and end (CommonMark 0.31, 4.5), one that is not closed at the text's end."""
    found: list[tuple[int, int]] = []
    begin, fence = -1, ""
    for line in _ANY_FENCE.finditer(text):
        marks, info = line.group(1), line.group(2)
        if begin < 0:
            begin, fence = line.start(1), marks
        elif marks[0] == fence[0] and len(marks) >= len(fence) and not info.strip():
            found.append((begin, line.end()))
            begin = -1
    return [*found, (begin, len(text) + 1)] if begin >= 0 else found


@dataclass
class _Scan:
    """Reads a text from one place to its end as calls and nothing else."""

    text: str
    at: int
    calls: list[WrittenCall] = field(default_factory=list)
    form: Form = Form.BARE
    _name: str = ""
    """Of the call whose arguments follow."""
    _parameters: dict[str, Any] = field(default_factory=dict)
    _fence: str = ""
    _in_marks: bool = False

    def reads_all(self) -> bool:
        """Read to the end; False: something else stands there."""
        while self._skip() < len(self.text):
            if len(self.calls) > MAX_CALLS or not self._reads_next():
                return False
        self._end_call()
        return not self._name

    def reads_some(self) -> int:
        """Read as far as there are calls; return where they end, or where they began."""
        end = self.at
        while self._skip() < len(self.text) and len(self.calls) < MAX_CALLS and self._reads_next():
            if not self._name and not self._fence:
                end = self.at
        return end

    def _skip(self) -> int:
        found = (_SPACE_BEHIND if self.calls else _SPACE).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at

    def _reads_next(self) -> bool:
        return (
            self._reads_fence()
            or self._reads_tag()
            or self._reads_named()
            or self._reads_parameter()
            or self._reads_mark()
            or self._reads_json()
            or self._reads_name()
        )

    def _reads_fence(self) -> bool:
        found = _FENCE.match(self.text, self.at)
        if found is None or (self._fence and found.group().rstrip() != self._fence):
            return False
        self._fence = "" if self._fence else found.group(1)
        if self.form is Form.BARE:
            self.form = Form.FENCED
        self.at = found.end()
        return True

    def _reads_mark(self) -> bool:
        found = _MARK.match(self.text, self.at)
        if found is None:
            return False
        is_closing = found.group().startswith("</")
        self._end_call(closed=is_closing)
        self._mark()
        self._in_marks = not is_closing
        self.at = found.end()
        return True

    def _mark(self) -> None:
        self._in_marks, self.form = True, Form.MARKED

    def _reads_tag(self) -> bool:
        """Read `<tool_call name="write" arguments={…}>`."""
        found = _TAGGED.match(self.text, self.at)
        if found is None:
            return False
        at, values = found.end(), dict[str, Any]()
        while (attribute := _ATTRIBUTE.match(self.text, at)) is not None:
            value, at = _attribute_value(self.text, attribute.end())
            if at < 0:
                return False
            values[attribute.group(1).lower()] = value
        end = re.compile(r"\s*/?>").match(self.text, at)
        if end is None or not self._takes(values):
            return False
        self._mark()
        self.at = end.end()
        return True

    def _reads_named(self) -> bool:
        found = _NAMED.match(self.text, self.at)
        if found is None:
            return False
        self._end_call()
        self._mark()
        self._name, self.at = found.group(1), found.end()
        return True

    def _reads_parameter(self) -> bool:
        found = _PARAMETER.match(self.text, self.at) if self._name else None
        if found is None:
            return False
        name, value = found.group(1) or found.group(3), found.group(2) if found.group(1) else found.group(4)
        if name in self._parameters:
            return False
        self._parameters[name] = value.removeprefix("\n").removesuffix("\n")
        self.at = found.end()
        return True

    def _end_call(self, *, closed: bool = False) -> None:
        """Take the call with the parameters that were read; a closed one needs none."""
        if self._name and (self._parameters or closed):
            self.calls.append(WrittenCall(self._name, self._parameters))
            self._name, self._parameters = "", {}

    def _reads_json(self) -> bool:
        if self.text[self.at] not in "{[":
            return False
        end = end_of(self.text, self.at)
        if end < 0:
            return False
        try:
            value = parse(self.text[self.at : end])
        except Unreadable:
            return False
        self.at = end
        if self._name:
            if not isinstance(value, dict) or self._parameters:
                return False
            call = _call_of(value)
            own = call if call and call.name == self._name else WrittenCall(self._name, value)
            self.calls.append(own)
            self._name = ""
            return True
        return self._takes(value)

    def _takes(self, value: Any) -> bool:
        """Take the calls of a JSON value; False: it is something else."""
        if isinstance(value, dict) and set(value) == {"tool_calls"}:
            value = value["tool_calls"]
        values = value if isinstance(value, list) else [value]
        found = [_call_of(each) for each in values]
        if not found or None in found:
            return False
        self.calls += [call for call in found if call]
        return True

    def _reads_name(self) -> bool:
        """Read a name between marks; arguments have to follow."""
        found = _NAME.match(self.text, self.at) if self._in_marks and not self._name else None
        if found is None:
            return False
        self.at = found.end()
        if found.group() in ("function", "json", "commentary", "assistant", "analysis", "tool"):
            return True
        self._name = found.group()
        return True


def _attribute_value(text: str, at: int) -> tuple[Any, int]:
    """Return the value of an attribute and the place after it; -1: it has no end."""
    if text[at : at + 1] in ("{", "["):
        end = end_of(text, at)
        return text[at:end], end
    if (quote := text[at : at + 1]) in ("'", '"') and quote:
        if text[at + 1 : at + 2] in ("{", "["):
            end = end_of(text, at + 1)
            return text[at + 1 : end], end + 1 if end >= 0 and text[end : end + 1] == quote else -1
        end = text.find(quote, at + 1)
        return text[at + 1 : end], end + 1 if end >= 0 else -1
    word = re.compile(r"[\w.:-]+").match(text, at)
    return (word.group(), word.end()) if word else ("", -1)


def _call_of(value: Any) -> WrittenCall | None:
    """Return the call that an object stands for; None: it is something else."""
    if not isinstance(value, dict):
        return None
    if isinstance(inner := value.get("function"), dict) and value.keys() <= {"function"} | _BESIDE:
        value = inner
    names = [key for key in NAME_KEYS if isinstance(value.get(key), str)]
    given = [key for key in _ARGUMENTS if key in value]
    if len(names) != 1 or len(given) != 1 or not value.keys() <= {*names, *given} | _BESIDE:
        return None
    arguments = value[given[0]]
    if isinstance(arguments, str):
        try:
            arguments = parse(arguments) if arguments.strip() else {}
        except Unreadable:
            return None
    if arguments is None:
        arguments = {}
    return WrittenCall(value[names[0]], arguments) if isinstance(arguments, dict) else None
