"""Every block of commands in README.md and docs/ is carried out, or says why it is not; a page is one session."""

from pathlib import Path

import pytest

from tests import house
from tests.docs.pages import NOT_RUN, SHELL, Block, pages
from tests.docs.reader import Reader

LANGUAGES = (*SHELL, "chat", "json", "yaml", "yml", "python", "toml", "")
"""What a fence may name: commands, messages to the bot, files that are checked or tried out, another program's YAML
(`yml`), and pictures."""
AT_ONCE = ("README.md", "docs/registries.md")
"""Pages that are carried out for every commit; the others only before a release."""
SESSIONS = [
    pytest.param(blocks, id=page.name, marks=() if page.name in AT_ONCE else pytest.mark.long)
    for page in pages()
    if (blocks := [block for block in page.blocks() if block.language in (*SHELL, "chat")])
]


def test_every_block_says_what_it_is() -> None:
    assert [block.place for page in pages() for block in page.blocks() if block.language not in LANGUAGES] == []


def test_no_mark_stands_where_there_are_no_commands() -> None:
    marks = sum(page.text.count("<!-- not run:") + page.text.count("<!-- in a terminal") for page in pages())
    marked = [block for page in pages() for block in page.blocks() if block.mark and block.language in SHELL]
    assert marks == len(marked)


def test_a_block_without_a_language_holds_no_commands() -> None:
    pictures = [block for page in pages() for block in page.blocks() if not block.language]
    assert [block.place for block in pictures if block.text.lstrip().startswith(("goclaw ", "$ ", "/"))] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("blocks", SESSIONS)
async def test_what_a_page_says_to_type_works(blocks: list[Block], tmp_path: Path) -> None:
    run = [block for block in blocks if not NOT_RUN.fullmatch(block.mark)]
    if not run:
        pytest.skip("every block of this page says why it is not run")
    reader = Reader(tmp_path)
    try:
        for block in run:
            await reader.follow(block)
    finally:
        await reader.leave()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_the_script_of_the_page_about_the_daemon_runs_again(tmp_path: Path) -> None:
    """A backup takes the place of no file: the name in the script must be a new one."""
    (daemon,) = (page for page in pages() if page.name == "docs/daemon.md")
    (script,) = (block for block in daemon.blocks() if block.language == "sh" and "goclaw backup" in block.text)
    reader = Reader(tmp_path)
    try:
        await reader.follow(script)
        await reader.follow(script)
    finally:
        await reader.leave()


async def test_a_command_that_does_not_work_is_found(tmp_path: Path) -> None:
    """The reader itself."""
    reader = Reader(tmp_path)
    with pytest.raises(AssertionError, match=r"page\.md:7: exit code 2"):
        await reader.follow(Block("page.md", 7, "sh", "goclaw statsu"))


async def test_a_page_is_one_session(tmp_path: Path) -> None:
    """The reader itself: folder and variables are those that the block before it left."""
    reader = Reader(tmp_path)
    await reader.follow(Block("page.md", 1, "sh", "mkdir there && cd there && export WHO=ann"))
    await reader.follow(Block("page.md", 5, "console", "$ echo $WHO > name\nwhat it prints"))
    assert (tmp_path / "there" / "name").read_text() == "ann\n"


def test_the_pages_are_found() -> None:
    assert {*AT_ONCE, "docs/daemon.md"} <= {page.name for page in pages()}
    assert all((house.ROOT / page.name).is_file() for page in pages())
