"""docs/promises.md and the tests name each other: no promise without a test, no test of an unwritten promise."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests import house
from tests.docs.pages import Page

pytestmark = [pytest.mark.house, pytest.mark.timeout(300)]
MOST_PROMISES = 140
MOST_WORDS = 25
ROW = re.compile(r"(?P<sentence>.+\.) \[details\]\((?P<page>[\w-]+\.md)#(?P<anchor>[\w-]+)\)")
CODE = re.compile(r"`[^`]+`")
SECOND_SENTENCE = re.compile(r"[.;:!?] ")
PAGE = house.ROOT / "docs" / "promises.md"
PROMISE = re.compile(r"^\|\s*(?P<id>P-[^|\s]*)\s*\|(?P<text>[^|]*)\|", re.MULTILINE)
SHAPE = re.compile(r"P-[a-z0-9]+(-[a-z0-9]+)*")


def promised() -> list[tuple[str, str]]:
    """Return the id and the text of every row of the table."""
    return [(row["id"], row["text"].strip()) for row in PROMISE.finditer(PAGE.read_text("utf-8"))]


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


def _wrong(text: str) -> str:
    """Return how a row's text differs from one short sentence and a link; empty if it does not."""
    if not (row := ROW.fullmatch(text)):
        return "is no sentence with a link to its details"
    if SECOND_SENTENCE.search(CODE.sub("code", row["sentence"])):
        return "is more than one sentence"
    if (words := len(row["sentence"].split())) > MOST_WORDS:
        return f"has {words} words"
    if not (page := PAGE.parent / row["page"]).exists():
        return "leads to no page"
    return "" if row["anchor"] in _anchors(page) else "leads to no section of its page"


@cache
def _anchors(page: Path) -> set[str]:
    return Page(page).anchors()


def test_promises_are_few_named_and_said() -> None:
    ids = [identity for identity, _ in promised()]
    assert len(ids) <= MOST_PROMISES
    assert f"at most {MOST_PROMISES}" in PAGE.read_text("utf-8")
    assert [identity for identity in ids if not SHAPE.fullmatch(identity)] == []
    assert sorted(ids) == sorted(set(ids)), "an id stands in two rows"
    assert [identity for identity, text in promised() if not text] == []


def test_every_promise_is_one_short_sentence_and_links_its_details() -> None:
    wrong = {identity: problem for identity, text in promised() if (problem := _wrong(text))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("It works. [details](daemon.md#alerts)", ""),
        ("It works.", "is no sentence with a link to its details"),
        ("It works. It lasts. [details](daemon.md#alerts)", "is more than one sentence"),
        ("It works; it lasts. [details](daemon.md#alerts)", "is more than one sentence"),
        ("With `own: true` it works. [details](daemon.md#alerts)", ""),
        (f"It {'very ' * 23}works. [details](daemon.md#alerts)", ""),
        (f"It {'very ' * 24}works. [details](daemon.md#alerts)", "has 26 words"),
        ("It works. [details](demon.md#alerts)", "leads to no page"),
        ("It works. [details](daemon.md#alarms)", "leads to no section of its page"),
    ],
)
def test_a_row_of_the_wrong_form_is_found(text: str, problem: str) -> None:
    assert _wrong(text) == problem


def test_every_promise_has_a_test() -> None:
    assert {identity for identity, _ in promised()} - {proof.promise for proof in proofs()} == set()


def test_every_promise_is_proved_at_every_commit() -> None:
    short = {proof.promise for proof in proofs() if not proof.only_long}
    assert {identity for identity, _ in promised()} - short == set(), "these have tests in the long lane only"


def test_every_tested_promise_is_written_down() -> None:
    written = {identity for identity, _ in promised()}
    assert [f"{proof.place} {proof.promise}" for proof in proofs() if proof.promise not in written] == []
