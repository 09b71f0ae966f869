"""Masking of secrets in text that leaves the process; removal of characters that no terminal or database takes.

Known secrets are masked in any place, in any form of `disguises`, and also where Markdown's marks stand inside one
(`sk-**rest**`): a chat or a terminal does not show the marks, and would show the secret. Beyond them everything that
has the shape of a token is masked. This does not stop deliberate smuggling: there are more ways to write a secret.
Against that, secrets are not readable (`workspace`, `sandbox`).
"""

import base64
import json
import re
import string
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from urllib.parse import quote, quote_plus

from goclaw.common.core.html_names import import_html

html = import_html()
MASK = "[secret]"
SHORTEST = 8
"""Shorter values are too likely to be ordinary words."""

_SHAPES = (
    r"(?<!\d)\d{6,20}(?::|%3A)[A-Za-z0-9_-]{30,}",  # a Telegram bot's token, also inside a URL
    r"\bsk-[A-Za-z0-9_-]{16,}",  # keys of Anthropic, OpenAI and most who copied them
    r"\bgoclaw_[A-Za-z0-9_-]{40,}",  # our own access tokens
    r"\bBearer[ \t]{1,8}[A-Za-z0-9._~+/=-]{8,}",
    r"(?<=://)[^/\s:@\"']{1,256}:[^/\s@\"']{1,256}(?=@)",  # user and password in a URL
)
_COLON_BEFORE_TOKEN = re.compile(r":[A-Za-z0-9_-]{30}")
"""Begins with one certain character: looking for that is many times as quick as looking for any digit."""

# Colours, cursor movements, titles and clipboard requests, as whole sequences.
_SEQUENCES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?")
# Other control characters, direction overrides that let a text read differently from what it is, half characters.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# What a terminal obeys, or draws in no cell or out of order: a text with it reads differently from what it is.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_ACTS = re.compile(r"[$`;&|(){}<>\\]")
"""Characters that a shell interprets. A line's end is a backslash and a letter in JSON."""

_TOKEN = (string.ascii_letters + string.digits + "+/=_%-").encode()
_RUNS = bytes(ord("x") if byte in _TOKEN else ord(" ") for byte in range(256))
_WRAPPED = 60
"""Characters of a line that something wrote as base64 in lines (76 and 64 are usual)."""
_HALF = 6
"""Characters that identify the beginning of a secret where a text was cut."""

# Characters that rendering may not show: emphasis, code, escapes (CommonMark 0.31), spoilers, brackets of links and
# controls; and all beyond ASCII, because some of them are invisible and a secret is told apart without them.
_FORMAT = bytes({*b"*_~`|[]\\", *range(9), *range(11, 32), *range(127, 256)})
_FORMAT_CLASS = r"[*_~`|\[\]\\\x00-\x08\x0b-\x1f\x7f-\U0010ffff]"
_TARGET = r"\]\((?:<[^<>\n]{0,500}>)?[^()\n]{0,500}(?:\([^()\n]{0,500}\)[^()\n]{0,500})?\)"
_REFERENCE = r"&#?\w{1,31};"
_UNFINISHED = (
    r"(?:\]\((?:<[^<>\n]{0,500}>?)?[^()\n]{0,500}(?:\([^()\n]{0,500}\)?[^()\n]{0,500})?"
    r"|&#?\w{0,31}|\x1b[^\x07\n]{0,99})\Z"
)
"""The end of a text that may yet become something that is not shown. Each of these is compiled when it is needed."""
_LOOKED_BACK = 1_000
"""Characters of a text in pieces where a formatted secret may have begun."""

# One set of secrets per process, as there is one standard error.
_known: set[str] = set()
_plain: tuple[str, ...] = ()
"""Secrets searched for in every text."""
_runs: tuple[str, ...] = ()
"""Secrets searched for only where a run of letters and digits is as long as the shortest of them."""
_run = b""
_pattern = re.compile("|".join(_SHAPES))
_names = _wrapped = re.compile(r"(?!)")
"""Only known secrets, line by line."""
_bare: tuple[bytes, ...] = ()
"""The known secrets, without format characters; the longest first."""
_bare_secrets: tuple[str, ...] = ()
"""The same of the secrets alone, not of their disguises."""
_bare_run = b""
"""A run of letters and digits that is in every text with one of these."""


