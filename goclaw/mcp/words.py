"""What a server says, fit to be shown: nothing that hides, nothing that looks like a mark of ours, and an end."""

from goclaw.redact import mask, printable, revealed

CONFIGURATION = "the configuration"
"""Who says what tools of a server have to be, unless a registry does."""
MAX_CHARACTERS = 300
"""Characters of an error that are repeated."""
_PRESENTATION = str.maketrans(dict.fromkeys((0xFE0F, 0x200D)))
"""What joins and colours emoji: hidden, and honest."""
_MARKS = str.maketrans({"<": "‹", ">": "›", "“": '"', "”": '"'})


def shown(text: str, most: int = MAX_CHARACTERS) -> str:
    """`text` in one paragraph, at most so long; what would hide in it is written as its code."""
    text = printable(text[: 4 * most]).translate(_PRESENTATION)
    text = mask(revealed(" ".join(text.split())))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quoted(text: str, most: int) -> str:
    """The same for what stands within marks: with nothing that could end or imitate them."""
    return shown(text, most).translate(_MARKS)


def hides(text: str) -> bool:
    """Whether something in it would not be seen."""
    return revealed(text) != text
