"""Makes text fit to leave the process: without secrets, and for a terminal without anything that it would obey.

Known secrets are masked wherever they stand; beyond them everything that has the shape of a token.
"""

import re

MASK = "[secret]"
SHORTEST = 8
"""Shorter values are too likely to be ordinary words."""

_SHAPES = (
    r"(?<!\d)\d{6,20}(?::|%3A)[A-Za-z0-9_-]{30,}",  # a Telegram bot's token, also inside a URL
    r"\bsk-[A-Za-z0-9_-]{16,}",  # keys of Anthropic, OpenAI and most who copied them
    r"\bBearer[ \t]{1,8}[A-Za-z0-9._~+/=-]{8,}",
    r"(?<=://)[^/\s:@\"']{1,256}:[^/\s@\"']{1,256}(?=@)",  # user and password in a URL
)
_TRACES = ("sk-", "://", "Bearer", "%3A")
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
"""What a shell does not take as it stands. A line's end is a backslash and a letter in JSON."""

# One set of secrets per process, as there is one standard error.
_known: set[str] = set()
_pattern = re.compile("|".join(_SHAPES))


def remember(secret: str) -> None:
    """Mask this text from now on, wherever it appears; texts under eight characters are not remembered."""
    global _pattern
    if len(secret) < SHORTEST or secret in _known:
        return
    _known.add(secret)
    # The longest first: one secret may begin with another.
    known = sorted(map(re.escape, _known), key=len, reverse=True)
    _pattern = re.compile("|".join((*known, *_SHAPES)))


def mask(text: str) -> str:
    """The text with every secret replaced by `[secret]`; quick where there is none."""
    if any(map(text.__contains__, _TRACES)) or _COLON_BEFORE_TOKEN.search(text) or any(map(text.__contains__, _known)):
        return _pattern.sub(MASK, text)
    return text


def mask_order(text: str) -> str:
    """`mask` for what somebody decides on: what only looks like a secret, but would make a shell act, is shown."""
    return _pattern.sub(_masked_unless_it_acts, text)


def _masked_unless_it_acts(found: re.Match[str]) -> str:
    text = found[0]
    if text in _known or not _ACTS.search(text):
        return MASK
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def revealed(text: str) -> str:
    """`text` with everything that would not be seen as its code (`\\u202e`): for what a person has to decide on."""
    return _HIDDEN.sub(lambda hidden: f"\\u{ord(hidden[0]):04x}", text)


def printable(text: str) -> str:
    """The text without anything that a terminal would obey; line ends and tabs stay."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub("", _SEQUENCES.sub("", text))
