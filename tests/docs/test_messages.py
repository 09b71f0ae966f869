"""Every message that docs/troubleshooting.md quotes stands in the source in these words; `…` is what differs."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests import house
from tests.docs.pages import Page
from tests.tables import table

CELL = re.compile(r"^\| (?P<ticks>`+) ?(?P<message>.*?) ?(?P=ticks) \|", re.MULTILINE)
PLACEHOLDER = re.compile(r"%[sd]|…")
PAGE = Page(house.ROOT / "docs" / "troubleshooting.md")


@cache
def texts() -> tuple[str, ...]:
    """Every text of the package, with `…` for what is filled in."""
    return tuple(text for path in house.python_files("goclaw") for text in _texts(house.tree_of(path)))


def _texts(tree: ast.AST) -> Iterator[str]:
    for child in ast.walk(tree):
        if isinstance(child, ast.JoinedStr):
            yield "".join(_part(value) for value in child.values)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield PLACEHOLDER.sub("…", child.value)


def _part(value: ast.expr) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else "…"


def stands_in_source(message: str) -> bool:
    """Whether one text has all the words of a message, in their order."""
    parts = [part.strip() for part in message.split("…")]
    words, longest = re.compile(".*".join(map(re.escape, parts)), re.DOTALL), max(parts, key=len)
    return any(longest in text and words.search(text) for text in texts())


@table("message", [found["message"] for found in CELL.finditer(PAGE.text)])
def test_a_message_is_quoted_as_it_is(message: str) -> None:
    assert stands_in_source(message)


def test_every_row_quotes_a_message() -> None:
    rows = [line for line in PAGE.text.splitlines() if line.startswith("| ") and not line.startswith("| message |")]
    assert len(rows) == len(CELL.findall(PAGE.text))


def test_a_message_that_nobody_says_is_found() -> None:
    """The finder itself."""
    assert stands_in_source("I stopped after … tool calls in one turn.")
    assert not stands_in_source("I stopped after … cups of tea")
