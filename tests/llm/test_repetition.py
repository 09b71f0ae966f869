"""An answer that repeats itself is ended, and one that only looks like it is not."""

import pytest

from goclaw.llm.base import TextDelta
from goclaw.llm.repetition import Repetition, counts_up, repeats, shorten


@pytest.mark.parametrize(
    "piece", ["na ", "The same sentence again. ", "x" * 37 + "\n", "A paragraph. " * 40 + "End.\n"]
)
def test_what_stands_there_again_and_again_is_noticed(piece: str) -> None:
    text = "Well. " + piece * (2_000 // len(piece) + 4)

    assert repeats(text)
    assert len(shorten(text)) < len(text) / 2


@pytest.mark.parametrize(
    "text", ["=" * 300, "a b c " * 100, "\n".join(f"line {n * n} of it" for n in range(300)), "x" * 1_100]
)
def test_an_ordinary_text_is_not_taken_for_one(text: str) -> None:
    assert not repeats(text)
    assert shorten(text) == text


def test_rows_that_count_up_are_noticed_at_two_hundred() -> None:
    rows = [f"Row {number}: value\n" for number in range(250)]

    assert not counts_up("".join(rows[:200])[: -len(rows[199])])
    assert counts_up("".join(rows[:201]))
    assert not counts_up("".join(f"Row {number * number}\n" for number in range(250)))


def test_the_watch_ends_an_answer_in_pieces() -> None:
    watch = Repetition()

    assert any(watch.add(TextDelta("I go on and on. ")) for _ in range(200))
    assert watch.finish("x:y").message.text.count("I go on and on.") < 50
