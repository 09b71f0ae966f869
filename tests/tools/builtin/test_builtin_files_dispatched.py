"""The tools for files through every step of the dispatcher: results as they are declared, pictures, review, hints."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from goclaw.common.core.events import ToolFinished
from goclaw.testing import open_bench
from tests.picture_support import png
from tests.tables import table
from tests.tools.builtin.test_builtin_files import TOOLS

PICTURE = png()
HUGE = "x" * 2_000_000
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "a.txt"}),
    ("read", {"path": "a.ipynb"}),
    ("write", {"path": "new.txt", "content": "x"}),
    ("edit", {"path": "a.txt", "old_string": "one", "new_string": "two"}),
    ("multi_edit", {"path": "a.txt", "edits": [{"old_string": "one", "new_string": "two"}]}),
    ("notebook_edit", {"path": "a.ipynb", "action": "insert", "new_source": "x"}),
    ("glob", {"pattern": "*"}),
    ("list", {}),
    ("search", {"pattern": "one"}),
]
HOSTILE = [
    *("/etc/passwd", "../../etc/passwd", "a\0b", "\u202egnp.txt", "pipe", "link"),
    *("x" * 5_000, "output:../../x", " ", HUGE),
]


def fill(folder: Path) -> None:
    (folder / "a.txt").write_text("one\n")
    (folder / "a.png").write_bytes(PICTURE)
    (folder / "a.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook()))
    (folder / "link").symlink_to("/etc/passwd")


@pytest.mark.parametrize(("name", "given"), CALLS)
async def test_a_result_is_what_its_tool_declares(name: str, given: dict[str, Any], tmp_path: Path) -> None:
    async with open_bench(tmp_path, *TOOLS) as bench:
        fill(bench.folder)
        result = await bench.call(name, given)

    assert not result.is_error, result.content
    (finished,) = [event for event in bench.events if isinstance(event, ToolFinished)]
    assert finished.hint


async def test_a_picture_goes_to_the_model_with_the_result(tmp_path: Path) -> None:
    async with open_bench(tmp_path, *TOOLS) as bench:
        fill(bench.folder)
        result = await bench.call("read", {"path": "a.png"})

    assert result.content == f"a.png is a picture (image/png, {len(PICTURE)} bytes)"
    assert [image.mime for image in result.images] == ["image/png"]


@table("path", HOSTILE, ids=map(str, range(len(HOSTILE))))
@table("name, given", [call for call in CALLS if call[0] != "glob"])
async def test_a_hostile_path_is_an_error_in_words_and_changes_nothing(
    name: str, given: dict[str, Any], path: str, tmp_path: Path
) -> None:
    async with open_bench(tmp_path, *TOOLS) as bench:
        fill(bench.folder)
        before = {found.name: found.lstat().st_mtime_ns for found in bench.folder.iterdir()}
        result = await bench.call(name, {**given, "path": path})
        after = {found.name: found.lstat().st_mtime_ns for found in bench.folder.iterdir()}

    said = json.loads(result.content)["error"] if result.is_error else ""
    new = path in ("pipe", "output:../../x") and name == "write"  # plain names of new files, below the workspace
    assert new or (said and "root:" not in said and "failed unexpectedly" not in said and len(said) < 5_000)
    assert new or before == after
