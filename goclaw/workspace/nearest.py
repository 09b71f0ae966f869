"""The file with the name most similar to a misspelt path."""

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches

CLOSE = 0.75
"""Likeness of names (difflib's ratio) from which one is offered."""
SURE, APART = 0.85, 0.05
"""From where it is taken for what was meant, and how far it has to be ahead of the next."""
_MAX_CHARACTERS = 300


def nearest(path: str, paths: Sequence[str]) -> tuple[str, bool]:
    """Return the file of `paths` most like `path`, empty if none is, and whether it is the only candidate.

    A file of the very same name in another folder counts as close: folders are what is remembered wrongly.
    """
    if len(path) > _MAX_CHARACTERS:
        return "", False
    name = path.rpartition("/")[2].casefold()
    by_name: dict[str, list[str]] = {}
    for each in paths:
        if not each.endswith("/"):
            by_name.setdefault(each.rpartition("/")[2].casefold(), []).append(each)
    close = [each for found in get_close_matches(name, by_name, n=5, cutoff=CLOSE) for each in by_name[found]]
    ranked = sorted(((_likeness(path, each), each) for each in close), reverse=True)
    if not ranked:
        return "", False
    best, second = ranked[0][0], ranked[1][0] if len(ranked) > 1 else 0.0
    return ranked[0][1], best >= SURE and best - second >= APART


def _likeness(path: str, other: str) -> float:
    """Return the likeness of the path or of its name, whichever is greater; a name alone counts for less."""
    one, two = path.casefold(), other.casefold()
    whole = SequenceMatcher(None, one, two).ratio()
    names = SequenceMatcher(None, one.rpartition("/")[2], two.rpartition("/")[2]).ratio()
    return max(whole, 0.9 * names)
