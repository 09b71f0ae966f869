"""RTF: the text of a document without its formats (Microsoft, "RTF Specification 1.9.1")."""

import re
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow

_MAX_RTF = 40 << 20
_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<symbol>[^a-zA-Z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\"
)
_SKIPPED = frozenset(
    b"fonttbl colortbl stylesheet info pict object themedata datastore listtable listoverridetable rsidtbl generator "
    b"latentstyles colorschememapping fldinst xmlnstbl".split()
)
"""Groups without text for people."""
_BREAKS = {
    b"par": "\n", b"line": "\n", b"tab": "\t", b"cell": " | ", b"row": "\n", b"page": "\n", b"sect": "\n",
    b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“", b"rdblquote": "”",
}  # fmt: skip
_SYMBOLS = {b"~": "\u00a0", b"_": "-", b"\\": "\\", b"{": "{", b"}": "}", b"\n": "\n", b"\r": "\n"}
_DEEPEST = 2_000
"""Groups within each other."""


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read an RTF document."""
    answer.kind = "RTF document"
    data = file.read(_MAX_RTF + 1)
    if len(data) > _MAX_RTF:
        answer.note(f"only its first {_MAX_RTF >> 20} MB were read")
    add_flow(answer, wanted, ((0, line) for line in "".join(map(_Reader().apply, _TOKEN.finditer(data))).splitlines()))


class _Reader:
    """Character set, skipping and groups at a place of the document."""

    def __init__(self) -> None:
        self._codec = "cp1252"
        self._skipping = False
        self._fallback, self._left = 1, 0
        """Characters that stand in for one in Unicode, and those of them that are still to come."""
        self._groups: list[tuple[bool, int]] = []

    def apply(self, match: re.Match[bytes]) -> str:
        """Take in a token; return its text."""
        if match["brace"]:
            self._apply_brace(match["brace"])
        elif match["word"]:
            return self._apply_word(match["word"], int(match["number"] or 0))
        elif match["symbol"] == b"*":
            self._skipping = True
        elif not self._skipping:
            piece = self._decode(match)
            left, self._left = self._left, max(0, self._left - len(piece))
            return piece[left:]
        return ""

    def _apply_brace(self, brace: bytes) -> None:
        if brace == b"{":
            self._groups.append((self._skipping, self._fallback))
            if len(self._groups) > _DEEPEST:
                raise Refused(f"is not opened: it nests more than {_DEEPEST} groups")
        elif self._groups:
            self._skipping, self._fallback = self._groups.pop()
        self._left = 0

    def _apply_word(self, word: bytes, number: int) -> str:
        if word in _SKIPPED:
            self._skipping = True
        elif word == b"ansicpg":
            self._codec = f"cp{number}"
        elif word == b"uc":
            self._fallback = number
        elif not self._skipping and word == b"u":
            self._left = self._fallback
            return chr(number % 0x10000)
        return "" if self._skipping else _BREAKS.get(word, "")

    def _decode(self, match: re.Match[bytes]) -> str:
        if match["symbol"]:
            return _SYMBOLS.get(match["symbol"], "")
        raw = bytes.fromhex(match["hex"].decode()) if match["hex"] else match["text"] or b""
        try:
            return raw.decode(self._codec, "replace")
        except LookupError:
            return raw.decode("cp1252", "replace")