def remember(secret: str) -> None:
    """Mask this text from now on, wherever it appears; texts under eight characters are not remembered."""
    global _pattern, _names, _plain, _runs, _run, _wrapped, _bare, _bare_secrets, _bare_run
    if len(secret) < SHORTEST or secret in _known:
        return
    _known.add(secret)
    written = set(disguises(secret)) - {secret}
    in_runs = {text for text in written if set(text.encode()) <= set(_TOKEN)}
    _plain = tuple({*_plain, secret, *(written - in_runs)})
    _runs = tuple({*_runs, *in_runs})
    _run = b"x" * min(map(len, _runs))
    # The longest first: one secret may begin with another.
    known = sorted((*_plain, *_runs), key=len, reverse=True)
    _pattern = re.compile("|".join((*map(re.escape, known), *_SHAPES)))
    _names = re.compile("|".join(map(re.escape, known)))
    _wrapped = re.compile("|".join("\\s*".join(map(re.escape, text)) for text in known if text in _runs))
    _bare = tuple(sorted(_long_enough(map(_strip_formats, known)), key=len, reverse=True))
    _bare_secrets = tuple(text.decode() for text in _long_enough(map(_strip_formats, _known)))
    _bare_run = min((max(text.translate(_RUNS).split(), default=b"") for text in _bare), default=b"")


