"""The list of planted bugs cannot rot: each still fits the source, and the tests that should catch it exist."""

import ast
from pathlib import Path

import pytest

from tests import house
from tests.mutations.bug import Bug
from tests.mutations.every import BUGS
from tests.tables import table

pytestmark = [pytest.mark.house, pytest.mark.timeout(300)]
AT_LEAST = 40


def test_every_bug_has_a_name_of_its_own() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= AT_LEAST


@table("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_fits_in_exactly_one_place(bug: Bug) -> None:
    assert [patch.old for patch in bug.patches if patch.places(house.ROOT) != 1] == []


@table("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_leaves_a_program_that_can_be_read(bug: Bug, tmp_path: Path) -> None:
    for patch in bug.patches:
        copy = tmp_path / patch.path
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text((house.ROOT / patch.path).read_text("utf-8"), "utf-8")
        before = copy.read_text("utf-8")
        patch.apply(tmp_path)
        assert copy.read_text("utf-8") != before
        if copy.suffix == ".py":
            ast.parse(copy.read_text("utf-8"))


def test_the_tests_that_should_catch_them_exist() -> None:
    named = {test.partition("[")[0] for bug in BUGS for test in bug.tests}
    assert [test for test in sorted(named) if not exists(*test.split("::"))] == []
    assert [bug.name for bug in BUGS if not bug.tests] == []


def exists(path: str, function: str = "") -> bool:
    """Whether there is such a file, with such a test in it."""
    if not (house.ROOT / path).is_file():
        return False
    found = house.functions(house.tree_of(house.ROOT / path))
    return not function or any(node.name == function for node in found)
