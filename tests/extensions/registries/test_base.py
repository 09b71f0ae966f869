"""What an entry is, its digest, and which version is the newest version."""

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.extensions.registries.base import (
    MAX_DOCUMENT,
    Entry,
    canonical,
    digest,
    entry_of,
    pack,
    unpack,
    version_order,
)
from tests.lanes import repeats

GOOD: dict[str, Any] = {"kind": "toolset", "name": "data-tools", "version": "1.0.0"}
TOOL = {"name": "count", "input_schema": {"type": "object"}}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Half characters are no UTF-8.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=8,
)


@pytest.mark.deep
@settings(max_examples=repeats(30, 300))
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON, max_size=5))
def test_the_digest_is_of_the_content_not_of_how_it_came(document: dict[str, Any]) -> None:
    """Whoever reads a document over the wire, and keeps it, finds the same digest as whoever published it."""
    again = orjson.loads(canonical(document))
    backwards = dict(reversed(document.items()))
    assert digest(again) == digest(document) == digest(backwards)


def test_unknown_fields_are_covered_by_the_digest_and_mean_nothing() -> None:
    assert digest({**GOOD, "later": 1}) != digest(GOOD)
    assert entry_of({**GOOD, "later": 1}) == entry_of(GOOD)


def test_an_entry_that_was_made_here_is_read_as_it_was_made() -> None:
    entry = Entry.model_validate({**GOOD, "tools": [TOOL], "remotes": [{"url": "https://example.org/mcp"}]})
    assert entry_of(entry.document()) == entry
    kept = pack(entry.document())
    assert unpack(kept.canonical, kept.sha256) == entry
    with pytest.raises(ValueError, match="not what it was"):
        unpack(kept.canonical, digest(GOOD))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": "virus"}, "kind: Input should be 'toolset'"),
        ({"name": ""}, "name: should be a name such as"),
        ({"name": "a/../b"}, "name: should be"),
        ({"name": "/etc/passwd"}, "name: should be"),
        ({"name": "a//b"}, "name: should be"),
        ({"name": "a/"}, "name: should be"),
        ({"name": "ünïcode"}, "name: should be"),
        ({"name": "a\n"}, "name: should be"),
        ({"name": "n" * 201}, "name: should be"),
        ({"version": "latest"}, "version: should be a version"),
        ({"version": "1/2"}, "version: should be"),
        ({"version": 1.0}, "version: Input should be a valid string"),
        ({"tools": [TOOL, TOOL]}, "tools: two tools should not have the same name"),
        ({"tools": [{"name": "x"}]}, r"tools\.0\.input_schema: Field required"),
        ({"description": "x" * 10_001}, "description: "),
        ({"later": object()}, "should be JSON"),
        ({"later": "x" * MAX_DOCUMENT}, "more than 512 kB"),
        ({"later": [[]] * 50_000}, "more than 50,000 values"),
        ({"later": "\ud800"}, "should be JSON"),
    ],
)
def test_what_is_none_is_refused_in_words_without_what_it_says(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^(an entry )?{words}|{words}") as raised:
        entry_of({**GOOD, **wrong})
    assert "virus" not in str(raised.value) and "passwd" not in str(raised.value) and len(str(raised.value)) < 300


def test_a_document_that_is_nested_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="JSON"):
        entry_of({**GOOD, "later": deep})
    while deep:  # freeing it at once would need as deep a stack
        deep = deep["a"]


def test_the_order_of_the_semantic_versioning_specification() -> None:
    """The examples of https://semver.org, part 11."""
    order = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"]
    order += ["1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1", "v10.0.0", f"{10**30}.0.0"]
    keys = [version_order(version, 0.0) for version in order]
    assert all(before < after for before, after in pairwise(keys))


def test_other_versions_come_before_semantic_ones_in_the_order_of_their_time() -> None:
    others = ["2026", "01.2.3", "1.0.0-01", "1.0.0-", "1.0.0+", "1.2", "\u0661.0.0"]
    keys = [version_order(version, float(time)) for time, version in enumerate(others)]
    assert all(before < after for before, after in pairwise([*keys, version_order("0.0.1", 0.0)]))


IDENTIFIER = st.integers(0, 30).map(str) | st.text("ab-Z0", min_size=1, max_size=3).filter(
    lambda part: not part.isdigit()
)
VERSION = st.tuples(
    st.tuples(*[st.integers(0, 3)] * 3), st.lists(IDENTIFIER, max_size=3), st.sampled_from(["", "+1", "+b.2"])
)
Parts = tuple[tuple[int, int, int], list[str], str]


def _written(parts: Parts) -> str:
    core, before, build = parts
    return ".".join(map(str, core)) + (f"-{'.'.join(before)}" if before else "") + build


def _precedence(one: Parts, other: Parts) -> int:
    """Part 11 of the specification, word by word: -1, 0 or 1."""
    if one[0] != other[0]:
        return -1 if one[0] < other[0] else 1
    if not one[1] or not other[1]:
        return bool(other[1]) - bool(one[1])
    for left, right in zip(one[1], other[1], strict=False):
        if left == right:
            continue
        if left.isdigit() and right.isdigit():
            return -1 if int(left) < int(right) else 1
        if left.isdigit() != right.isdigit():
            return -1 if left.isdigit() else 1
        return -1 if left < right else 1
    return (len(one[1]) > len(other[1])) - (len(one[1]) < len(other[1]))


@pytest.mark.deep
@settings(max_examples=repeats(50, 500))
@given(VERSION, VERSION)
def test_versions_are_ordered_as_the_specification_says(one: Parts, other: Parts) -> None:
    left, right = version_order(_written(one), 1.0), version_order(_written(other), 1.0)
    expected = _precedence(one, other)
    if expected:
        assert (left < right) == (expected < 0) and (left > right) == (expected > 0)
    assert version_order(_written(one), 1.0)[:-2] == left[:-2]
    if not expected:
        assert left[:-2] == right[:-2], "the build counts for nothing"
