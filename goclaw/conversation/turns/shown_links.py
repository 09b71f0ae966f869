"""Links in an answer that was written after reading others' words: an address that nobody wrote is shown whole.

A link can carry what the model has read to whoever made it write that, with one press on a harmless word; a picture
does it without a press. So a link of the model's own making becomes its words with the address behind them, a picture
the same, and a definition of one stays visible. Addresses that stand in the window are left as they are.

However an answer is cut into pieces, the same comes out.
"""

import re
from collections.abc import Callable

from goclaw.llm.base import ModelEvent, Restarted, TextDelta

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_LINK = re.compile(
    r"(?:(?<!\w)!)?\[(?P<label>[^\[\]]{0,500})\]\(\s{0,9}<?(?P<address>[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?"
    r"(?:\s+(?:\"[^\"]{0,300}\"|'[^']{0,300}'))?\s{0,9}\)"
    r"|(?P<definition>\[[^\[\]]{1,500}\]):\s{0,9}<?(?P<defined>[^\s<>]+)(?=[\s>]|\Z)"
)
_PICTURE = re.compile(r"(?<!\w)!\Z")
_OPEN = re.compile(
    r"(?:(?<!\w)!)?(?:\[[^\[\]]{0,500}(?:\](?:"
    r"\([^()\n]{0,8000}(?:\([^()\n]{0,8000}\)?[^()\n]{0,8000})?"
    r"|:\s{0,9}\S{0,8000})?)?)?\Z"
)
"""The beginning of a link, at the end of a piece."""


class ShownLinks:
    """Takes the pieces of one answer, and gives them as people may see them."""

    def __init__(self, must_show: Callable[[str], bool]) -> None:
        """`must_show`: whether an address has to be visible."""
        self._must_show = must_show
        self._held = ""

    def event(self, event: ModelEvent) -> ModelEvent:
        """Return an event of the stream as it is shown."""
        if isinstance(event, TextDelta):
            return TextDelta(self.next(event.text))
        if isinstance(event, Restarted):
            self._held = ""
        return event

    def next(self, piece: str) -> str:
        """Return the text that can be shown by now."""
        text = self._held + piece
        if not text or not ("[" in text or _PICTURE.search(text)):
            self._held = ""
            return text
        begun = _OPEN.search(text)
        at = begun.start() if begun else len(text)
        self._held = text[at:]
        return self.whole(text[:at])

    def rest(self) -> str:
        """Return the text held back, when nothing more comes."""
        held, self._held = self._held, ""
        return self.whole(held)

    def whole(self, text: str) -> str:
        """Return a text with every such address visible."""
        while "](" in text or "]:" in text:
            before, text = text, _LINK.sub(self._show, text)
            if text == before:
                break
        return text

    def _hides(self, address: str) -> bool:
        return bool(_SCHEME.match(address)) and self._must_show(address)

    def _show(self, link: re.Match[str]) -> str:
        if defined := link["defined"]:
            is_visible = link.string[link.start() - 1 : link.start()] == "\\"
            return link[0] if is_visible or not self._hides(defined) else f"\\{link[0]}"
        if not self._hides(link["address"]):
            return link[0]
        label = link["label"].strip()
        return f"{label} ({link['address']})" if label and label != link["address"] else link["address"]
