"""Links in an answer after foreign text: an address that the model made up is shown whole.

A made-up link can send data to an attacker with one press on a harmless word; a picture needs no press. So a made-up
link or picture becomes its words with the address in parentheses, and the definition of a link stays visible. Links to
addresses that stand in the window are left unchanged.

The pieces of a stream give the same text as the whole.
"""

import re
from collections.abc import Callable

from goclaw.llm.base import ModelEvent, Restarted, TextDelta

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_LINK = re.compile(
    r"(?:(?<!\w)!)?\[(?P<label>[^\[\]]{0,500})\]\(\s{0,9}<?(?P<address>[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?"
    r"(?:\s+(?:\"[^\"]{0,300}\"|'[^']{0,300}'))?\s{0,9}\)"
    r"|(?P<definition>\[[^\[\]]{0,500}[^\[\]\\]\]):\s{0,9}<?(?P<defined>(?:[a-z][a-z0-9+.-]*:|//)[^\s<>]+)(?=[\s>]|\Z)"
)
_OTHER_FORM = re.compile(r"(?<!\\)\](?:\(|:)\s*<?(?P<address>[^\s()<>]+)")
_BRACKETS, _PARENTHESES = "[]", "()"
MAX_LABEL, MAX_ADDRESS = 1_000, 8_000
"""Characters of what is held back."""


class ShownLinks:
    """Takes the pieces of one answer, and gives them as people may see them."""

    def __init__(self, must_show: Callable[[str], bool]) -> None:
        """`must_show`: whether an address has to be visible."""
        self._must_show = must_show
        self._held = ""
        self._before = ""
        """The last character in front of it."""

    def event(self, event: ModelEvent) -> ModelEvent:
        """Return an event of the stream as it is shown."""
        if isinstance(event, TextDelta):
            return TextDelta(self.next(event.text))
        if isinstance(event, Restarted):
            self._held = self._before = ""
        return event

    def next(self, piece: str) -> str:
        """Return the text that can be shown by now."""
        text = self._held + piece
        at = _find_begun(self._before + text) - len(self._before) if "[" in text or text.endswith("!") else len(text)
        self._held = text[at:]
        return self._settle(text[:at])

    def rest(self) -> str:
        """Return the text held back, when nothing more comes."""
        held, self._held = self._held, ""
        return self._settle(held)

    def _settle(self, text: str) -> str:
        shown = self.whole(self._before + text).removeprefix(self._before)
        self._before = text[-1:] or self._before
        return shown

    def whole(self, text: str) -> str:
        """Return a text with every such address visible."""
        while "](" in text or "]:" in text:
            before, text = text, _LINK.sub(self._show, text)
            if text == before:
                # Whatever other form it has: without brackets it is no link.
                hides = any(self._hides(link["address"]) for link in _OTHER_FORM.finditer(text))
                return text.replace("[", "\\[") if hides else text
        return text

    def _hides(self, address: str) -> bool:
        return bool(_SCHEME.match(address)) and self._must_show(address)

    def _show(self, link: re.Match[str]) -> str:
        if defined := link["defined"]:
            return f"{link['definition'][:-1]}\\]: {defined}" if self._hides(defined) else link[0]
        if not self._hides(link["address"]):
            return link[0]
        label = link["label"].strip()
        return f"{label} ({link['address']})" if label and label != link["address"] else link["address"]


def _find_begun(text: str) -> int:
    """Return where a link begins that goes on behind a text; its length where none does."""
    at = text.rfind("\n\n") + 1
    while (at := text.find("[", at)) >= 0:
        if (end := _find_end(text, at)) < 0:
            return at - _is_picture(text, at)
        at = end
    return len(text) - _is_picture(text, len(text))


def _is_picture(text: str, at: int) -> bool:
    """Whether the mark of a picture stands before `at`; behind a word it ends a sentence."""
    return text[at - 1 : at] == "!" and not text[at - 2 : at - 1].isalnum()


def _find_end(text: str, at: int) -> int:
    """Return where what begins with a bracket at `at` ends; -1: behind the text, as far as can be seen."""
    end = _find_closing(text, at, _BRACKETS, MAX_LABEL)
    if end < 0 or end == len(text):
        return -1
    if text[end] == "(":
        return _find_closing(text, end, _PARENTHESES, MAX_ADDRESS)
    if text[end] == ":":
        words = text[end + 1 : end + MAX_ADDRESS].split(maxsplit=1)
        return end + 1 if len(words) > 1 or len(text) > end + MAX_ADDRESS else -1
    return end


def _find_closing(text: str, at: int, marks: str, limit: int) -> int:
    """Return the place behind the mark that closes the one at `at`; the next one's where it is too far away."""
    depth = 0
    for place in range(at, min(len(text), at + limit)):
        is_escaped = text[place - 1 : place] == "\\"
        depth += 0 if is_escaped else (text[place] == marks[0]) - (text[place] == marks[1])
        if depth <= 0:
            return place + 1
    return at + 1 if len(text) - at > limit else -1
