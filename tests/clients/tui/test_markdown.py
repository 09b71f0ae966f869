"""Markdown as lines of a terminal."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.style import Style

from goclaw.clients.tui.markdown import Document
from goclaw.common.core.redact import MASK, Masking, mask_known, remember
from tests.canaries import FORMATTED, formatted

PIECES = [
    "word",
    " ",
    "\n",
    "\n\n",
    "# ",
    "- ",
    "  ",
    "1. ",
    "> ",
    "```",
    "```py\n",
    "**",
    "`",
    "|",
    "|-",
    "---",
    "<b>",
    "[x](y)",
]


def drawn(text: str, width: int = 40) -> list[str]:
    document = Document()
    document.append(text)
    return [line.plain for line in document.lines(width)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.integers(8, 60))
def test_a_text_that_grows_looks_like_one_that_came_whole(pieces: list[str], width: int) -> None:
    growing = Document()
    growing.lines(width)
    for piece in pieces:
        growing.append(piece)
    assert [line.plain for line in growing.lines(width)] == drawn("".join(pieces), width)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_no_word_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    # Words behind a fence name its language.
    if "```" not in text:
        assert "".join(drawn(text)).count("word") >= text.count("word")


@pytest.mark.promise("P-secrets-masked")
@pytest.mark.parametrize("way", FORMATTED)
def test_what_the_daemon_masked_shows_no_secret_when_it_is_drawn(way: str) -> None:
    secret = "sk-LK8957-a413c09d77be2f01"
    remember(secret)
    masking = Masking()
    told = formatted(secret)[way]
    for text in (mask_known(told), "".join(map(masking.next, told)) + masking.rest()):
        (line,) = drawn(text, 200)
        assert "a413c09d77be2f01" not in line and MASK.strip("[]") in line


@pytest.mark.parametrize("width", [12, 20, 80])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    text = "# A long heading here\n\n- item with many words\n  - inner\n\n> quote of words\n\n"
    text += "```\nlong_code_line = 1234567890\n```\n\n| a | b |\n|---|---|\n| some words here | 10 |"
    document = Document()
    document.append(text)
    assert max(line.cell_length for line in document.lines(width)) <= width


def test_lists_hang_and_nest() -> None:
    assert drawn("- one two three\n  1. inner\n- four", 10) == ["• one two", "  three", "  1. inner", "• four"]


def test_a_list_with_room_between_its_items_keeps_it() -> None:
    assert drawn("1. a\n\n2. b") == ["1. a", "", "2. b"]


def test_code_keeps_its_lines_and_its_indent() -> None:
    code = "```python\ndef f():\n\n    return 1\n```"
    assert [line.rstrip() for line in drawn(code)] == ["│ def f():", "│", "│     return 1"]


def test_a_table_has_columns() -> None:
    assert drawn("| name | size |\n|--|--|\n| one | 10 |") == ["name │ size", "─────┼─────", "one  │ 10"]


def test_a_link_shows_where_it_leads() -> None:
    assert drawn("[docs](https://x.org) https://y.org") == ["docs (https://x.org) https://y.org"]


def test_only_an_address_with_a_scheme_can_be_opened() -> None:
    document = Document()
    document.append("[notes](notes/tea.md) README.md")
    spans = [span.style for line in document.lines(60) for span in line.spans]
    assert [style.link for style in spans if isinstance(style, Style)] == [None]


def test_what_begins_like_a_table_stays_with_the_paragraph_before() -> None:
    growing = Document()
    for piece in ("word\n", "|word\n|-", "word"):
        growing.append(piece)
    assert [line.plain for line in growing.lines(40)] == ["word", "|word", "|-word"]
