"""What arrives in one read is passed on in one piece: its way to the screen is taken once."""

from collections.abc import Iterator

import pytest

from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import CallStarted, ModelEvent, TextDelta, ThinkingDelta
from goclaw.llm.http_streams import join_texts


def test_neighbouring_pieces_of_one_kind_are_one_event() -> None:
    events: list[ModelEvent] = [
        ThinkingDelta("hm"),
        ThinkingDelta("m"),
        TextDelta("Hel"),
        TextDelta("lo"),
        ThinkingDelta("!"),
    ]
    assert list(join_texts(events)) == [ThinkingDelta("hmm"), TextDelta("Hello"), ThinkingDelta("!")]


def test_the_order_around_other_events_stays() -> None:
    events: list[ModelEvent] = [
        TextDelta("a"),
        CallStarted("read"),
        TextDelta("b"),
        TextDelta("c"),
        CallStarted("exec"),
    ]
    assert list(join_texts(events)) == [TextDelta("a"), CallStarted("read"), TextDelta("bc"), CallStarted("exec")]
    assert list(join_texts([])) == []


def test_text_before_an_error_is_passed_on_before_it() -> None:
    def broken() -> Iterator[ModelEvent]:
        yield TextDelta("Hel")
        yield TextDelta("lo")
        raise ModelError(ModelErrorKind.SERVER, "broken")

    heard: list[ModelEvent] = []
    with pytest.raises(ModelError):
        heard.extend(join_texts(broken()))
    assert heard == [TextDelta("Hello")]
