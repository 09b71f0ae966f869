"""Texts on their way to the terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.clients.tui.text import artifact_lines, count, error_words, hint, one_line, printable, seconds
from goclaw.common.auth.users import login_name
from goclaw.common.core.markdown import markdown_parser
from goclaw.common.core.messages import NAMED, SAID, Artifact


@given(st.text())
def test_nothing_printable_can_steer_a_terminal(text: str) -> None:
    assert not any(
        (ord(letter) < 32 and letter not in "\n\t") or 127 <= ord(letter) < 160 for letter in printable(text)
    )
    printable(text).encode()


def test_a_programs_colours_go_and_its_words_stay() -> None:
    assert printable("\x1b[1;31mred\x1b[0m \x1b]52;c;aGk=\x07text\r\n\ttab") == "red text\n\ttab"


def test_a_text_cannot_read_backwards() -> None:
    assert printable("a\u202eb\u2066c") == "abc"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (r'{"error": "no\n“such” file"}', "no\n“such” file"),
        ('{"error": ""}', '{"error": ""}'),
        ('{"error": 3}', '{"error": 3}'),
        ('{"error": "no", "more": 1}', '{"error": "no", "more": 1}'),
        ("[1]", "[1]"),
        ("exit code: 1", "exit code: 1"),
        ('{"error": "no"}\n\nand what a hook added', '{"error": "no"}\n\nand what a hook added'),
    ],
)
def test_an_error_is_read_without_the_json_that_models_get(content: str, said: str) -> None:
    assert error_words(content) == said


def test_a_hint_is_the_value_or_the_pairs_on_one_line() -> None:
    assert hint({"path": "a\nb"}, 20) == "a b"
    assert hint({"path": "a", "limit": 3}, 30) == "path=a limit=3"


def test_a_hint_of_nested_values_is_their_words() -> None:
    assert hint({"questions": [{"question": "Which?", "options": ["a"]}, {"question": "Why?"}]}, 40) == "Which?, Why?"
    assert hint({"names": ["a", "b"], "odd": {"depth": 1}}, 40) == "names=a, b odd=…"
    assert one_line("word " * 20, 10) == "word word…"


@pytest.mark.parametrize(("given", "said"), [(0.24, "0.2 s"), (14.4, "14 s"), (185, "3 min 05 s")])
def test_times_read_as_people_say_them(given: float, said: str) -> None:
    assert seconds(given) == said


@pytest.mark.parametrize(("given", "said"), [(950, "950"), (12_345, "12.3k"), (200_000, "200k"), (1_000_000, "1M")])
def test_token_counts_are_short(given: int, said: str) -> None:
    assert count(given) == said


def test_raw_html_and_definitions_are_text() -> None:
    tokens = markdown_parser().parse("<b>x</b>\n\n<div>y</div>\n\n[1]: http://x")
    assert [token.content for token in tokens if token.type == "inline"] == [
        "<b>x</b>",
        "<div>y</div>",
        "[1]: http://x",
    ]


def test_what_is_handed_over_is_its_text_or_its_path_with_the_way_to_open_it() -> None:
    file = Artifact(NAMED, "b", "text/csv", "out/my sales.csv", 12_300)
    assert artifact_lines(file) == ["▸ out/my sales.csv · 12.3 kB", "  goclaw open 'out/my sales.csv'"]
    assert artifact_lines(file, f"tui:{login_name()}")[1] == "  goclaw open 'out/my sales.csv'"
    assert artifact_lines(file, "tui:a b")[1] == "  goclaw open --user 'tui:a b' 'out/my sales.csv'"
    assert artifact_lines(Artifact(SAID, "b", "text/markdown", "message.md", 9, "one\ntwo")) == ["one", "two"]
    assert artifact_lines(Artifact("table", "b", "application/json", "table.json", 9)) == ["▸ table.json · 9 B"]
