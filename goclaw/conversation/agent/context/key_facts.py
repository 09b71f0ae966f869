"""Key facts that a summary must keep: names that only help word for word, such as paths, addresses and identifiers,
names of people and places, and sentences with a decision.

A model that summarises may drop them, and a summary of that summary cannot bring them back. Missing ones are
put below its text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from goclaw.common.core.redact import MASK, mask
from goclaw.llm.token_counts import estimate_text

MAX_NAMES = 60
MAX_SHARE = 10
"""The list takes at most a tenth of a summary's tokens."""
MAX_NAME = 120
SHORTEST_NAME = 3
HEAD = "Kept word for word:"

MAX_READ = 400_000
"""Maximum characters searched: what half of a large window holds, in less than a second for any text."""

MAX_FOUND = 1_000
"""Maximum names: more than a summary can mention and the list below it hold."""

# Word by word, and only words of a bounded length: no text can make this slow.
_WORD = re.compile(r"`[^`\n]{2,80}`|\+\d[\d ().-]{6,18}\d|\S+")
_SIGNS = re.compile(r"[`/@#_+\d€$£%-]|\.\w")
"""Every name has one of these characters; most words do not."""
# Each alternative begins where nothing that it could begin with comes before: one try per word, not one per letter.
_NAME = re.compile(
    r"""
    `[^`]+`                                                 # what somebody marked as literal
    | \+\d[\d\ ().-]+\d                                    # telephone numbers
    | https?://[^\s<>"')\]]+                                # addresses
    | (?<![\w.+-])[\w.+-]++@[\w-]+\.[\w.-]*\w               # e-mail
    | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
    | (?<![\w.@+/~-])(?:(?:~|\.{1,2})?/(?:[\w.@+-]++/)*[\w.@+-]+|(?:[\w.@+-]++/)+[\w.@+-]*)  # paths
    | (?<![\w.-])[\w.-]*\w\.(?:py|md|txt|json|ya?ml|toml|ts|js|go|rs|java|c|h|cpp|sh|sql|csv|html|css|pdf|png|jpe?g|db
        |log|lock)\b
    | \b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b                     # CONSTANT_NAMES
    | \b[A-Z]{2,10}-\d+\b | (?<!\w)\#\d+\b                # tickets
    | \b\d{1,2}:\d{2}\b | \b[A-Z]{1,3}\d{1,5}\b            # times, rooms and flights
    | (?<![\w.,])\d+(?:[.,]\d+)*[€$£%] | (?<!\w)[€$£]\d+(?:[.,]\d+)*  # amounts
    | \bv?\d+\.\d+\.\d+(?:[-+][\w.]+)?\b                 # versions
    | \b\d[\d.-]{4,}\d\b                                  # long numbers, dates
    | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b  # hashes
    """,
    re.VERBOSE,
)

_DECISION = re.compile(
    r"\b(?:decided|agreed|settled on|we(?: will|'ll| chose)|entschieden|beschlossen|vereinbart|wir werden)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_SIGNS_AROUND = "\"'()[]*_,;:.!?…„“”»«-"
MAX_DECISIONS = 8
_FEW_NAMES, _SHARE_OF_NAMES = 8, 6
"""More capitalised words than these, and more than one word in six: the language capitalises nouns."""
_TELLING = 5
"""Letters from which a word tells something of its sentence."""


def names(text: str) -> Iterator[str]:
    """Yield the names in a text, in order, each as often as it occurs. Secrets are none."""
    text = mask(text)
    # Only code and telephone numbers have spaces; without them splitting is several times as quick.
    words = _WORD.findall(text) if "`" in text or "+" in text else text.split()
    for word in words:
        if word.isalpha() or len(word) > MAX_NAME or not _SIGNS.search(word) or MASK in word:
            continue
        for found in _NAME.finditer(word):
            name = found[0].strip("`").rstrip(".,;:")
            if len(name) >= SHORTEST_NAME:
                yield name


def names_in(texts: Iterable[str]) -> Sequence[str]:
    """Return the names in some texts, the most important first, each once and within bounds."""
    found: dict[str, None] = {}
    for text in _limit(texts):
        found.update(dict.fromkeys(names(text)))
        if len(found) >= MAX_FOUND:
            break
    return list(found)


def facts_in(texts: Iterable[str]) -> Sequence[str]:
    """Return the sentences with a decision in some texts, and the names of people and places, each once and in order.

    A decision has a word such as "agreed"; a name is a capitalised word inside a sentence that nowhere stands in lower
    case. In a language that capitalises nouns no names are found.
    """
    inside, small, decisions = list[str](), set[str](), dict[str, None]()
    for text in map(mask, _limit(texts)):
        for sentence in (part.strip(" \t-*#") for part in _SENTENCE_END.split(text)):
            words = sentence.split()
            inside += (word.strip(_SIGNS_AROUND) for word in words[1:])
            small.update(filter(str.islower, words))
            if len(sentence) <= MAX_NAME and MASK not in sentence and _DECISION.search(sentence):
                decisions[sentence] = None
    people = [word for word in inside if word.isalpha() and word.istitle() and SHORTEST_NAME <= len(word) <= MAX_NAME]
    if len(people) > max(_FEW_NAMES, len(inside) // _SHARE_OF_NAMES):
        people = []
    return [*islice(decisions, MAX_DECISIONS), *(name for name in dict.fromkeys(people) if name.lower() not in small)]


def with_names(summary: str, before: str, said: Sequence[str], tokens: int) -> str:
    """Return the summary, with the names that it lacks below it, within bounds.

    Args:
        summary: the written summary.
        before: the summary of what came earlier; its names have no other place any more.
        said: the names in the summarised text, see `names_in` and `facts_in`.
        tokens: the limit of the summary; the list takes at most a tenth of that.
    """
    room = tokens // MAX_SHARE - estimate_text(HEAD)
    old = [name for name in (*names_in([before]), *facts_in([before])) if not _has(summary, name)]
    # Old names get half, and what the new ones leave over: else a full list would never take in another name.
    kept = _first(old, MAX_NAMES // 2, room // 2)
    size = sum(map(_size, kept))
    known = set(old)
    fresh = (name for name in said if name not in known and not _has(summary, name))
    new = _first(fresh, MAX_NAMES - len(kept), room - size)
    size += sum(map(_size, new))
    rest = _first(old[len(kept) :], MAX_NAMES - len(kept) - len(new), room - size)
    missing = [*kept, *new, *rest]
    if not missing:
        return summary
    decisions = [f"\n- {each}" for each in missing if _DECISION.search(each)]
    listed = ", ".join(each for each in missing if not _DECISION.search(each))
    return f"{summary}\n\n{HEAD} {listed}{''.join(decisions)}"


def _has(summary: str, fact: str) -> bool:
    """Whether a summary has a name word for word, or half of the telling words of a decision."""
    if fact in summary or not _DECISION.search(fact):
        return fact in summary
    words = [word.strip(_SIGNS_AROUND) for word in fact.split()]
    telling = [word for word in words if len(word) >= _TELLING or not word.islower()]
    return 2 * sum(word in summary for word in telling) >= len(telling)


def _limit(texts: Iterable[str]) -> Iterator[str]:
    left = MAX_READ
    for text in texts:
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def _first(found: Iterable[str], most: int, tokens: int) -> Sequence[str]:
    """Return as many of the first names as there is room for."""
    kept: list[str] = []
    for name in found:
        tokens -= _size(name)
        if tokens < 0 or len(kept) == most:
            break
        kept.append(name)
    return kept


def _size(name: str) -> int:
    return estimate_text(f"{name}, ")
