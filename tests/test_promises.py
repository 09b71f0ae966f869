"""docs/promises.md and the tests name each other: no promise without a test, no test of an unwritten promise."""

import ast
import re
from collections.abc import Iterator

from tests import house

MOST_PROMISES = 80
PROMISE = re.compile(r"^\|\s*(?P<id>P-[^|\s]*)\s*\|(?P<text>[^|]*)\|", re.MULTILINE)
SHAPE = re.compile(r"P-[a-z0-9]+(-[a-z0-9]+)*")


def promised() -> list[tuple[str, str]]:
    """Return the id and the sentence of every row of the table."""
    page = (house.ROOT / "docs" / "promises.md").read_text("utf-8")
    return [(row["id"], row["text"].strip()) for row in PROMISE.finditer(page)]


def proved() -> Iterator[tuple[str, str]]:
    """Yield the id and the place of every `pytest.mark.promise("P-…")`."""
    for path in house.python_files("tests"):
        for node in ast.walk(house.tree_of(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.promise"):
                for argument in node.args:
                    yield ast.literal_eval(argument), f"{house.name_of(path)}:{node.lineno}"


def test_promises_are_few_named_and_said() -> None:
    ids = [identity for identity, _ in promised()]
    assert len(ids) <= MOST_PROMISES
    assert [identity for identity in ids if not SHAPE.fullmatch(identity)] == []
    assert sorted(ids) == sorted(set(ids)), "an id stands in two rows"
    assert [identity for identity, text in promised() if not text] == []


def test_every_promise_has_a_test() -> None:
    assert {identity for identity, _ in promised()} - {identity for identity, _ in proved()} == set()


def test_every_tested_promise_is_written_down() -> None:
    written = {identity for identity, _ in promised()}
    assert [f"{place} {identity}" for identity, place in proved() if identity not in written] == []
