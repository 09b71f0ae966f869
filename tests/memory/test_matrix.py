"""Vectors in memory: what is nearest is what a slow look at all of them finds, within the scope."""

import math
import struct
from collections.abc import Sequence
from random import Random
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.memory import matrix as module
from goclaw.memory.index.schema import NO_PLACES, Scope
from goclaw.memory.index.text_vectors import Embedded
from goclaw.memory.matrix import Matrix

WIDTH = 8
EVERYWHERE = Scope(((0, 10_000_000),), 1, 1)
ALONG = bytes([100] + [0] * (WIDTH - 1))

Vectors = dict[tuple[int, int], bytes]


def vector(seed: int) -> bytes:
    return bytes(Random(seed).choices(range(256), k=WIDTH))


def embedded(vectors: Vectors) -> list[Embedded]:
    return [Embedded(number, *span, each) for number, (span, each) in enumerate(vectors.items())]


def cosine(one: bytes, other: bytes) -> float:
    first, second = struct.unpack(f"{len(one)}b", one), struct.unpack(f"{len(other)}b", other)
    length = math.hypot(*first) * math.hypot(*second)
    return sum(a * b for a, b in zip(first, second, strict=True)) / length if length else 0.0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION", 4)


spans = st.tuples(st.integers(0, 60), st.integers(0, 5)).map(lambda pair: (pair[0], sum(pair)))
everything = st.dictionaries(spans, st.integers(0, 1000).map(vector), max_size=30)


@pytest.mark.usefixtures("small")
@settings(max_examples=60)
@given(
    everything,
    st.lists(spans, max_size=3),
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 10)), max_size=8),
    st.none() | st.frozensets(st.integers(0, 70), max_size=20),
    st.frozensets(st.integers(0, 70), max_size=10),
    st.integers(1, 40),
)
def test_the_nearest_of_a_scope_are_found_whatever_lies_beside_it(
    vectors: Vectors,
    dropped: Sequence[tuple[int, int]],
    lengths: Sequence[tuple[int, int]],
    only: frozenset[int] | None,
    but: frozenset[int],
    depth: int,
) -> None:
    ranges, end = [], -1
    for first, length in sorted(lengths):
        if first > end:
            ranges.append((first, end := first + length))
    scope = Scope(ranges, 1, 1, only, but)
    searched = Matrix()
    searched.grow(embedded(vectors))
    searched.drop(dropped)
    kept = {
        span: each
        for span, each in vectors.items()
        if not any(first <= span[0] and span[1] <= last for first, last in dropped)
    }
    assert len(searched) == len(kept)
    meant = {span: each for span, each in kept.items() if any(map(scope.has, range(span[0], span[1] + 1)))}
    found = searched.nearest(ALONG, scope, depth)
    best = sorted((cosine(ALONG, each) for each in meant.values()), reverse=True)[:depth]
    assert [similar for _, _, similar in found] == pytest.approx(best, abs=1e-6)
    assert all(similar == pytest.approx(cosine(ALONG, meant[first, last]), abs=1e-6) for first, last, similar in found)
    assert len({(first, last) for first, last, _ in found}) == len(found)


def test_a_vector_is_as_near_to_itself_as_can_be_whatever_its_length() -> None:
    searched = Matrix()
    searched.grow([Embedded(1, 5, 7, bytes([1] + [0] * 7)), Embedded(2, 8, 9, bytes([0x81] + [0] * 7))])
    found = searched.nearest(ALONG, EVERYWHERE, 9)
    assert [(first, last, round(similar, 6)) for first, last, similar in found] == [(5, 7, 1.0), (8, 9, -1.0)]


def test_a_vector_of_zeros_is_near_to_nothing() -> None:
    searched = Matrix()
    searched.grow([Embedded(1, 1, 1, bytes(WIDTH))])
    assert searched.nearest(ALONG, EVERYWHERE, 1) == [(1, 1, 0.0)]
    assert searched.nearest(bytes(WIDTH), EVERYWHERE, 1) == [(1, 1, 0.0)]


def test_nothing_is_found_in_nothing() -> None:
    searched = Matrix()
    assert searched.nearest(ALONG, EVERYWHERE, 5) == []
    searched.grow([Embedded(1, 1, 1, ALONG)])
    assert searched.nearest(ALONG, NO_PLACES, 5) == []


def test_vectors_of_another_length_are_left_out() -> None:
    searched = Matrix()
    searched.grow([Embedded(1, 1, 1, ALONG), Embedded(2, 2, 2, bytes(WIDTH + 1))])
    assert [first for first, _, _ in searched.nearest(ALONG, EVERYWHERE, 5)] == [1]
    assert searched.nearest(bytes(WIDTH + 1), EVERYWHERE, 5) == []


def test_what_is_dropped_and_added_again_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION", 16)
    searched = Matrix()
    searched.grow(Embedded(place, place, place, vector(place)) for place in range(64))
    for place in range(3_000):
        searched.drop([(place % 64, place % 64)])
        searched.grow([Embedded(place, place % 64, place % 64, vector(place))])
    assert len(searched) == 64
    assert len(searched._portions) <= 2 * 64 // 16 + 1
    assert len(searched.nearest(ALONG, EVERYWHERE, 100)) == 64


def test_a_portion_that_another_thread_has_begun_and_not_filled_is_passed_over() -> None:
    searched = Matrix()
    searched.grow([Embedded(0, 0, 0, ALONG)])
    searched._portions = (*searched._portions, module._Portion(len(ALONG)))
    assert [found[0] for found in searched.nearest(ALONG, EVERYWHERE, 10)] == [0]


def test_searches_go_on_while_another_thread_grows_and_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION", 64)
    searched = Matrix()
    searched.grow([Embedded(0, 0, 0, ALONG)])
    done = Event()

    def change() -> None:
        for place in range(1, 2_000):
            searched.grow([Embedded(place, place, place, vector(place))])
            if place > 100:
                searched.drop([(place - 100, place - 100)])
        done.set()

    changing = Thread(target=change)
    changing.start()
    while not done.is_set():
        found = searched.nearest(ALONG, EVERYWHERE, 10)
        assert found[0][0] == 0
        assert len(found) == len(set(found))
        for first, last, similar in found:
            assert first == last and (not first or similar == pytest.approx(cosine(ALONG, vector(first)), abs=1e-6))
    changing.join()
    assert len(searched) == 101
