"""The expressions of `search`: ripgrep finds what they mean, which Python's `re` says as well."""

import asyncio
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.errors import InvalidInput
from goclaw.tools.builtin.ripgrep import checked_expression, find_ripgrep
from tests.lanes import repeats
from tests.tables import table


def checked(pattern: str) -> str:
    return asyncio.run(checked_expression(pattern))


def by_python(pattern: str, lines: list[str], *, ignores_case: bool) -> list[int]:
    found = re.compile(pattern, re.IGNORECASE if ignores_case else 0)
    return [number for number, line in enumerate(lines, 1) if found.search(line)]


def by_ripgrep(written: str, lines: list[str], *, ignores_case: bool = False, end: str = "\n") -> list[int]:
    program = find_ripgrep()
    assert program
    case = "--ignore-case" if ignores_case else "--case-sensitive"
    options = ["--no-config", "--crlf", "--line-number", case, "--max-columns=1", "--null", f"--regexp={written}", "-"]
    text = "".join(f"{line}{end}" for line in lines).encode()
    done = subprocess.run([program, *options], input=text, capture_output=True, timeout=10, check=False)
    assert done.returncode in (0, 1), (written, done.stderr.decode())
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
@pytest.mark.filterwarnings("ignore:Possible set:FutureWarning")
@settings(max_examples=repeats(40, 400), deadline=None)
@given(PIECES, st.lists(st.text(LETTERS, max_size=8), min_size=1, max_size=12), st.booleans(), st.booleans())
def test_ripgrep_finds_the_lines_that_python_finds(pattern: str, lines: list[str], folded: bool, crlf: bool) -> None:
    found = by_ripgrep(checked(pattern), lines, ignores_case=folded, end="\r\n" if crlf else "\n")
    assert found == by_python(pattern, lines, ignores_case=folded)


@pytest.mark.deep
@settings(max_examples=repeats(30, 300), deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), min_size=1, max_size=12))
def test_a_literal_finds_itself(text: str) -> None:
    lines = [text, f"before {text} after", "something else \u2603"]
    assert by_ripgrep(re.escape(text), lines)[:2] == [1, 2]


@given(st.text("ab()[]{}|*+?^$.\\-,:=!<>1dwsbBnrtxuApPZ", min_size=1, max_size=30))
@settings(max_examples=repeats(40, 400), deadline=None)
def test_whatever_comes_is_an_expression_or_a_clear_error(pattern: str) -> None:
    try:
        by_ripgrep(checked(pattern), [""])
    except InvalidInput as error:
        said = str(error)
    else:
        said = 'field "pattern": fine; to search for a sign as it is, put \\ before it'
    assert re.fullmatch(r'field "pattern": \w.*; to search for a sign as it is, put \\ before it', said)


@table(
    "pattern, words",
    [
        ("a(?=b)", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        (r"a\Z", "unrecognized escape sequence"),
        (r"a\n", r'the literal "\n" is not allowed in a regex'),
        ("[b-a]", "invalid character class range"),
        ("[a", "unclosed character class"),
        ("a)", "unopened group"),
        ("*a", "repetition operator missing expression"),
        ("a{2,1}", "invalid repetition count range"),
        (r"((\w{100}){100}){100}", "exceeds size limit"),
        ("(" * 240 + ")" * 251, "unopened group"),
        ("a\\", "unclosed group"),
        ("a\nb", "expected one line of text"),
    ],
)
def test_an_expression_that_ripgrep_refuses_is_an_error_with_its_reason(pattern: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked(pattern)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@table(
    "pattern, line, not_this",
    [
        (r"Vec\<String\>", "Vec<String>", "VecString"),
        (r"func\(\) {", "func() {", "func()"),
        ("[[]", "a[0]", "a"),
        ("x[a&&b]", "x&", "x"),
        (r"[^\W]", "a", "-"),
        (r"^\w+$", "हिन्दी", "a b"),
        ("^[[:alpha:]]$", "a", ":"),
        (r"^\p{Lu}\x{42}$", "AB", "aB"),
        ("(?i:WORD)", "word", "ward"),
    ],
)
def test_an_expression_means_to_ripgrep_what_it_means_elsewhere(pattern: str, line: str, not_this: str) -> None:
    assert by_ripgrep(checked(pattern), [line, not_this]) == [1]


def test_the_largest_expression_is_not_too_large_for_ripgrep() -> None:
    assert by_ripgrep(checked(r"(?:\w{100}){5}"), ["a" * 500, "b"], ignores_case=True) == [1]
