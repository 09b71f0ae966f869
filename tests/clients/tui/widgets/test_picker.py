"""The list of sessions: what it shows, what it finds, what it makes of a new name."""

from collections.abc import Sequence

import pytest
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from goclaw.clients.tui.widgets.picker import SessionPicker, new_key, options_of
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import SessionInfo
from tests.clients.tui.screen import Hand, text_of

NOW = SteppedClock().now()


def known(*keys: str) -> list[SessionInfo]:
    return [SessionInfo(key, number, NOW, NOW - 60 * number, f"title of {key}") for number, key in enumerate(keys, 1)]


def offered(sessions: Sequence[SessionInfo] | None, typed: str) -> list[Option]:
    return options_of(sessions, typed, "tui:me", NOW, columns=120)


def words_of(option: Option) -> str:
    assert isinstance(option.prompt, Content)
    return option.prompt.plain


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("", ["tui:one", "tui:two", "telegram:-5:7"]),
        ("TWO", ["tui:two", "tui:TWO"]),
        ("title gram", ["telegram:-5:7", "tui:title-gram"]),
        ("new", ["tui:new"]),
        ("one", ["tui:one"]),
        ("tui:one", ["tui:one"]),
        ("tui:", ["tui:one", "tui:two"]),
        ("of", ["tui:one", "tui:two", "telegram:-5:7", "tui:of"]),
    ],
)
def test_what_is_typed_finds_sessions_by_key_and_title_and_names_a_new_one(typed: str, keys: list[str]) -> None:
    assert [option.id for option in offered(known("tui:one", "tui:two", "telegram:-5:7"), typed)] == keys


@pytest.mark.parametrize("typed", ["work", "tui:work"])
def test_the_one_that_is_called_just_so_comes_first(typed: str) -> None:
    assert offered(known("tui:homework", "tui:work"), typed)[0].id == "tui:work"


def test_without_a_list_it_waits_and_a_new_session_can_be_named() -> None:
    (waiting,) = offered(None, "")
    assert waiting.disabled and words_of(waiting) == "Waiting for the daemon …"
    (new,) = offered(None, "n")
    assert not new.disabled and words_of(new) == "  new session tui:n"
    (nothing,) = offered([], "")
    assert nothing.disabled and words_of(nothing) == "No messages yet."


def test_hostile_titles_and_keys_are_one_harmless_line() -> None:
    info = SessionInfo("tui:\x1b[2Jevil", 1, NOW, NOW, "first\n\x1b[31msecond [bold]third[/]")
    (line,) = map(words_of, offered([info], ""))
    assert line.startswith("  tui:evil  ") and line.endswith("first second [bold]third[/]")


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("work", "tui:work"),
        ("tui:work", "tui:work"),
        (" my  new\tproject ", "tui:my-new-project"),
        ("Zoë", "tui:Zoë"),
        ("", ""),
        ("   ", ""),
        ("tui:", ""),
        ("x" * 197, ""),
        ("a\u202eb", ""),
    ],
)
def test_a_new_session_is_named_after_what_is_typed(typed: str, key: str) -> None:
    assert new_key(typed) == key


# On a screen


class Around(App[None]):
    """Something that has a list of sessions above it, as often as it is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.picked: list[str | None] = []

    def compose(self) -> ComposeResult:
        yield Static("below")

    async def open(self, sessions: Sequence[SessionInfo] | None) -> SessionPicker:
        picker = SessionPicker("tui:me", SteppedClock())
        if sessions is not None:
            picker.add(sessions)
        await self.push_screen(picker, self.picked.append)
        return picker


@pytest.mark.screen
async def test_a_session_is_chosen_by_moving_by_typing_and_by_a_click() -> None:
    sessions = known("tui:one", "tui:two", "telegram:-5:7")
    around = Around()
    async with around.run_test(size=(120, 24)):
        pilot = Hand(around)
        for keys, chosen in (
            (["enter"], "tui:one"),
            (["down", "enter"], "tui:two"),
            (["down", "down", "down", "down", "enter"], "telegram:-5:7"),
            (["down", "pageup", "enter"], "tui:one"),
            (["pagedown", "enter"], "telegram:-5:7"),
            ([*"TWO", "enter"], "tui:two"),
            ([*"title", "space", *"gram", "enter"], "telegram:-5:7"),
            ([*"new", "enter"], "tui:new"),
            ([*"one", "down", "enter"], "tui:one"),
            (["x", "backspace", "enter"], "tui:one"),
            (["escape"], None),
            (["ctrl+c"], None),
        ):
            await around.open(sessions)
            await pilot.press(*keys)
            await pilot.pause()
            assert around.picked.pop() == chosen, keys
            assert not around.picked, keys
            assert text_of(around) == "below", keys

        await around.open(sessions)
        await pilot.pause()
        await pilot.click(OptionList, offset=(4, 1))
        await pilot.pause()
        assert around.picked == ["tui:two"]


@pytest.mark.screen
async def test_a_line_that_says_that_there_is_nothing_is_no_choice() -> None:
    around = Around()
    async with around.run_test():
        pilot = Hand(around)
        picker = await around.open(None)
        await pilot.pause()
        assert "Waiting for the daemon" in text_of(around)
        await pilot.press("enter", *"n")
        assert "new session tui:n" in text_of(around)
        picker.add([])
        await pilot.press("backspace")
        assert "No messages yet" in text_of(around)
        await pilot.press("enter")
        assert around.picked == []
