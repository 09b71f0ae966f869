"""The quickstart tells of the tools, and never takes the place of somebody's own file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.common.specs import Example, SideEffect
from goclaw.common.workspace import Workspace
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.tool_docs import QUICKSTART, ListedTool, is_untouched, quickstart_page, write_quickstart


@tool(side_effect=SideEffect.READ_ONLY, tags=["filesystem"], examples=[Example("Count a note", {"path": "note.md"})])
async def count(ctx: ToolContext, path: str, limit: int = 5) -> str:
    """Count the words of a file. And so on."""
    return "0"


@tool(side_effect=SideEffect.SPAWNS, tags=["shell"])
async def launch(ctx: ToolContext) -> str:
    """Start something."""
    return "started"


COUNT, LAUNCH = ListedTool(count, "built in"), ListedTool(launch, "built in")


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    async with Workspace(tmp_path) as opened:
        yield opened


def test_it_says_what_there_is_how_it_is_called_and_where_more_is_said() -> None:
    text = quickstart_page([LAUNCH, COUNT])
    assert "## Filesystem\n\n- `count(path, limit?)`: Count the words of a file. Risk: low.\n" in text
    assert '  - Count a note: `{"path": "note.md"}`\n' in text
    assert "## Shell\n\n- `launch()`: Start something. Risk: critical.\n" in text
    for word in ("/tools", "goclaw tool run NAME", "goclaw tool describe NAME"):
        assert word in text


async def test_it_is_written_once_and_anew_when_the_tools_change(workspace: Workspace, tmp_path: Path) -> None:
    assert await write_quickstart(workspace, [COUNT])
    assert (tmp_path / QUICKSTART).read_text() == quickstart_page([COUNT])
    assert not await write_quickstart(workspace, [COUNT])
    assert await write_quickstart(workspace, [COUNT, LAUNCH])
    assert (tmp_path / QUICKSTART).read_text() == quickstart_page([COUNT, LAUNCH])


@pytest.mark.promise("P-quickstart-own")
@pytest.mark.parametrize(
    "own",
    [
        "my own words\n",
        "",
        quickstart_page([COUNT]).replace("Quickstart", "Our quickstart"),
        quickstart_page([COUNT]) + "one more line\n",
        quickstart_page([COUNT]).rpartition("<!--")[0],
        "x" * (2 << 20),
        "\x00\xff",
    ],
    ids=["other", "empty", "changed", "longer", "without mark", "large", "no text"],
)
async def test_a_file_of_somebodys_own_stays(own: str, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / QUICKSTART).write_text(own)
    assert not await write_quickstart(workspace, [LAUNCH])
    assert (tmp_path / QUICKSTART).read_text() == own


@pytest.mark.promise("P-quickstart-own")
async def test_what_is_no_file_stays(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / QUICKSTART).mkdir()
    assert not await write_quickstart(workspace, [LAUNCH])
    (tmp_path / QUICKSTART).rmdir()
    (tmp_path / "elsewhere").write_text(quickstart_page([COUNT]))
    (tmp_path / QUICKSTART).symlink_to("elsewhere")
    assert not await write_quickstart(workspace, [LAUNCH])
    assert (tmp_path / QUICKSTART).is_symlink() and (tmp_path / "elsewhere").read_text() == quickstart_page([COUNT])
    (tmp_path / QUICKSTART).unlink()
    (tmp_path / QUICKSTART).symlink_to("nowhere")
    assert not await write_quickstart(workspace, [LAUNCH])
    assert not (tmp_path / "nowhere").exists()


def test_the_mark_tells_what_was_changed() -> None:
    assert is_untouched(quickstart_page([COUNT]))
    assert not is_untouched(quickstart_page([COUNT]).replace("words", "lines"))
    assert not is_untouched("")
