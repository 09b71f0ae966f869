"""docs/plugins.md is true: its file has no fault and works, and what it lists is there."""

import re
from pathlib import Path

from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.plugins import API_VERSION
from goclaw.testing import open_bench
from goclaw.tools.toolkit.plugin_loading import check_file, load_file
from tests import house
from tests.docs.pages import Page
from tests.tools.toolkit.one_file import own, put

PAGE = Page(house.ROOT / "docs" / "plugins.md")


async def test_the_file_of_the_page_has_no_fault_and_works(tmp_path: Path) -> None:
    (text,) = (block.text for block in PAGE.blocks() if block.mark == "<!-- file: garden.py -->")
    path = put(own(tmp_path / "mine") / "garden.py", f"{text}\n")
    config = Config(state_dir=own(tmp_path / "state"))
    assert check_file(path, config) == []
    (tool,) = load_file(path, config).tools
    async with open_bench(tmp_path, tool) as bench:
        found = await bench.call("place_of_plant", {"plant": "fern"})
        assert found.content == "in the shade"
        lacking = await bench.call("place_of_plant", {"plant": "moss"})
        assert lacking.is_error and "there are rose, fern" in lacking.content


def test_the_page_answers_at_its_beginning_and_names_every_section_of_the_group() -> None:
    first = "\n".join(PAGE.text.splitlines()[:12])
    for answer in ("goclaw plugin add", "goclaw declare check FILE", "/tools", "~/.goclaw/tools/garden.py", "restart"):
        assert answer in first
    assert {section for section in catalog.KINDS if f"`{section}." not in PAGE.text} == set()
    assert re.search(rf"`goclaw\.declare\.API_VERSION` is {API_VERSION}\.", PAGE.text)
