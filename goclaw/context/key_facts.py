"""What a summary must not lose: names that only help word for word, such as paths, addresses and identifiers.

A model that summarises may drop them, and a summary of that summary cannot bring them back. Those that are missing are
put below its text.
"""

import re
from collections.abc import Iterable

MOST_NAMES = 60
MOST_CHARACTERS = 2_400
"""About 600 tokens: enough for a project's files, little beside the summary itself."""
LONGEST_NAME = 120
HEAD = "Kept word for word:"

MOST_READ = 200_000
"""Characters of one source that are looked at: the part of a conversation that a summary can be about in earnest."""

# Word by word, and only words of a bounded length: no text can make this slow.
_WORD = re.compile(r"`[^`\n]{2,80}`|\+\d[\d ().-]{6,18}\d|\S+")
_NAME = re.compile(
    r"""
    `[^`]+`                                                 # what somebody marked as literal
    | \+\d[\d\ ().-]+\d                                    # telephone numbers
    | https?://[^\s<>"')\]]+                                # addresses
    | [\w.+-]+@[\w-]+\.[\w.-]*\w                            # e-mail
    | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
    | (?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]*             # paths
    | [\w-]+\.(?:py|md|txt|json|ya?ml|toml|ts|js|go|rs|java|c|h|cpp|sh|sql|csv|html|css|pdf|png|jpe?g|db|log|lock)\b
    | \b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b                     # CONSTANT_NAMES
    | \b[A-Z]{2,10}-\d+\b | (?<!\w)\#\d+\b                # tickets
    | \bv?\d+\.\d+\.\d+(?:[-+][\w.]+)?\b                 # versions
    | \b\d[\d.-]{4,}\d\b                                  # long numbers, dates
    | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b  # hashes
    """,
    re.VERBOSE,
)


def names(text: str) -> Iterable[str]:
    """The names in a text, in order, each as often as it occurs."""
    for word in _WORD.finditer(text, 0, MOST_READ):
        if word.end() - word.start() > LONGEST_NAME:
            continue
        for found in _NAME.finditer(word[0]):
            name = found[0].strip("`").rstrip(".,;:")
            if len(name) > 2:
                yield name


def with_names(summary: str, *sources: str) -> str:
    """The summary, with the names of `sources` (the most important first) that it lacks below it, within bounds."""
    missing: dict[str, None] = {}
    room = MOST_CHARACTERS
    for source in sources:
        for name in names(source):
            if name in missing or name in summary:
                continue
            room -= len(name) + 2
            if room < 0 or len(missing) == MOST_NAMES:
                break
            missing[name] = None
    return f"{summary}\n\n{HEAD} {', '.join(missing)}" if missing else summary
