"""docs/glossary.md: few terms, in order, and each with a module that exists."""

import re

from tests import house
from tests.docs.pages import Page

PAGE = Page(house.ROOT / "docs" / "glossary.md")
MAX_TERMS = 40
_ROW = re.compile(r"^\| (?P<term>[^|]+?) \| (?P<meaning>[^|]+?) \| `(?P<module>[^`|]+)` \|$", re.MULTILINE)


def test_the_glossary_has_at_most_forty_terms_in_order() -> None:
    rows = [line for line in PAGE.text.splitlines() if line.startswith("| ") and not line.startswith("| term |")]
    terms = [found["term"] for found in _ROW.finditer(PAGE.text)]
    assert len(terms) == len(rows)
    assert 0 < len(terms) <= MAX_TERMS
    assert terms == sorted(set(terms), key=str.casefold)


def test_a_term_takes_one_or_two_sentences() -> None:
    long = [found["term"] for found in _ROW.finditer(PAGE.text) if found["meaning"].count(". ") > 1]
    assert long == []


def test_every_module_of_the_glossary_exists() -> None:
    named = {found["module"] for found in _ROW.finditer(PAGE.text)}
    assert {name for name in named if not (house.ROOT / "goclaw" / name).is_file()} == set()


def test_newcomers_and_contributors_are_led_to_the_glossary() -> None:
    index, contributing = (Page(house.ROOT / name) for name in ("docs/README.md", "CONTRIBUTING.md"))
    assert "glossary.md" in index.links()
    assert "docs/glossary.md" in contributing.links()
