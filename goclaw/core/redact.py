"""Masking of secrets in text that leaves the process; removal of characters that no terminal or database takes.

Known secrets are masked in any place, in any form of `disguises`; beyond them everything that has the shape of a
token. This does not stop deliberate smuggling: there are more ways to write a secret. Against that, secrets are not
readable (`workspace`, `sandbox`).
"""

import base64
import html
import json
import re
import string
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

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
"""Characters by which the beginning of a secret is known as such where a text was cut."""

# One set of secrets per process, as there is one standard error.
_known: set[str] = set()
_plain: tuple[str, ...] = ()
"""Secrets searched for in every text."""
_runs: tuple[str, ...] = ()
"""Secrets searched for only where a run of letters and digits is as long as the shortest of them."""
_run = b""
_pattern = re.compile("|".join(_SHAPES))
_names = _wrapped = re.compile(r"(?!)")
"""Only what is known, and that in lines."""


def remember(secret: str) -> None:
    """Mask this text from now on, wherever it appears; texts under eight characters are not remembered."""
    global _pattern, _names, _plain, _runs, _run, _wrapped
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


def disguises(secret: str) -> Iterator[str]:
    """Yield the encoded and altered forms in which a secret may appear."""
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
    if any(map(text.__contains__, _plain)):
        text = _names.sub(MASK, text)
    if _run and _run in (runs := text.encode(errors="replace").translate(_RUNS)):
        if any(map(text.__contains__, _runs)):
            text = _names.sub(MASK, text)
        if b"x" * _WRAPPED in runs and any(map("".join(text.split()).__contains__, _runs)):
            text = _wrapped.sub(MASK, text)
    return text


def mask_end(text: str) -> str:
    """Mask a text that was cut at its end: a partial secret there is masked as well."""
    text = mask(text)
    half = _begun_at_the_end(text, _HALF)
    return f"{text[:-half]}{MASK}" if half else text


class Masking:
    """Masks known secrets in a text that comes in pieces: what may be the beginning of one waits for the next piece."""

    def __init__(self) -> None:
        self._held = ""

    def next(self, piece: str) -> str:
        """Return the text that can be shown by now."""
        text = mask_known(self._held + piece)
        half = _begun_at_the_end(text, 1)
        shown, self._held = (text[:-half], text[-half:]) if half else (text, "")
        return shown

    def rest(self) -> str:
        """Return the text held back, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def _begun_at_the_end(text: str, least: int) -> int:
    """Count the last characters (at least so many) that begin a known secret."""
    longest = 0
    for secret in _known:
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


def revealed(text: str) -> str:
    """Show characters that would be invisible as their codes (`\\u202e`), for texts that a person decides on."""
    return _HIDDEN.sub(lambda hidden: f"\\u{ord(hidden[0]):04x}", text)


def printable(text: str) -> str:
    """Return the text without anything that a terminal would obey; line ends and tabs stay."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub("", _SEQUENCES.sub("", text))


def storable(text: str) -> str:
    """Return the text with `?` for lone halves of surrogate pairs, which JSON has, and no database or UTF-8 file."""
    return text if text.isascii() else text.encode(errors="replace").decode()
