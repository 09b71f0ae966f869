"""The small agent of the comparison: short, with few imports, and every mistake in it is named with its place."""

from pathlib import Path

import pytest

from benchmarks.declaring.__main__ import EXTRA, HERE, MISTAKES, Mistake, count_lines, find_imports, plant
from goclaw.common.config.schema import Config
from goclaw.tools.toolkit.plugin_loading import check_file
from tests.tools.toolkit.one_file import own, put

TEXT = (HERE / "gardener_goclaw.py").read_text()


def test_the_agent_is_short() -> None:
    assert count_lines(TEXT) <= 14 and len([*find_imports(TEXT)]) <= 4


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.what)
def test_a_mistake_is_one_line_with_its_place_and_no_word_of_a_library(mistake: Mistake, tmp_path: Path) -> None:
    text, place = plant(mistake, "goclaw", TEXT)
    found = check_file(put(own(tmp_path / "mine") / "garden.py", EXTRA + text), Config(state_dir=tmp_path / "state"))
    assert [abs(each.line - place) <= 3 for each in found] == [True]
    assert "pydantic" not in found[0].message and "\n" not in found[0].message
