"""HTML of Markdown: nothing in it acts, no word of it is lost, and hostile texts take no time."""

import re
import time

import pytest
from hypothesis import example, given, settings

from goclaw.common.core.markdown import MAX_NESTING
from goclaw.gateway.servers.web.rendering import MAX_OPEN, MAX_TEXT, GrowingHtml, render
from tests.common.core.test_markdown import cut, cuts, texts
from tests.gateway.servers.web.hostile_texts import hostile_texts
from tests.gateway.servers.web.reading_html import read_html
from tests.lanes import repeats

pytestmark = pytest.mark.promise("P-web-html")

SLOWEST = 1.0
"""Seconds of processor time for 10 kB, whatever it is."""


def grown(pieces: list[str]) -> str:
    growing, done, open_end = GrowingHtml(), "", ""
    for piece in pieces:
        finished, open_end = growing.append(piece)
        done += finished
    return done + open_end


def test_no_hostile_text_becomes_anything_that_acts() -> None:
    corpus = list(hostile_texts())
    assert len(corpus) > 1_000
    faults = {text: seen.faults for text in corpus if (seen := read_html(render(text))).faults}
    assert not faults


@pytest.mark.deep
def test_hostile_texts_that_come_in_pieces_do_not_act_either() -> None:
    for text in list(hostile_texts())[:: repeats(9, 1)]:
        seen = read_html(grown([text[at : at + 3] for at in range(0, len(text), 3)]))
        assert not seen.faults, text


def test_what_looks_like_html_is_shown_as_it_was_written() -> None:
    assert read_html(render("a <b>bold</b> <script>x</script>")).text.strip() == "a <b>bold</b> <script>x</script>"


@pytest.mark.deep
@settings(max_examples=repeats(200, 5_000), deadline=None)
@given(texts, cuts)
@example("a\n\n> b", [1])
def test_a_text_that_grows_is_in_the_end_what_came_whole(text: str, places: list[int]) -> None:
    assert grown(cut(text, places)) == render(text)


@pytest.mark.deep
@settings(max_examples=repeats(200, 5_000), deadline=None)
@given(texts, cuts)
def test_no_word_is_lost_at_any_moment(text: str, places: list[int]) -> None:
    growing, done, said = GrowingHtml(), "", ""
    for piece in cut(text, places):
        said += piece
        finished, open_end = growing.append(piece)
        done += finished
        # Words behind a fence name its language, and `[x]: y` is text here.
        if "```" not in said and "~~~" not in said:
            assert read_html(done + open_end).text.count("word") == said.count("word")


def test_links_open_elsewhere_and_pictures_are_not_loaded() -> None:
    seen = read_html(render("[a](https://a.example) ![pic](https://b.example/p.png) c@d.com"))
    assert [given["href"] for tag, given in seen.tags if tag == "a"] == [
        "https://a.example",
        "https://b.example/p.png",
        "mailto:c@d.com",
    ]
    assert "img" not in [tag for tag, _ in seen.tags] and not seen.faults


def test_names_of_files_are_no_links() -> None:
    assert "<a" not in render("README.md, run.sh and main.rs")


def test_an_address_that_is_not_followed_is_shown() -> None:
    assert read_html(render("[notes](notes/tea.md)")).text.strip() == "notes (notes/tea.md)"
    assert read_html(render("![plan](plan.png)")).text.strip() == "plan (plan.png)"
    assert "…" in read_html(render(f"![x](data:image/png;base64,{'A' * 5_000})")).text


def test_a_link_that_is_called_like_another_address_shows_its_own() -> None:
    assert "(https://evil.example)" in read_html(render("[https://bank.example](https://evil.example)")).text
    assert "(https://evil.example)" in read_html(render("[bank.example](https://evil.example)")).text
    assert "(" not in read_html(render("https://bank.example/a and [the bank](https://bank.example)")).text


def test_tables_keep_their_direction_without_a_style() -> None:
    html = render("| a | b |\n|--:|:-:|\n| 1 | 2 |")
    assert '<th class="right">a</th>' in html and '<td class="center">2</td>' in html and "style" not in html


def test_code_has_the_classes_of_its_language() -> None:
    html = render('```python\ndef f(): return "a"\n```')
    assert '<pre data-language="python">' in html and '<span class="hl-k">def</span>' in html
    assert read_html(html).text.rstrip() == 'def f(): return "a"'


