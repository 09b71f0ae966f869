"""The input: what is folded, what is taken, and what becomes of a text that was edited elsewhere."""

from pathlib import Path

import pytest
from textual.events import Paste

from goclaw.clients.tui.widgets.completion import Completion
from goclaw.clients.tui.widgets.prompt import FOLDED_CHARACTERS, FOLDED_LINES, HISTORY_FILE, InputHistory, Prompt


@pytest.fixture
def prompt(tmp_path: Path) -> Prompt:
    """An input that is never mounted."""
    return Prompt(InputHistory(tmp_path / HISTORY_FILE), Completion(lambda begun: False))


def lines(number: int) -> str:
    return "\n".join(f"line {at}" for at in range(number))


@pytest.mark.parametrize(
    ("pasted", "shown"),
    [
        (lines(FOLDED_LINES), lines(FOLDED_LINES)),
        (lines(FOLDED_LINES + 1), "[pasted text 1: 11 lines]"),
        ("x" * FOLDED_CHARACTERS, "x" * FOLDED_CHARACTERS),
        ("x" * (FOLDED_CHARACTERS + 1), "[pasted text 1: 1501 characters]"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\x1b[31mred\x07", "red"),
    ],
)
async def test_a_paste_is_folded_where_it_is_large_and_harmless_where_it_is_not(
    prompt: Prompt, pasted: str, shown: str
) -> None:
    await prompt._on_paste(Paste(pasted))
    assert prompt.text == shown


async def test_what_is_taken_is_whole_and_leaves_nothing(prompt: Prompt) -> None:
    first, second = lines(20), lines(30)
    prompt.put("a [pasted text 7: 3 lines] ")
    await prompt._on_paste(Paste(first))
    prompt.insert(" b ")
    await prompt._on_paste(Paste(second))
    assert prompt.text == "a [pasted text 7: 3 lines] [pasted text 1: 20 lines] b [pasted text 2: 30 lines]"
    assert prompt.pop_text() == f"a [pasted text 7: 3 lines] {first} b {second}", "a mark that was typed is a text"
    assert prompt.text == prompt.whole_text == ""
    prompt.put("[pasted text 1: 20 lines]")
    assert prompt.whole_text == "[pasted text 1: 20 lines]", "of a paste that was sent"


async def test_what_was_edited_elsewhere_takes_the_place_and_what_came_meanwhile_stays(prompt: Prompt) -> None:
    await prompt._on_paste(Paste(lines(20)))
    before = prompt.whole_text
    prompt.apply_edit(before, before)
    assert prompt.text == "[pasted text 1: 20 lines]", "nothing was changed, and it stays folded"
    prompt.apply_edit(before, "shorter")
    assert prompt.text == "shorter"
    prompt.put("a draft came back")
    prompt.apply_edit("shorter", "longer")
    assert prompt.text == "longer\na draft came back"
    assert prompt.cursor_location == prompt.document.end
