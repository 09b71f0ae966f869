"""Texts of Markdown that grow are parsed as if they had come whole."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goclaw.common.core.markdown import MAX_NESTING, GrowingMarkdown, markdown_parser
from tests.lanes import repeats

pytestmark = pytest.mark.promise("P-web-html")

PIECES = (
    *("word", "two words", " ", "\t", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\u2028", "\x85", "\0"),
    *("# ", "- ", "* ", "  ", "    ", "1. ", "2) ", "> ", "```", "~~~", "```py\n", "**", "_", "~~", "`", "|", "|-"),
    *("\n|a|b|\n|-|-|\n", "---", "===", "<b>", "[x](y)", "![p](q)", "https://a.example", "&amp;", "\\", "[x]: y\n"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
cuts = st.lists(st.integers(0, 200), max_size=20)


def cut(text: str, places: list[int]) -> list[str]:
    """A text in pieces that are cut anywhere, also between the two characters of a line's end."""
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@pytest.mark.deep
@settings(max_examples=repeats(300, 5_000), deadline=None)
@given(texts, cuts)
@example("a\u2028b\x0bc\x0cd\n\ne\n\nf\n\ng\nh\n\ni", [17])
def test_finished_blocks_and_the_open_end_are_those_of_the_whole_text(text: str, places: list[int]) -> None:
    growing, parser = GrowingMarkdown(), markdown_parser()
    done, rest = "", parser.render("")
    for piece in cut(text, places):
        finished, open_end = growing.append(piece)
        done += parser.renderer.render(finished, parser.options, {})
        rest = parser.renderer.render(open_end, parser.options, {})
    assert done + rest == parser.render(text)


def test_a_long_text_is_not_parsed_from_its_beginning_again() -> None:
    growing = GrowingMarkdown()
    for at in range(200):
        growing.append(f"Paragraph {at}.\n\n")
        assert len(growing.rest) < 100


def test_lists_are_nested_as_deep_as_people_write_them() -> None:
    deep = "".join(f"{'  ' * level}- level {level}\n" for level in range(MAX_NESTING // 2 - 1))
    assert "level 18" in markdown_parser().render(deep)


def test_cells_beyond_the_header_are_in_the_last_one_of_their_row() -> None:
    text = "> |a|b|\n> |-|-|\n> |1|2|3|four|\n> |5\n> |6|7||\n"
    cells = [token.content for token in markdown_parser().parse(text) if token.type == "inline"]
    assert cells == ["a", "b", "1", "2 | 3 | four", "5", "", "6", "7"]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("README.md, run.sh and main.rs", []),
        ("see example.com and //host.org/x", []),
        ("www.example.com/x, (WWW.b.org)", ["http://www.example.com/x", "http://WWW.b.org"]),
        (
            "https://e.org/y <https://z.org> http://localhost:1/a",
            ["https://e.org/y", "https://z.org", "http://localhost:1/a"],
        ),
        ("x.www.com", []),
        ("write to c@d.com", ["mailto:c@d.com"]),
        ("`www.code.org`", []),
    ],
)
def test_only_what_has_a_scheme_or_www_is_a_link(text: str, links: list[str]) -> None:
    found = [
        child.attrs["href"]
        for token in markdown_parser().parse(text)
        for child in token.children or ()
        if child.type == "link_open"
    ]
    assert found == links
