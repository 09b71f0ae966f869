"""Colours of code: of well-known languages, never at the price of a word or of time."""

import re
import time
from collections.abc import Iterator, Sequence
from html import escape

import pytest
from pygments.lexers import get_lexer_by_name

from goclaw.gateway.servers.web.highlighting import LANGUAGES, MAX_CODE, MAX_LINE, MAX_LINES, OWN, highlight
from tests.gateway.servers.web.reading_html import read_html
from tests.tables import table

SLOWEST = 1.0
"""Seconds of processor time for one block of `MAX_CODE` characters."""
UNITS = (
    *(
        '"',
        "'",
        "`",
        "(",
        "[",
        "{",
        "<",
        "/",
        "\\",
        "*",
        "#",
        "$",
        "${",
        "$(",
        "<<",
        "/*",
        "//",
        "<!--",
        "<a ",
        "<?php ",
    ),
    *(
        "r'''",
        '"""',
        'f"{',
        "%{",
        "=begin\n",
        "<<EOF\n",
        "a.",
        "a:",
        "a=",
        "@a ",
        "-",
        "--",
        "1e",
        "0x",
        "&a;",
        "\t",
        " ",
    ),
    *(
        "a b ",
        "class a ",
        "def a(",
        "function(",
        "::",
        "=>",
        "'\\",
        '"\\',
        "/a",
        "a<b,",
        "[[",
        "{{",
        "\n",
        "a\n ",
        "?:",
    ),
)


ALL = [*LANGUAGES.split(), *OWN.split()]
ONE_EACH = [*{get_lexer_by_name(name).name: name for name in LANGUAGES.split()}.values(), OWN.split()[0]]
"""A name of each lexer: many languages have several, and those of `OWN` have one lexer."""


def hostile_code(unit: str) -> Iterator[str]:
    """Code of the longest kind that gets colours, made of one unit."""
    line = (unit * MAX_LINE)[:MAX_LINE].replace("\n", " ")
    short = (unit * 12)[:25].replace("\n", " ")
    for code in (f"{line}\n" * MAX_LINES, unit * MAX_CODE, f"{unit}\n" * MAX_LINES, f"{short}\n" * MAX_LINES):
        lines = code.split("\n")[:MAX_LINES]
        yield "\n".join(each[:MAX_LINE] for each in lines)[:MAX_CODE]


def slow_cases(languages: list[str], units: Sequence[str]) -> Iterator[str]:
    """Yield what takes too long, or loses a character."""
    for language in languages:
        for unit in units:
            for code in hostile_code(unit):
                began = time.thread_time()
                html = highlight(code, language)
                if time.thread_time() - began > SLOWEST:
                    yield f"{language} takes too long for {unit!r}"
                if re.sub("<[^>]*>", "", html) != escape(code, quote=False):
                    yield f"{language} changes {unit!r}"


@pytest.mark.long
def test_languages_whose_lexers_hang_elsewhere_do_not_here() -> None:
    assert not list(slow_cases(OWN.split(), UNITS[::3]))
    assert not list(slow_cases(["python", "javascript", "c++"], UNITS[::12]))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", ONE_EACH)
def test_no_code_takes_long_in_any_language(language: str) -> None:
    assert not list(slow_cases([language], UNITS))


@table("language", ALL)
def test_markup_in_code_stays_text(language: str) -> None:
    code = "<script>alert(1)</script> & \"'` </code></pre><img src=x onerror=alert(1)>\n"
    seen = read_html(f"<pre><code>{highlight(code, language)}</code></pre>")
    assert seen.text == code and not seen.faults


def test_unknown_languages_and_long_code_have_no_colours() -> None:
    assert highlight("a < b", "brainfuck") == "a &lt; b" and highlight("a", "") == "a"
    assert "<span" not in highlight("def f(): pass\n" * 1_000, "python")
    assert "<span" not in highlight(f'x = "{"a" * 2_000}"', "python")
