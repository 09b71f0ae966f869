"""Whether a call that a model wrote as text stands in its input: a page or a file could dictate one.

Compared is what no spelling changes: letters and digits, whatever spacing, quotes, escapes, entities, width or case the
material has. A call stands in a text if its block does, or if the text holds its name as that of a call and every one
of its values near by, in any order and in any form.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from goclaw.llm.text_calls import WrittenCall

_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_ESCAPES = re.compile(r"\\+[nrtbf]?")
_BEFORE = re.compile(
    r"(?:names?|tools?|toolnames?|functions?|functionnames?|action|invoke|toolcalls?|functioncalls?|call|args?|pythontag"
    r"|toolsep|begin|recipient|to|defaultapi)\Z"
)
"""The text before the name of a call, in every form that is read (`llm.text_calls`)."""
_WRITTEN_OUT = re.compile(
    r"""["'\\](?:name|tool|tool_name|function|action)\\*["']\s*:|<[|｜/]?\s*(?:tool|function|invoke)|\[TOOL_""",
    re.IGNORECASE,
)
_LONGEST = 24
"""Characters of that at most."""
_NEAR = 400
"""Characters around the call's name in which its values are looked for, beyond their own length on both sides."""


def stands_in(block: str, calls: Sequence[WrittenCall], texts: Iterable[str]) -> bool:
    """Return whether one of the texts holds the calls of a block, or one of them. Slow for long texts: for a thread."""
    whole = skeleton(block)
    wanted = [
        (skeleton(call.name), [part for part in map(skeleton, _values(call.arguments)) if part]) for call in calls
    ]
    for text in texts:
        found = skeleton(text)
        if whole in found or any(_holds(found, name, values) for name, values in wanted):
            return True
    return False


def is_written_out(text: str) -> bool:
    """Return whether a text holds what looks like a call: a person's own plain words order one, and dictate none."""
    return _WRITTEN_OUT.search(text) is not None


def skeleton(text: str) -> str:
    """Return the letters and digits of a text, however they are written."""
    if "%" in text:
        text = unquote(text)
    if "&" in text:
        text = html.unescape(html.unescape(text))
    if "\\" in text:
        text = _ESCAPED.sub(lambda found: chr(int(found.group(1) or found.group(2), 16)), text)
        text = _ESCAPES.sub("", text)
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(filter(str.isalnum, plain))


def _holds(text: str, name: str, values: Sequence[str]) -> bool:
    """Return whether a skeleton holds the name as that of a call, and all values near it."""
    near = _NEAR + 2 * sum(map(len, values))
    at = text.find(name)
    while at >= 0:
        around = text[max(0, at - near) : at + len(name) + near]
        if values and _BEFORE.search(text[max(0, at - _LONGEST) : at]) and all(value in around for value in values):
            return True
        at = text.find(name, at + 1)
    return False


def _values(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a call's arguments; truth values say nothing."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _values(each)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield f"{value:g}" if isinstance(value, float) else str(value)
