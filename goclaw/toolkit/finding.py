"""Search for tools by words, for `tool_search`; it uses no model.

Each word of the query counts for a tool by where it stands (its name, other names of it, its description, its arguments
and examples) and by how few tools have it. A word of German or Spanish counts as what it means (`lexicon`).
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from goclaw.catalog import ALIASES
from goclaw.specs import ToolSpec
from goclaw.toolkit.lexicon import meanings

_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"(?<=[a-z]{3})(?<![sui])s$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_IN_NAME, _IN_ALIAS, _IN_SHORT, _IN_TEXT, _IN_ARGUMENT = 6.0, 4.0, 3.0, 1.0, 0.5
_LEAST_SHARED = 4
"""Characters that two forms of a word have in common."""
_IDLE = re.compile(
    "a|an|and|any|are|at|be|by|can|do|for|from|how|i|in|is|it|me|my|of|on|or|please|some|that|the|this|to|tool|want|"
    "what|which|with|you"
)
"""Words that say nothing of a tool."""


def find(query: str, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the tools that fit a query, the best first; none where no word of it fits one."""
    wanted = [word for word in words(query) if not _IDLE.fullmatch(word)]
    weights = [_weights(spec) for spec in tools]
    scores = [0.0] * len(tools)
    for word in dict.fromkeys(wanted):
        found = [max(_weight(meant, each) for meant in meanings(word)) for each in weights]
        having = sum(1 for weight in found if weight)
        rarity = math.log(1 + len(tools) / having) if having else 0.0
        scores = [score + rarity * weight for score, weight in zip(scores, found, strict=True)]
    whole = query.strip()
    for at, spec in enumerate(tools):
        if spec.name == whole or ALIASES.get(whole) == spec.name:
            scores[at] = math.inf
    ranked = sorted(range(len(tools)), key=lambda at: -scores[at])
    return [tools[at] for at in ranked if scores[at] > 0]


def words(text: str) -> list[str]:
    """Return the words of a text: lower case, singular, without diacritics; `multi_edit` and `MultiEdit` are two."""
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", text))
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return [_PLURAL.sub("", word.casefold()) for word in _WORD.findall(plain)]


def _weights(spec: ToolSpec) -> Mapping[str, float]:
    """Return the weight of each word for the tool: the largest of the places where it stands."""
    weights: Counter[str] = Counter()
    for text, weight in _places(spec):
        for word in words(text):
            weights[word] = max(weights[word], weight)  # type: ignore[assignment]  # a Counter of numbers
    return weights


def _places(spec: ToolSpec) -> Iterator[tuple[str, float]]:
    yield spec.name, _IN_NAME
    yield spec.title, _IN_ALIAS
    for alias, name in ALIASES.items():
        if name == spec.name:
            yield alias, _IN_ALIAS
    yield spec.short, _IN_SHORT
    yield spec.description, _IN_TEXT
    for tag in spec.tags:
        yield tag, _IN_TEXT
    for example in spec.examples:
        yield example.about, _IN_TEXT
    for name, schema in spec.schema.get("properties", {}).items():
        yield name, _IN_ARGUMENT
        if isinstance(schema, Mapping):
            yield str(schema.get("description", "")), _IN_ARGUMENT


def _weight(word: str, weights: Mapping[str, float]) -> float:
    """Return the word's weight; for another form of it (searching, searches) three quarters."""
    exact = weights.get(word, 0.0)
    if len(word) < _LEAST_SHARED:
        return exact
    others = (weight for other, weight in weights.items() if _akin(word, other))
    return max(exact, 0.75 * max(others, default=0.0))


def _akin(word: str, other: str) -> bool:
    """Whether one begins as the other, or both do but for an ending."""
    shared = 0
    for mine, theirs in zip(word, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared >= max(_LEAST_SHARED, max(len(word), len(other)) - 3)
