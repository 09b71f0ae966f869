"""docs/security.md names parts, tests, promises and keys that exist."""

import re

import pytest

from goclaw.common.config.keys import ANY_NAME, keys
from goclaw.common.config.schema import Config
from tests import house
from tests.docs.pages import Page
from tests.tables import table

PAGE = Page(house.ROOT / "docs" / "security.md")
HEAD = "| what holds | by | not covered | attacked by |"
CODE = re.compile(r"`([^`]+)`")


def rows() -> list[list[str]]:
    """The cells of every guarantee."""
    found, inside = [], False
    for line in PAGE.text.splitlines():
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line != HEAD and not line.startswith("|---"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


ROWS = [pytest.param(row, id=row[0][:60]) for row in rows()]


def test_the_guarantees_are_found() -> None:
    assert len(rows()) >= 35
    assert PAGE.text.count(HEAD) >= 10


@table("row", ROWS)
def test_a_guarantee_says_by_what_and_is_attacked(row: list[str]) -> None:
    assert len(row) == 4, row
    parts, tests = CODE.findall(row[1]), CODE.findall(row[3])
    assert parts and [part for part in parts if not (house.PACKAGE / part).is_file()] == []
    assert tests and [test for test in tests if not (house.ROOT / "tests" / test).exists()] == []


def test_every_promise_that_is_named_is_one() -> None:
    named = {code for code in PAGE.codes() if code.startswith("P-")}
    promised = re.findall(
        r"^\| (P-[a-z0-9-]+) \|", (house.ROOT / "docs" / "promises.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(named) > 20
    assert named - set(promised) == set()


def test_every_key_that_is_named_exists() -> None:
    """`tools.exec.network: none` and `pairing.enabled`; names of files have a slash or an ending."""
    known = {".".join(key.path) for key in keys(Config) if ANY_NAME not in key.path}
    dotted = {code.partition(":")[0] for code in PAGE.codes() if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+(: .*)?", code)}
    named = {code for code in dotted if not code.endswith((".py", ".json", ".yaml", ".md"))}
    assert len(named) >= 8
    assert named - known == set()