def test_lines_of_code_are_all_there() -> None:
    code = "\n\n  indented\n\ttab\n\n"
    assert read_html(render(f"```python\n{code}```")).text.rstrip("\n") == code.rstrip("\n")


def test_what_is_nested_too_deep_is_shown_as_it_was_written() -> None:
    deep = ">" * (MAX_NESTING + 5) + " the end"
    assert read_html(render(deep)).text.strip() == deep
    shallow = ">" * (MAX_NESTING // 2) + " the end"
    assert "<blockquote>" in render(shallow) and "the end" in render(shallow)


def test_halves_of_characters_are_no_error() -> None:
    assert render("a \ud800 b") == "<p>a ? b</p>\n"


HOSTILE = {
    "brackets": "[" * 10_000,
    "pictures": "![" * 5_000,
    "closed brackets": "[" * 5_000 + "]" * 5_000,
    "open pictures": "![" * 49_000,
    "open brackets": "[" * 99_000,
    "schemes": "://" * 33_000,
    "addresses with parentheses": "http://a.b/(" * 8_000,
    "addresses in angles": "<http://" * 12_000,
    "nested pictures": "![" * 1_500 + "](a)" * 1_500,
    "links": "[a](" * 2_500,
    "titles": "[a](b '" * 1_500,
    "in angles": "[a](<" * 2_000,
    "stars": "*" * 10_000,
    "openers": "*a " * 3_300,
    "both": "*a_ " * 2_500,
    "strong in em": "**a *b " * 1_400,
    "inside words": "a**b" * 2_500,
    "three": "***a " * 2_000 + "***" * 100,
    "strike": "~~a" * 3_300,
    "ticks": "`" * 10_000,
    "ever more ticks": "".join("`" * count + " " for count in range(1, 140)),
    "angles": "<" * 10_000,
    "entities": "&#0;" * 2_500,
    "quotes": ">" * 10_000,
    "quotes in lines": (">" * 100 + "a\n") * 99,
    "bullets": "- " * 5_000,
    "numbers": "1. " * 3_300,
    "deep list": "".join("  " * level + "- a\n" for level in range(98)),
    "table": ("|a" * 100 + "|\n" + "|-" * 100 + "|\n") + ("|b" * 100 + "|\n") * 100,
    "wide table": "|a" * 2_500 + "\n" + "|-" * 2_500 + "\n",
    "addresses": "http://" * 1_400,
    "www": "www.a.com " * 1_000,
    "at": "a@" * 5_000,
    "dots": "a.com/" * 1_600,
    "parentheses": "http://a.b/" + "(" * 10_000,
    "setext": "a\n" * 5_000 + "=",
    "backslashes": "\\" * 10_000,
    "rules": "* " * 5_000 + "x",
    "spaces": " " * 10_000 + "a",
    "tabs": "\t" * 10_000 + "a",
    "fences": "```\n" * 2_500,
    "nothing": "\0" * 10_000,
    "one line of 1 MB": "word " * 200_000,
    "one word of 1 MB": "a" * 1_000_000,
    "many paragraphs": "a\n\n" * 300_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_takes_no_time_and_loses_no_character(name: str) -> None:
    text = HOSTILE[name]
    began = time.thread_time()
    html = render(text)
    assert time.thread_time() - began < SLOWEST
    seen = read_html(html)
    assert not seen.faults
    if 'class="plain"' in html:
        assert seen.text.rstrip("\n") == text.rstrip("\n")


def test_a_text_is_rendered_up_to_its_bound_and_shown_beyond_it() -> None:
    longest = "*a* and " * (MAX_TEXT // 8)
    assert render(longest).startswith("<p><em>a</em>")
    assert render(f"{longest}!").startswith('<pre class="plain">*a*')


@pytest.mark.long
def test_an_open_end_that_is_too_long_is_finished_as_it_is() -> None:
    growing, done, open_end = GrowingHtml(), "", ""
    piece = "word " * 100
    for _ in range(MAX_OPEN // len(piece) * 3):
        finished, open_end = growing.append(piece)
        done += finished
        assert growing.open_size <= MAX_OPEN
    pieces = MAX_OPEN // len(piece) * 3
    assert len(re.findall("word", read_html(done + open_end).text)) == pieces * 100
