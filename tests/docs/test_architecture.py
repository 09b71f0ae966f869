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
    rooms = {path.stem for path in (house.ROOT / "goclaw").iterdir() if path.suffix == ".py"}
    rooms |= {path.parent.name for path in (house.ROOT / "goclaw").glob("*/__init__.py")}
    listed = [room for row in _ROW.finditer(PAGE.text) for room in _CODE.findall(row["rooms"])]
    assert sorted(listed) == sorted(rooms - {"__init__"})


def test_the_rooms_stand_in_the_order_of_the_layers() -> None:
    project = tomllib.loads((house.ROOT / "pyproject.toml").read_text("utf-8"))
    (layers,) = [each for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    floor = {room: number for number, line in enumerate(layers["layers"]) for room in re.findall(r"\((\w+)\)", line)}
    listed = [room for row in _ROW.finditer(PAGE.text) for room in _CODE.findall(row["rooms"])]
    assert [floor[room] for room in listed] == sorted(floor[room] for room in listed)


@pytest.mark.parametrize(
    ("page", "functions"), [("architecture.md", {"engine.submit", "gateway.accept"}), ("shared-store.md", set())]
)
def test_every_module_that_is_named_exists(page: str, functions: set[str]) -> None:
    text = (house.ROOT / "docs" / page).read_text("utf-8")
    package = house.ROOT / "goclaw"
    drawn = " ".join(re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    words = [*re.findall(r"`([a-z]+\.[a-z_.]+)`", text), *re.findall(r"\b[a-z]+\.[a-z_]+\b", drawn)]
    named = {word for word in words if (package / word.split(".")[0]).is_dir()}
    places = {name: package / name.replace(".", "/") for name in named}
    missing = {name for name, place in places.items() if not place.is_dir() and not place.with_suffix(".py").exists()}
    assert named and missing == functions
