from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.llm.http_streams import EventParser, EventTooLarge, ServerEvent
from tests.llm.fake_provider import STREAMS


def parse(*chunks: bytes) -> list[ServerEvent]:
    parser = EventParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return [*events, *parser.finish()]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_may_end_in_any_of_the_three_ways(end: bytes) -> None:
    data = end.join([b"event: a", b"data: 1", b"", b"data:2", b"", b""])
    assert parse(data) == [ServerEvent("a", b"1"), ServerEvent("message", b"2")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_single_cut_is_harmless(end: bytes) -> None:
    data = end.join([b"event: a", "data: Grüß".encode(), b"data: 2", b"", b""])
    for place in range(len(data) + 1):
        assert parse(data[:place], data[place:]) == [ServerEvent("a", "Grüß\n2".encode())]
    assert parse(*(data[place : place + 1] for place in range(len(data)))) == parse(data)


def test_several_data_lines_are_one_text() -> None:
    assert parse(b"data: one\ndata:  two\ndata\n\n") == [ServerEvent("message", b"one\n two\n")]


def test_comments_ids_and_keep_alives_are_no_events() -> None:
    assert parse(b": hello\n\nid: 7\nretry: 10\n\nevent: lost\n\ndata: x\n\n") == [ServerEvent("message", b"x")]


def test_a_byte_order_mark_is_skipped_even_when_it_comes_in_pieces() -> None:
    assert parse(b"\xef", b"\xbb", b"\xbfdata: x\n\n") == [ServerEvent("message", b"x")]


def test_an_event_without_its_blank_line_is_not_told() -> None:
    assert parse(b"data: whole\n\ndata: half\n") == [ServerEvent("message", b"whole")]


@pytest.mark.parametrize("data", [b"data: " + b"x" * 100, b"data: 0123456789\n" * 10])
def test_an_event_without_end_is_refused(data: bytes) -> None:
    with pytest.raises(EventTooLarge):
        list(EventParser(limit=50).feed(data))


def test_many_small_events_are_not_one_large_one() -> None:
    assert len(list(EventParser(limit=50).feed(b"data: 0123456789\n\n" * 100))) == 100


@given(st.sampled_from(sorted(STREAMS.glob("*.sse"))), st.lists(st.integers(0, 100_000), max_size=40), st.booleans())
def test_it_does_not_matter_how_the_bytes_were_cut(path: Path, places: list[int], crlf: bool) -> None:
    data = path.read_bytes()
    if crlf:
        data = data.replace(b"\n", b"\r\n")
    assert parse(*cut(data, places)) == parse(data)
    assert len(parse(data)) > 2
