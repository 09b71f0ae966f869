"""Finding what a model wants to replace: three tiers, each where the one before has nothing; all unique."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.workspace import FileStamp
from goclaw.errors import ToolError
from goclaw.tools.builtin.matching import MatchTier, find, reindent
from goclaw.tools.builtin.replacing import Replacement, replace_text
from goclaw.tools.builtin.text import Text

VERSION = FileStamp((0, 0), 0, 0)
CODE = """class A:
    def go(self):
        first = 1
        second = 'two'
        return first


def other():
    pass
"""


def change(body: str, old: str, new: str, *, every: bool = False, fuzzy: bool = True) -> str:
    text = Text(body, b"", VERSION)
    return replace_text("a.py", text, body, Replacement(old, new, every), fuzzy=fuzzy).body


def tier_of(body: str, old: str) -> MatchTier | None:
    found = find(body, old, fuzzy=True)
    return found.tier if found else None


@pytest.mark.parametrize(
    ("old", "tier"),
    [
        ("        first = 1\n", MatchTier.EXACT),
        ("first = 1  \n        second", MatchTier.TRAILING),
        ("def go(self): ", MatchTier.TRAILING),
        ("first = 1\nsecond = 'two'\nreturn first", MatchTier.FUZZY),
        ("def go(self):\n    first = 1\n    second = \u2018two\u2019\n", MatchTier.FUZZY),
        ("def go(self):\n    first = 1\n    secnd = 'two'\n    return first", MatchTier.FUZZY),
        (
            "def go(self):\n    first = 2\n    second = 'two'\n    return first",
            None,
        ),  # numbers are never nearly the same
        ("def went(self):\n    first = 1\n", None),  # the first line has to be the same
        ("def go(self):\n    import everything\n    from = nothing\n    return first", None),
        ("\tpass", None),  # too short to be sure
        ("   ", MatchTier.EXACT),
        ("\t\t", None),
    ],
)
def test_the_closest_tier_counts(old: str, tier: MatchTier | None) -> None:
    assert tier_of(CODE, old) == tier


def test_a_text_that_ends_in_white_space_does_not_end_in_the_middle_of_a_line() -> None:
    assert tier_of("x = 10\n", "x = 1 ") is None
    assert change("x = 1\nx = 10\n", "x = 1 ", "x = 2") == "x = 2\nx = 10\n"


def test_what_replaces_a_fuzzy_match_is_indented_as_the_file_is() -> None:
    new = "def go(self):\n    if True:\n        first = 3\n    return first\n"

    after = change(CODE, "def go(self):\n    first = 1\n    second = 'two'\n    return first\n", new)

    assert after.startswith(
        "class A:\n    def go(self):\n        if True:\n            first = 3\n        return first\n\n\ndef other"
    )


@pytest.mark.parametrize(
    ("new", "old", "there", "expected"),
    [
        ("if x:\n    y", "if x:\n    z", "\tif x:\n\t\tz", "\tif x:\n\t\ty"),
        ("if x:\n        y", "if x:\n    z", "\tif x:\n\t\tz", "\tif x:\n\t\t\ty"),
        ("\ta\n\t\tb", "\ta\n", "    a\n", "    a\n        b"),
        ("        a\n    b", "        a", "    a", "    a\nb"),
        ("a\n\nb", "a", "  a", "  a\n\n  b"),
    ],
)
def test_indentation_is_carried_over(new: str, old: str, there: str, expected: str) -> None:
    assert reindent(new, old, there) == expected


@pytest.mark.parametrize(
    ("body", "old", "words"),
    [
        ("one two \nx\none two \ny\n", "one two\nx \n", None),
        ("a = long_name  \nb\na = long_name \nb\n", "a = long_name\nb", r"2 matches .* by trailing white space match"),
        ("  alpha = beta\n    alpha = beta\n", "alpha  = beta", r"2 matches .* by fuzzy match"),
    ],
)
def test_a_place_is_the_only_one_at_every_tier(body: str, old: str, words: str | None) -> None:
    if words is None:
        assert change(body, old, "z") != body
        return
    with pytest.raises(ToolError, match=words):
        change(body, old, "z")


def test_a_fuzzy_match_is_never_made_in_many_places() -> None:
    with pytest.raises(ToolError, match="not unique"):
        change("  alpha = beta\n    alpha = beta\n", "alpha  = beta", "z", every=True)


def test_every_place_is_replaced_when_asked_for() -> None:
    assert change("aaaa b a", "aa", "x", every=True) == "xx b a"
    assert change("f(x) \ny\nf(x)\t\ny\n", "f(x)\ny", "g", every=True) == "g\ng\n"


def test_without_fuzz_only_what_is_exact_is_found() -> None:
    with pytest.raises(ToolError, match="old_string not found"):
        change(CODE, "def go(self): ", "x", fuzzy=False)


def test_line_ends_of_the_place_are_kept_in_a_file_that_mixes_them() -> None:
    assert change("a1234567\r\nb1234567\r\nc\n", "a1234567\nb1234567", "x\ny") == "x\r\ny\r\nc\n"


@given(st.text("ab \n\t", max_size=60), st.text("ab \n\t", min_size=1, max_size=12), st.text("xy\n", max_size=6))
def test_nothing_but_the_place_changes(body: str, old: str, new: str) -> None:
    try:
        after = change(body, old, new)
    except ToolError:
        return
    # A line that is given with its end may be the last one of a text that has none there.
    lacks_end = old.endswith("\n") and not body.endswith("\n") and not find(body, old, fuzzy=False)
    whole = f"{body}\n" if lacks_end else body
    found = find(whole, old, fuzzy=True)
    assert found
    (span,) = found.spans
    rest = whole[span.end :].removesuffix("\n") if lacks_end else whole[span.end :]
    assert after.startswith(body[: span.start]) and after.endswith(rest)
    assert "".join(whole[span.start : span.end].split()) == "".join(old.split())


def test_a_large_file_that_repeats_itself_takes_no_time() -> None:
    body = "    same line here\n" * 100_000

    with pytest.raises(ToolError, match=r"more than 10 matches|not found"):
        change(body, "same line here\nsame line there\nsame line here", "x")
    with pytest.raises(ToolError, match="more than 10 matches"):
        change(body, "same line  here", "x")


def test_replacing_everywhere_is_bounded() -> None:
    with pytest.raises(ToolError, match=r"stands in more than 100,000 places of a\.py: use exec with sed"):
        change("a" * 200_000, "a", "b", every=True)
    with pytest.raises(ToolError, match=r"a\.py would have 50,000,000 characters, at most 20,971,520 can be edited"):
        change("a" * 50_000, "a", "b" * 1_000, every=True)
    assert change("a\r\n" * 90_000, "a", "b\nc", every=True) == "b\r\nc\r\n" * 90_000


def test_one_line_of_a_windows_file_becomes_two_of_them() -> None:
    assert change("x\r\n  alpha = beta\r\n", "alpha =  beta", "one\ntwo") == "x\r\n  one\r\n  two\r\n"
