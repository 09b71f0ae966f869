"""docs/promises.md and the tests name each other: no promise without a test, no test of an unwritten promise."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests import house

MOST_PROMISES = 140
PROMISE = re.compile(r"^\|\s*(?P<id>P-[^|\s]*)\s*\|(?P<text>[^|]*)\|", re.MULTILINE)
SHAPE = re.compile(r"P-[a-z0-9]+(-[a-z0-9]+)*")


def promised() -> list[tuple[str, str]]:
    """Return the id and the sentence of every row of the table."""
    page = (house.ROOT / "docs" / "promises.md").read_text("utf-8")
    return [(row["id"], row["text"].strip()) for row in PROMISE.finditer(page)]


@dataclass(frozen=True)
class Proof:
    """A `pytest.mark.promise("P-…")`."""

    promise: str
    place: str
    only_long: bool
    """The test runs in the long lane alone."""


@cache
def proofs() -> tuple[Proof, ...]:
    """Return every mark of a test, and those that a module's `pytestmark` gives to all of its tests."""
    marked = (path for path in house.python_files("tests") if "mark.promise(" in path.read_text("utf-8"))
    return tuple(proof for path in marked for proof in _proofs(path, house.tree_of(path)))


def _proofs(path: Path, tree: ast.Module) -> Iterator[Proof]:
    of_all = [node for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
    all_long = any("mark.long" in ast.unparse(node) for node in of_all)
    for test in [*of_all, *house.functions(tree)]:
        marks = test.decorator_list if not isinstance(test, ast.Assign) else [test.value]
        only_long = all_long or any(ast.unparse(mark).endswith("mark.long") for mark in marks)
        for mark in (node for each in marks for node in ast.walk(each)):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("mark.promise"):
                for argument in mark.args:
                    place = f"{house.name_of(path)}:{mark.lineno}"
                    yield Proof(ast.literal_eval(argument), place, only_long)


def test_promises_are_few_named_and_said() -> None:
    ids = [identity for identity, _ in promised()]
    assert len(ids) <= MOST_PROMISES
    assert [identity for identity in ids if not SHAPE.fullmatch(identity)] == []
    assert sorted(ids) == sorted(set(ids)), "an id stands in two rows"
    assert [identity for identity, text in promised() if not text] == []


def test_every_promise_has_a_test() -> None:
    assert {identity for identity, _ in promised()} - {proof.promise for proof in proofs()} == set()


def test_every_promise_is_proved_at_every_commit() -> None:
    short = {proof.promise for proof in proofs() if not proof.only_long}
    assert {identity for identity, _ in promised()} - short == set(), "these have tests in the long lane only"


def test_every_tested_promise_is_written_down() -> None:
    written = {identity for identity, _ in promised()}
    assert [f"{proof.place} {proof.promise}" for proof in proofs() if proof.promise not in written] == []
