"""Exact phrases: whether one occurs in a text, and which passages of the full-text index are worth comparing. Pure.

Case and the amount of white space are ignored, all else counts. A phrase that begins or ends with a word does not match
within a longer one: `cat` is not in `concatenate`.
"""

import re
import unicodedata

from goclaw.memory.query_terms import extra_terms

_SPACES = re.compile(r"(\s+)")
_ALPHANUMERIC = re.compile(r"[^\W_]")


def plain(text: str) -> str:
    """Return the text in the normal form for comparisons."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def stands_in(phrase: str, text: str) -> bool:
    """Return whether the phrase occurs in the text; both in their `plain` form."""
    begin = text.find(phrase) if phrase else -1
    while begin >= 0:
        end = begin + len(phrase)
        if not (
            _within_a_word(text[begin - 1 : begin + 1] if begin else "") or _within_a_word(text[end - 1 : end + 1])
        ):
            return True
        begin = text.find(phrase, begin + 1)
    return False


def candidate_expression(phrase: str) -> str:
    """Return an FTS5 expression that every passage with the phrase matches; empty if there is no word, as in `->`."""
    # In lower case, so that `getUserName` asks for no humps: a text may have it as `getusername`. And as texts mostly
    # have what is written in full width, beside as it is written.
    forms = dict.fromkeys((phrase.lower(), unicodedata.normalize("NFKC", phrase.lower())))
    return " OR ".join(f"({expression})" for form in forms if (expression := _expression(form)))


def longest_piece(phrase: str) -> str:
    """Return the longest part of the phrase without white space, for a scan of every text."""
    return max(phrase.lower().split(), key=len, default="")


def _expression(phrase: str) -> str:
    terms = [f'text : "{part}"' for part in _spoken(phrase)]
    return " AND ".join(terms + [f'extra : "{term}"' for term in dict.fromkeys(extra_terms(phrase))])


def _spoken(text: str) -> list[str]:
    """Return the text between pieces of unspaced scripts, each of which the index joins with its adjacent letters."""
    parts: list[str] = [""]
    for piece in _SPACES.split(text):
        if extra_terms(piece):
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip().replace('"', '""') for part in parts if _ALPHANUMERIC.search(part)]


def _within_a_word(pair: str) -> bool:
    """Return whether a word continues from one character to the next. Unspaced scripts do not mark where one ends."""
    return len(pair) == 2 and all(character.isalnum() and not extra_terms(character) for character in pair)
