"""The list above the input: what `/` and `@` offer, and what becomes of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from textual.content import Content

from goclaw.clients.tui.widgets.completion import Completion
from goclaw.clients.tui.widgets.prompt import Prompt
from goclaw.common.core.events import Actor, CommandInfo
from tests.clients.tui.fake_daemon import PATIENCE, FakeGateway, Screen, Stage

FILES = ["README.md", "docs/", "docs/my notes.md", "docs/terminal.md", "my folder/", 'odd "name".md']
COMMANDS = [CommandInfo(name, f"what {name} does") for name in ("stop", "status", "help")]


class Typing:
    """A list that is never mounted, for a person who types in one line."""

    def __init__(self, *, is_connected: bool = True) -> None:
        self.is_connected = is_connected
        self.asked: list[str] = []
        self.completion = Completion(self._want)
        self.completion.know(COMMANDS)
        self.line = ""

    def _want(self, begun: str) -> bool:
        if self.is_connected:
            self.asked.append(begun)
        return self.is_connected

    def type(self, text: str) -> list[str]:
        """Letter by letter; returns what is offered then."""
        for letter in text:
            self.line += letter
            self.completion.offer(self.line, self.line)
        return self.offered

    def back_to(self, before: str) -> list[str]:
        """Move the cursor to the end of `before`."""
        self.completion.offer(self.line, before)
        return self.offered

    def answer(self) -> list[str]:
        """The daemon answers the last question."""
        self.completion.answer(self.asked[-1], [path for path in FILES if self.asked[-1] in path])
        return self.offered

    @property
    def offered(self) -> list[str]:
        return [str(option.id) for option in self.completion.options] if self.completion.is_open else []


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/", ["help", "status", "stop"]),
        ("/st", ["status", "stop"]),
        ("/ST", ["status", "stop"]),
        ("/to", ["stop"]),
        ("/tat", ["status"]),
        ("/nothing", []),
        ("/st ", []),
        ("x /st", []),
        ("", []),
    ],
)
def test_commands_are_offered_while_nothing_but_one_is_typed(typed: str, offered: list[str]) -> None:
    typing = Typing()
    assert typing.type(typed) == offered and typing.asked == []
    assert typing.completion.choice == (f"/{offered[0]} " if offered else typed)


def test_the_list_is_walked_through_in_a_circle() -> None:
    typing = Typing()
    typing.type("/st")
    chosen = []
    for step in (1, 1, -1):
        typing.completion.move(step)
        chosen.append(typing.completion.choice)
    assert chosen == ["/stop ", "/status ", "/stop "]
    assert typing.completion.begun == "/st"


def test_a_file_is_found_and_its_path_takes_the_place_of_what_was_begun() -> None:
    typing = Typing()
    assert typing.type("look at @term") == []
    asks = [typing.completion.is_asking]
    typing.answer()
    assert typing.answer() == ["docs/terminal.md"]
    assert [*asks, typing.completion.is_asking] == [True, False]
    assert (typing.completion.begun, typing.completion.choice) == ("@term", "@docs/terminal.md ")


def test_a_path_with_spaces_is_quoted_and_a_folder_is_gone_into() -> None:
    typing = Typing()
    typing.type('@"my ')
    typing.answer()
    assert typing.answer() == ["docs/my notes.md", "my folder/"]
    assert typing.completion.choice == '@"docs/my notes.md" '
    typing.completion.move(1)
    assert typing.completion.choice == '@"my folder/'


def test_one_question_at_a_time_and_only_the_answer_for_what_is_typed_now_counts() -> None:
    typing = Typing()
    typing.type("@abc")
    assert typing.asked == [""]
    typing.completion.answer("", ["file for nothing"])
    assert typing.offered == [] and typing.asked == ["", "abc"]
    typing.completion.answer("", ["late"])
    assert typing.offered == []
    typing.completion.answer("abc", ["file for abc"])
    assert typing.offered == ["file for abc"] and typing.asked == ["", "abc"]


def test_known_paths_are_narrowed_down_while_the_answer_is_under_way() -> None:
    typing = Typing()
    typing.type("@d")
    typing.answer()
    assert typing.answer() == ["README.md", "docs/", "docs/my notes.md", "docs/terminal.md", "my folder/"]
    assert typing.type("tr") == ["docs/terminal.md"] and typing.completion.is_asking
    assert typing.type("x") == []


def test_moving_away_closes_the_list_and_coming_back_opens_it() -> None:
    typing = Typing()
    typing.type("x @READ")
    typing.answer()
    assert typing.answer() == ["README.md"]
    assert typing.back_to("") == []
    typing.back_to("x @READ")
    assert typing.answer() == ["README.md"]


def test_a_closed_list_stays_closed_for_this_word_only() -> None:
    typing = Typing()
    typing.type("@REA")
    typing.answer()
    assert typing.answer() == ["README.md"]
    typing.completion.close()
    assert typing.type("D") == [] and typing.back_to("@REA") == [] and typing.back_to("@READ") == []
    typing.type(" @REA")
    typing.answer()
    assert typing.answer() == ["README.md"]


def test_a_path_that_cannot_be_written_is_not_offered() -> None:
    typing = Typing()
    typing.type("@odd")
    typing.answer()
    assert typing.answer() == [] and not typing.completion.is_open


def test_without_a_connection_nothing_is_under_way_and_afterwards_files_are_found_again() -> None:
    typing = Typing(is_connected=False)
    typing.type("@RE")
    assert not typing.completion.is_asking
    typing.is_connected = True
    typing.completion.know(COMMANDS)
    typing.type("A")
    assert typing.answer() == ["README.md"]

    typing.type("D")
    typing.completion.expect_no_answer()  # the connection broke
    typing.completion.know(COMMANDS)
    assert typing.back_to("@READ") == ["README.md"] and typing.asked[-1] == "READ"


def test_a_hostile_name_cannot_steer_the_terminal() -> None:
    """The daemon offers none; a client does not rely on it."""
    typing = Typing()
    typing.type("@")
    typing.completion.answer("", ["\x1b[31mred [bold]x[/]"])
    (option,) = typing.completion.options
    assert isinstance(option.prompt, Content) and option.prompt.plain == "red [bold]x[/]"


# On a screen


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


async def heard(daemon: FakeGateway, screen: Screen, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in [inbound.text for inbound in daemon.heard]:
            await screen.pilot.pause()


@pytest.mark.screen
async def test_keys_choose_paths_and_close_the_list(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await screen.type("look at @term")
        await screen.until("docs/terminal.md")
        text = await screen.press("tab")
        assert typed(screen) == "look at @docs/terminal.md "
        assert text.count("docs/terminal.md") == 1, "the list is closed"
        await screen.type("now")
        await screen.press("enter")
        await heard(daemon, screen, "look at @docs/terminal.md now")

        await screen.type("@notes")
        await screen.until("docs/my notes.md")
        await screen.press("enter")
        assert typed(screen) == '@"docs/my notes.md" '
        await screen.type('@"docs/my no')
        await screen.until("\n docs/my notes.md")
        await screen.press("tab")
        assert typed(screen) == '@"docs/my notes.md" @"docs/my notes.md" '
        await screen.press("ctrl+c")

        await screen.type("@doc")
        await screen.until("\n docs/terminal.md")
        await screen.press("enter")
        assert typed(screen) == "@docs/", "a folder is gone into"
        await screen.press("down", "down")
        await screen.press("enter")
        assert typed(screen) == "@docs/terminal.md "
        await screen.press("ctrl+c")

        await screen.type("@REA")
        await screen.until("README.md")
        assert "README.md" not in await screen.press("escape"), "closed for this word"
        await screen.type("D")
        assert "README.md" not in await screen.press("left", "right")
        await screen.type(" @REA")
        await screen.until("README.md")
        await screen.press("escape", "enter")
        await heard(daemon, screen, "@READ @REA")

        await screen.type("@README.md")
        await screen.until("\n README.md")
        await screen.press("enter")
        await heard(daemon, screen, "@README.md")  # written out it is sent with one Enter


@pytest.mark.screen
async def test_the_path_goes_where_the_cursor_is_and_what_was_typed_before_has_no_list_in_its_way(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.terminal() as screen:
        await screen.type("first\nsee  for more")
        await screen.press(*["left"] * len(" for more"))
        await screen.type("@READ")
        await screen.until("README.md")
        await screen.press("home")
        await screen.until("README.md", gone=True)
        await screen.press(*["right"] * len("see @READ"))
        await screen.until("README.md")
        await screen.press("tab")
        await screen.type("!")
        assert typed(screen) == "first\nsee @README.md! for more"
        await screen.press("ctrl+c")

        for text in ("first", "see @README.md"):
            await screen.type(text)
            await screen.press("escape", "enter")
            await heard(daemon, screen, text)
        await screen.press("up", "up")
        assert typed(screen) == "first"
        await screen.press("down")
        assert typed(screen) == "see @README.md"


@pytest.mark.screen
async def test_a_key_that_was_meant_for_the_list_goes_nowhere_else(
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
        await screen.type("trx")
        assert "docs/terminal.md" not in await screen.press("tab")
        await screen.type("y")
        assert typed(screen) == "@dtrxy"
