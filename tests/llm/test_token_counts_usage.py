"""What servers count, and what they only say they count."""

import pytest

from goclaw.llm.base import MAX_TOKENS
from goclaw.llm.token_counts import fields, reported_tokens


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *[(12, 12), (12.0, 12), (0, 0), (-5, 0), (10**30, MAX_TOKENS), (float("inf"), MAX_TOKENS)],
        *[(float("nan"), 0), ("many", 0), ("12", 0), (None, 0), (True, 0), ([], 0), ({}, 0)],
    ],
)
def test_what_is_no_number_of_tokens_counts_as_nothing(given: object, meant: int) -> None:
    assert reported_tokens(given) == meant


@pytest.mark.parametrize("given", [None, [], "x", 3])
def test_what_is_no_object_has_no_fields(given: object) -> None:
    assert fields(given) == {}
    assert fields({"input": 3}) == {"input": 3}
