"""The list above the input: what `/` and `@` offer, and what becomes of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from goclaw.events import Actor
from goclaw.tui.widgets.prompt import Prompt
from tests.tui.fake_daemon import PATIENCE, FakeGateway, Screen, Stage

FILES = ["README.md", "docs/", "docs/my notes.md", "docs/terminal.md", "my folder/", 'odd "name".md']


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
async def daemon(stage: Stage) -> AsyncIterator[FakeGateway]:
    async with stage.daemon() as gateway:
        gateway.workspace = FILES
        yield gateway


def typed(screen: Screen) -> str:
    return screen.terminal.query_one(Prompt).text


async def test_a_file_is_found_and_its_path_inserted(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("look at @term")
        await screen.until("docs/terminal.md")
        text = await screen.press("tab")
        assert typed(screen) == "look at @docs/terminal.md "
        assert text.count("docs/terminal.md") == 1, "the list is closed"
        await screen.type("now")
        await screen.press("enter")
        await heard(daemon, screen, "look at @docs/terminal.md now")


async def heard(daemon: FakeGateway, screen: Screen, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in [inbound.text for inbound in daemon.heard]:
            await screen.pilot.pause()


async def test_a_path_with_spaces_is_quoted_and_can_be_typed_so(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("@notes")
        await screen.until("docs/my notes.md")
        await screen.press("enter")
        assert typed(screen) == '@"docs/my notes.md" '
        await screen.type('@"docs/my no')
        await screen.until("\n docs/my notes.md")
        await screen.press("tab")
        assert typed(screen) == '@"docs/my notes.md" @"docs/my notes.md" '
    assert daemon.heard == []


async def test_a_folder_is_gone_into(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("@doc")
        await screen.until("docs/terminal.md")
        await screen.press("enter")
        assert typed(screen) == "@docs/"
        await screen.press("down", "down")
        assert "docs/terminal.md" in await screen.press("enter")
        assert typed(screen) == "@docs/terminal.md "


async def test_the_path_goes_where_the_cursor_is(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("first\nsee  for more")
        await screen.press(*["left"] * len(" for more"))
        await screen.type("@READ")
        await screen.until("README.md")
        await screen.press("tab")
        await screen.type("!")
        assert typed(screen) == "first\nsee @README.md! for more"


async def test_moving_away_closes_the_list_and_coming_back_opens_it(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("x @READ")
        await screen.until("README.md")
        await screen.press("home")
        await screen.until("README.md", gone=True)
        await screen.press("end")
        await screen.until("README.md")


async def test_escape_closes_the_list_for_this_word_only(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("@REA")
        await screen.until("README.md")
        assert "README.md" not in await screen.press("escape")
        await screen.type("D")
        assert "README.md" not in await screen.press("left", "right")
        await screen.type(" @REA")
        await screen.until("README.md")
        await screen.press("escape", "enter")
        await heard(daemon, screen, "@READ @REA")


async def test_a_path_that_is_written_out_is_sent_with_one_enter(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("@README.md")
        await screen.until("\n README.md")
        await screen.press("enter")
        await heard(daemon, screen, "@README.md")


async def test_a_path_that_cannot_be_written_is_not_offered(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("@odd")
        await screen.type(" @REA")
        assert 'odd "' not in await screen.until("README.md")


async def test_only_the_answer_for_what_is_typed_now_counts(
    daemon: FakeGateway, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is late: by then the person has typed on, and Enter must not choose from it."""
    asked: list[str] = []
    may_answer = asyncio.Event()

    async def files(actor: Actor, begun: str) -> Sequence[str]:
        asked.append(begun)
        await may_answer.wait()
        return [f"file for {begun}"]

    monkeypatch.setattr(daemon, "files", files)
    async with stage.terminal() as screen:
        await screen.type("@abc")
        assert "file for" not in screen.text()
        may_answer.set()
        text = await screen.until("file for abc")
    assert "file for a\n" not in text
    assert asked == ["", "abc"], "one question at a time, and then for what stands there"


async def test_known_paths_are_narrowed_down_while_the_answer_is_under_way(
    daemon: FakeGateway, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage.terminal() as screen:
        await screen.type("@d")
        await screen.until("docs/terminal.md")
        never = asyncio.Event()

        async def files(actor: Actor, begun: str) -> Sequence[str]:
            await never.wait()
            return []

        monkeypatch.setattr(daemon, "files", files)
        await screen.type("tr")
        text = screen.text()
        assert "docs/terminal.md" in text and "docs/my notes.md" not in text
        await screen.type("x")
        assert "docs/terminal.md" not in await screen.press("tab")
        await screen.type("y")
        assert typed(screen) == "@dtrxy", "a key that was meant for the list goes nowhere else"


async def test_after_a_break_files_are_found_again(stage: Stage) -> None:
    async with stage.daemon() as daemon:
        daemon.workspace = FILES
        terminal = stage.terminal()
        screen = await terminal.__aenter__()
    await screen.until("reconnecting")
    await screen.type("@REA")
    assert "README.md" not in screen.text()
    async with stage.daemon():
        await screen.until("connected")
        await screen.type("D")
        await screen.until("README.md")
        await terminal.__aexit__(None, None, None)


async def test_what_was_typed_before_comes_back_without_a_list_in_its_way(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        for text in ("first", "see @README.md"):
            await screen.type(text)
            await screen.press("escape", "enter")
            await heard(daemon, screen, text)
        await screen.press("up", "up")
        assert typed(screen) == "first"
        await screen.press("down")
        assert typed(screen) == "see @README.md"


async def test_a_hostile_name_cannot_steer_the_terminal(daemon: FakeGateway, stage: Stage) -> None:
    """The daemon offers none; a client does not rely on it."""
    daemon.workspace = ["\x1b[31mred [bold]x[/]"]
    async with stage.terminal() as screen:
        await screen.type("@red")
        assert "red [bold]x[/]" in await screen.until("bold")
