"""The expressions of `search`: one syntax, and both engines mean the same by it."""

import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.errors import InvalidInput
from goclaw.tools.engines import ripgrep
from goclaw.tools.expression import expression, literal
from tests.lanes import repeats


def by_python(python: str, lines: list[str], *, ignores_case: bool) -> list[int]:
    found = re.compile(python, re.IGNORECASE if ignores_case else 0)
    return [number for number, line in enumerate(lines, 1) if found.search(line)]


def by_ripgrep(pattern: str, lines: list[str], *, ignores_case: bool) -> list[int]:
    program = ripgrep()
    assert program
    case = "--ignore-case" if ignores_case else "--case-sensitive"
    options = ["--no-config", "--crlf", "--line-number", case, "--max-columns=1", "--null", f"--regexp={pattern}", "-"]
    text = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run([program, *options], input=text, capture_output=True, timeout=10, check=False)
    assert done.returncode in (0, 1), (pattern, done.stderr.decode())
    return [int(line.partition(b":")[0]) for line in done.stdout.splitlines()]


LETTERS = "abAB1 _-.ä߀\t(]^$"
ATOMS = st.one_of(
    st.sampled_from(
        ["a", "b", "B", "1", " ", "ä", "€", ".", "\\.", "\\d", "\\w", "\\s", "\\W", "\\D", "\\S", "\\(", "{", "}"]
    ),
    st.sampled_from(
        ["[ab]", "[^a]", "[a-b1]", "[\\w-]", "[^\\s]", "[]a]", "[\\S1]", "[\\D\\W]", "[.^$]", "[ä-ü]", "[a&&b]"]
    ),
)
PIECES = st.recursive(
    st.one_of(ATOMS, st.sampled_from(["^", "$", "\\b"])),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(ATOMS, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}", "{0,}"])).map("".join),
        st.tuples(inner, inner).map("|".join).map(lambda both: f"({both})"),
        st.tuples(inner, st.sampled_from(["*", "+", "??"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@pytest.mark.deep
@pytest.mark.skipif(ripgrep() is None, reason="there is no ripgrep for this machine")
@settings(max_examples=repeats(40, 400), deadline=None)
@given(PIECES, st.lists(st.text(LETTERS, max_size=8), min_size=1, max_size=12), st.booleans())
def test_both_engines_find_the_same_lines(pattern: str, lines: list[str], ignores_case: bool) -> None:
    found = expression(pattern)
    assert by_python(found.python, lines, ignores_case=ignores_case) == by_ripgrep(
        found.ripgrep, lines, ignores_case=ignores_case
    )


@pytest.mark.deep
@pytest.mark.skipif(ripgrep() is None, reason="there is no ripgrep for this machine")
@settings(max_examples=repeats(30, 300), deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), min_size=1, max_size=12))
def test_a_literal_finds_itself(text: str) -> None:
    found = literal(text)
    lines = [text, f"before {text} after", "something else \u2603"]
    assert by_python(found.python, lines, ignores_case=False)[:2] == [1, 2]
    assert by_ripgrep(found.ripgrep, lines, ignores_case=False)[:2] == [1, 2]


@given(st.text("ab()[]{}|*+?^$.\\-,:=!<>1dwsbBnrtxuApPZ", max_size=30))
def test_whatever_comes_is_an_expression_or_a_clear_error(pattern: str) -> None:
    try:
        found = expression(pattern)
    except InvalidInput as error:
        said = str(error)
    else:
        said = 'field "pattern"'
        re.compile(found.python)
    assert said.startswith('field "pattern"') and "\n" not in said


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a(?=b)", "no look-around, no names, no flags"),
        ("(?P<n>a)", "no look-around, no names, no flags"),
        ("(?i)a", "no look-around, no names, no flags"),
        (r"(a)\1", r"\1 is not known here"),
        (r"\pL", r"\p is not known here"),
        (r"a\Z", r"\Z is not known here"),
        ("[[:alpha:]]", "[:…:] is not known here"),
        ("[b-a]", "the range b-a goes backwards"),
        ("[a", "a ] is missing"),
        ("a)", "there is no ( for this )"),
        ("*a", "there is nothing to repeat before *"),
        ("a**", "one sign of repetition after another"),
        ("a++", "one sign of repetition after another"),
        ("^*", "cannot be repeated"),
        ("a{2,1}", "expected {n,m}"),
        ("a{1000}", "expected {n,m}"),
        ("((a{100}){100}){100}", "it repeats too much"),
        ("(" * 60 + ")" * 60, "too many groups in groups"),
        ("a\\", "there is nothing behind the \\"),
        (r"[^\W]", "cannot stand in [^…]"),
    ],
)
def test_what_is_not_supported_is_said(pattern: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        expression(pattern)
    assert words in str(caught.value)


@pytest.mark.skipif(ripgrep() is None, reason="there is no ripgrep for this machine")
def test_the_largest_expression_is_not_too_large_for_ripgrep() -> None:
    found = expression(r"(?:\w{100}){5}")
    assert by_ripgrep(found.ripgrep, ["a" * 500, "b"], ignores_case=True) == [1]
