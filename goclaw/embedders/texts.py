"""Preparation of texts for embedding: made sendable, cut, and prefixed by their purpose."""

from collections.abc import Iterator, Sequence

from goclaw.records import record

MAX_CHARACTERS = 8_000
"""Characters. What is indexed has some 800; a server that gets more than its model reads may refuse the whole batch."""
NOTHING = "-"
"""Stands for a text of blanks, which servers refuse."""


@record
class Prefixes:
    """Texts that a model requires before queries and documents."""

    query: str = ""
    document: str = ""


_ASKING = Prefixes("Represent this sentence for searching relevant passages: ")
PREFIXES = {
    "nomic-embed": Prefixes("search_query: ", "search_document: "),
    "mxbai-embed": _ASKING,
    "snowflake-arctic-embed2": Prefixes("query: "),
    "snowflake-arctic-embed-l-v2": Prefixes("query: "),
    "snowflake-arctic-embed-m-v2": Prefixes("query: "),
    "snowflake-arctic-embed": _ASKING,
    "bge-small-en": _ASKING,
    "bge-base-en": _ASKING,
    "bge-large-en": _ASKING,
    "e5-small": Prefixes("query: ", "passage: "),
    "e5-base": Prefixes("query: ", "passage: "),
    "e5-large": Prefixes("query: ", "passage: "),
    "embeddinggemma": Prefixes("task: search result | query: ", "title: none | text: "),
    "qwen3-embedding": Prefixes(
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
    ),
}
"""By a part of the model's name, the first that fits; from each model's card, as of 2026. Without, it finds less."""


def prefixes(model: str) -> Prefixes:
    """Return the prefixes for the model of that name; empty for an unknown one.

    >>> prefixes("nomic-embed-text:v1.5").query
    'search_query: '
    """
    name = model.lower()
    return next((found for part, found in PREFIXES.items() if part in name), Prefixes())


def prepared(texts: Sequence[str], before: str = "") -> list[str]:
    """Return the texts as they may be sent: cut, without half characters, and never empty."""
    return [
        before + (text[:MAX_CHARACTERS].encode("utf-8", "replace").decode() if text.strip() else NOTHING)
        for text in texts
    ]


def in_batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield the texts in order, at most `size` at a time."""
    for start in range(0, len(texts), size):
        yield texts[start : start + size]
