"""docs/architecture.md and shared-store.md: one page, every room in its table, and nothing named that is not there."""

import re
import tomllib

import pytest

from tests import house
from tests.docs.pages import Page

PAGE = Page(house.ROOT / "docs" / "architecture.md")
MAX_LINES = 80
INVARIANTS = 5
_ROW = re.compile(r"^\| (?P<rooms>`[^|]*) \| (?P<contents>[^|]+) \|$", re.MULTILINE)
_CODE = re.compile(r"`(\w+)`")


def test_the_architecture_fits_on_one_page() -> None:
    assert len(PAGE.text.splitlines()) <= MAX_LINES
    assert len(re.findall(r"^\d\. \*\*", PAGE.text, re.MULTILINE)) == INVARIANTS


def test_every_room_is_in_the_table_once() -> None:
    rooms = {path.parent.name for path in (house.ROOT / "goclaw").glob("*/__init__.py")} - house.LASTING
    listed = [room for row in _ROW.finditer(PAGE.text) for room in _CODE.findall(row["rooms"])]
    assert sorted(listed) == sorted(rooms)


def test_every_part_of_a_room_is_in_its_row() -> None:
    for row in _ROW.finditer(PAGE.text):
        for room in _CODE.findall(row["rooms"]):
            parts = {path.parent.name for path in (house.ROOT / "goclaw" / room).glob("*/__init__.py")}
            if room not in ("channels", "llm", "memory"):
                assert parts <= set(_CODE.findall(row["contents"])), room


def test_the_rooms_stand_in_the_order_of_the_layers() -> None:
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [each for each in contracts if each.get("containers") == ["goclaw"]]
    floor = {room: number for number, line in enumerate(layers["layers"]) for room in re.findall(r"\((\w+)\)", line)}
    listed = [room for row in _ROW.finditer(PAGE.text) for room in _CODE.findall(row["rooms"])]
    assert [floor[room] for room in listed] == sorted(floor[room] for room in listed)


@pytest.mark.parametrize("page", ["architecture.md", "shared-store.md"])
def test_every_module_that_is_named_exists(page: str) -> None:
    text = (house.ROOT / "docs" / page).read_text("utf-8")
    package = house.ROOT / "goclaw"
    drawn = " ".join(re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    words = [*re.findall(r"`([a-z]+\.[a-z_.]+)`", text), *re.findall(r"\b[a-z]+\.[a-z_.]+\b", drawn)]
    named = {word for word in words if (package / word.split(".")[0]).is_dir()}
    places = {name: package / name.replace(".", "/") for name in named}
    assert named
    assert {
        name for name, place in places.items() if not place.is_dir() and not place.with_suffix(".py").exists()
    } == set()
