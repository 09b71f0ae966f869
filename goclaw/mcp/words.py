"""Texts of servers, made displayable: without hidden characters or imitations of our marks, and bounded."""

from goclaw.redact import mask, printable, revealed

CONFIGURATION = "the configuration"
"""The source of pinned definitions, unless a registry is."""
MAX_CHARACTERS = 300
"""Characters of an error that are shown."""
_PRESENTATION = str.maketrans(dict.fromkeys((0xFE0F, 0x200D)))
"""Characters that join and colour emoji: invisible, but harmless."""
_MARKS = str.maketrans({"<": "‹", ">": "›", "“": '"', "”": '"'})


def shown(text: str, most: int = MAX_CHARACTERS) -> str:
    """Return `text` in one paragraph of at most this length, with hidden characters as their codes."""
    text = printable(text[: 4 * most]).translate(_PRESENTATION)
    text = mask(revealed(" ".join(text.split())))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quoted(text: str, most: int) -> str:
    """Return the same for a text within marks: without anything that could end or imitate them."""
    return shown(text, most).translate(_MARKS)


def hides(text: str) -> bool:
    """Return whether it has hidden characters."""
    return revealed(text) != text