def disguises(secret: str) -> Iterator[str]:
    """Yield the encoded and altered forms that a secret may appear in."""
    raw = secret.encode(errors="surrogatepass")
    for before in range(3):  # base64 of a longer text has one of three forms, by the bytes before
        whole = base64.b64encode(bytes(before) + raw).decode()
        core = whole[(8 * before + 5) // 6 : 8 * (before + len(raw)) // 6]
        yield from (core, core.translate(str.maketrans("+/", "-_")))
    yield from (raw.hex(), raw.hex().upper())
    yield from (quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    yield from (html.escape(secret), secret[::-1])


def mask(text: str) -> str:
    """Replace every secret in the text by `[secret]`; quick where it has no secret."""
    if _has_traces(text) or _COLON_BEFORE_TOKEN.search(text):
        text = _pattern.sub(MASK, text)
    return mask_known(text)


def mask_known(text: str) -> str:
    """Mask the daemon's own secrets alone: an example in an answer may look like a secret."""
    places = known_in(text)
    if not places:
        return text
    ends = [0, *(end for _, end in places)]
    shown = [text[end:start] for end, (start, _) in zip(ends, places, strict=False)]
    return MASK.join([*shown, text[ends[-1] :]])


def known_in(text: str) -> Sequence[tuple[int, int]]:
    """Return the places (start and end) of the daemon's own secrets, in order; none overlaps another."""
    patterns = [_names] if any(map(text.__contains__, _plain)) else []
    if _run and _run in (runs := text.encode(errors="replace").translate(_RUNS)):
        if any(map(text.__contains__, _runs)):
            patterns.append(_names)
        if b"x" * _WRAPPED in runs and any(map("".join(text.split()).__contains__, _runs)):
            patterns.append(_wrapped)
    found = [match.span() for pattern in patterns for match in pattern.finditer(text)]
    for pattern in patterns:
        text = pattern.sub(lambda known: "\n" * len(known[0]), text)
    if _shows_secret(text):
        found += _formatted_in(text)
    return _merge(found) if found else ()


def _merge(places: Collection[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _shows_secret(text: str) -> bool:
    """Whether a known secret is in what rendering shows of the text, with the targets of links or without."""
    if len(text) < len(_bare_run):
        return False
    bare = _strip_formats(text)
    if len(bare) == len(text) and "&" not in text:
        return False  # it has nothing that rendering hides
    return _is_known(bare) or ("](" in text and _is_known(_strip_formats(re.sub(_TARGET, "", text))))


def _is_known(bare: bytes) -> bool:
    return _bare_run in bare.translate(_RUNS) and any(map(bare.__contains__, _bare))


def _strip_formats(text: str) -> bytes:
    """Return the text as rendering may show it: without format characters and sequences, references resolved."""
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCES.sub("", text)
    if "&" in text:
        text = re.sub(_REFERENCE, lambda found: html.unescape(found[0]), text)
    return text.encode(errors="ignore").translate(None, _FORMAT)


def _long_enough(texts: Iterator[bytes]) -> set[bytes]:
    return {text for text in texts if len(text) >= SHORTEST}


def _formatted_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of known secrets in what rendering shows."""
    names = re.compile(b"|".join(map(re.escape, _bare)))
    for pattern in _formats():
        shown = _Shown(text, pattern)
        for found in names.finditer(shown.bare):
            yield shown.place(found.start())[0], shown.place(found.end() - 1)[1]


class _Shown:
    """The part of a text that rendering shows, with the place in the text of each of its characters."""

    def __init__(self, text: str, hidden: re.Pattern[str]) -> None:
        self.bare = b""
        self._begins: list[int] = []
        self._spans: list[tuple[int, int]] = []
        pieces, at, length = [], 0, 0
        for found in (*hidden.finditer(text), None):
            start, end = found.span() if found else (len(text), len(text))
            resolved = _strip_formats(found[0]) if found and found["reference"] else b""
            for piece, span in ((text[at:start].encode(), (at, start)), (resolved, (start, end))):
                if piece:
                    pieces.append(piece)
                    self._begins.append(length)
                    self._spans.append(span)
                    length += len(piece)
            at = end
        self.bare = b"".join(pieces)

    def place(self, number: int) -> tuple[int, int]:
        """Return where the character of this number begins and ends in the text."""
        piece = bisect_right(self._begins, number) - 1
        start, end = self._spans[piece]
        begin = self._begins[piece]
        after = self._begins[piece + 1] if piece + 1 < len(self._begins) else len(self.bare)
        if after - begin != end - start:
            return start, end  # a reference (`&#45;`) is taken whole
        return start + number - begin, start + number - begin + 1


@cache
def _formats() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of what rendering hides: without the targets of links, which a terminal shows, and with."""
    common = rf"{_SEQUENCES.pattern}|(?P<reference>{_REFERENCE})|{_FORMAT_CLASS}"
    return re.compile(common), re.compile(f"{_TARGET}|{common}")


def mask_end(text: str) -> str:
    """Mask a text that was cut at its end: a partial secret there is masked as well."""
    text = mask(text)
    half = _begun_at_the_end(text, _HALF, _known)
    return f"{text[:-half]}{MASK}" if half else text


class Masking:
    """Masks known secrets in a text that comes in pieces: what may be the beginning of one waits for the next piece."""

    def __init__(self) -> None:
        self._held = ""

    def next(self, piece: str) -> str:
        """Return the text that can be shown by now."""
        text = mask_known(self._held + piece)
        half = max(_begun_at_the_end(text, 1, _known), _count_partial(text))
        shown, self._held = (text[:-half], text[-half:]) if half else (text, "")
        return shown

    def rest(self) -> str:
        """Return the text held back, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def _count_partial(text: str) -> int:
    """Count the last characters that may become a known secret with format characters inside."""
    text = text[-_LOOKED_BACK:]
    if "&" not in text and len(_strip_formats(text)) == len(text):
        return 0
    finished = re.sub(_UNFINISHED, "", text)
    shown = _Shown(finished, _formats()[1])
    begun = _begun_at_the_end(shown.bare.decode(), 1, _bare_secrets)
    return len(text) - shown.place(len(shown.bare) - begun)[0] if begun else 0


def _begun_at_the_end(text: str, least: int, secrets: Collection[str]) -> int:
    """Count the last characters (at least so many) that begin one of the secrets."""
    longest = 0
    for secret in secrets:
        begin, end = secret[:least], text[-len(secret) + 1 :]
        at = end.find(begin)
        while at >= 0:
            if secret.startswith(end[at:]):
                longest = max(longest, len(end) - at)
                break
            at = end.find(begin, at + 1)
    return longest


def _has_traces(text: str) -> bool:
    """Whether something may have one of the shapes; one character is found many times as quickly as three."""
    return (
        ("-" in text and "sk-" in text)
        or (":" in text and "://" in text)
        or ("B" in text and "Bearer" in text)
        or ("%" in text and "%3A" in text)
        or ("_" in text and "goclaw_" in text)
    )


def mask_order(text: str) -> str:
    """Mask a text that a person decides on: parts that only look secret, but would make a shell act, are shown."""
    return _pattern.sub(_masked_unless_it_acts, text)


def _masked_unless_it_acts(found: re.Match[str]) -> str:
    text = found[0]
    if text in _plain or text in _runs or not _ACTS.search(text):
        return MASK
    for secret in sorted(_plain, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def reveal(text: str) -> str:
    """Show characters that would be invisible as their codes (`\\u202e`), for texts that a person decides on."""
    return _HIDDEN.sub(lambda hidden: f"\\u{ord(hidden[0]):04x}", text)


def printable(text: str) -> str:
    """Return the text without anything that a terminal would obey; line ends and tabs stay."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub("", _SEQUENCES.sub("", text))


def storable(text: str) -> str:
    """Return the text with `?` for lone halves of surrogate pairs, which JSON has, and no database or UTF-8 file.

    Without the character NUL, too: Postgres takes none, and some servers of models end a text there.
    """
    text = text.replace("\0", "")
    return text if text.isascii() else text.encode(errors="replace").decode()


def escape_json(text: str) -> str:
    """Return JSON that says the same without anything that a terminal would obey."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)
