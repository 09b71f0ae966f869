"""The list of sessions: what it shows, what it finds, what it makes of a new name."""

from collections.abc import Sequence

import pytest
from textual.app import App, ComposeResult
from textual.widgets import OptionList, Static

from goclaw.clock import SteppedClock
from goclaw.events import SessionInfo
from goclaw.tui.widgets.picker import SessionPicker, new_key
from tests.tui.screen import Hand, text_of

NOW = SteppedClock().now()


def known(*keys: str) -> list[SessionInfo]:
    return [SessionInfo(key, number, NOW, NOW - 60 * number, f"title of {key}") for number, key in enumerate(keys, 1)]


class Around(App[None]):
    """Something that has a list of sessions above it."""

    def __init__(self, sessions: Sequence[SessionInfo] | None) -> None:
        super().__init__()
        self.picker = SessionPicker("tui:me", SteppedClock())
        self.picked: list[str | None] = []
        if sessions is not None:
            self.picker.show(sessions)

    def compose(self) -> ComposeResult:
        yield Static("below")

    def on_mount(self) -> None:
        self.push_screen(self.picker, self.picked.append)


async def picked(sessions: Sequence[SessionInfo], *keys: str) -> str | None:
    around = Around(sessions)
    async with around.run_test():
        pilot = Hand(around)
        await pilot.press(*keys)
        await pilot.pause()
    return around.picked[0] if around.picked else "nothing yet"


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
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
    ],
)
async def test_a_session_is_chosen_by_moving_and_by_typing(keys: list[str], chosen: str | None) -> None:
    assert await picked(known("tui:one", "tui:two", "telegram:-5:7"), *keys) == chosen


async def test_the_one_that_is_called_just_so_comes_first() -> None:
    sessions = known("tui:homework", "tui:work")
    assert await picked(sessions, *"work", "enter") == "tui:work"
    assert await picked(sessions, *"tui", "colon", *"work", "enter") == "tui:work"


async def test_a_click_chooses() -> None:
    around = Around(known("tui:one", "tui:two"))
    async with around.run_test():
        pilot = Hand(around)
        await pilot.click(around.picker.query_one(OptionList), offset=(4, 1))
        await pilot.pause()
    assert around.picked == ["tui:two"]


async def test_without_a_list_it_waits_and_a_new_session_can_be_named() -> None:
    around = Around(None)
    async with around.run_test():
        pilot = Hand(around)
        assert "Waiting for the daemon" in text_of(around)
        await pilot.press("enter", *"n")
        assert "new session tui:n" in text_of(around)
        around.picker.show([])
        await pilot.press("backspace")
        assert "Nothing was said yet" in text_of(around)
        await pilot.press("enter")
        assert around.picked == []


async def test_hostile_titles_and_keys_are_one_harmless_line() -> None:
    info = SessionInfo("tui:\x1b[2Jevil", 1, NOW, NOW, "first\n\x1b[31msecond [bold]third[/]")
    around = Around([info])
    async with around.run_test(size=(120, 24)):
        line = next(line for line in text_of(around).splitlines() if "evil" in line)
    assert "first second [bold]third[/]" in line


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
