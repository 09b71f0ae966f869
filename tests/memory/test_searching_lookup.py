"""What searches read of the corpora: within their scope only, and very words as they were said."""

import sqlite3
from collections.abc import Iterator
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.memory.index.schema import NO_PLACES, Scope, place_of
from goclaw.memory.query_terms import part_expressions, term_expressions
from goclaw.memory.ranking import RankedPassage
from goclaw.memory.searching import RANGES_ASKED, documents, passages, phrase_places, postings, texts
from tests.memory.talking import NOON, corpora, passage, say, scope_of


@pytest.fixture
def corpus() -> Iterator[sqlite3.Connection]:
    with corpora() as connection:
        yield connection


def where(corpus: sqlite3.Connection, phrase: str, sessions: int = 1) -> list[int]:
    return phrase_places(corpus, "talk", phrase, scope_of(corpus, range(1, sessions + 1)))


def test_terms_stand_where_they_were_said_in_any_form(corpus: sqlite3.Connection) -> None:
    first, second, _ = say(corpus, 1, ["Anna: The lilies bloom", "Bert: A lily? Blooming?", "Anna: Bread"])
    lily, bloom = postings(corpus, "talk", term_expressions("lily bloom"), scope_of(corpus, [1]))
    assert (lily, bloom) == ([first, second], [first, second])


def test_parts_of_identifiers_are_asked_in_their_own_table(corpus: sqlite3.Connection) -> None:
    [place] = say(corpus, 1, ["Anna: It is in goclaw_memory_index.db"])
    scope = scope_of(corpus, [1])
    assert postings(corpus, "talk", part_expressions("w_memory_in"), scope, "parts") == [[place]]
    assert postings(corpus, "talk", part_expressions("w_memory_in"), NO_PLACES, "parts") == [[]]


@pytest.mark.parametrize("sessions", [3, 2 * RANGES_ASKED + 2])
def test_few_and_many_ranges_let_the_same_places_through(corpus: sqlite3.Connection, sessions: int) -> None:
    places = {session: say(corpus, session, ["Anna: tea", "Bert: tea"]) for session in range(1, sessions + 1)}
    odd = range(1, sessions + 1, 2)
    [found] = postings(corpus, "talk", ['"tea"'], scope_of(corpus, odd))
    assert found == [place for session in odd for place in places[session]]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=25),
    st.none() | st.frozensets(st.integers(0, 60), max_size=20),
    st.frozensets(st.integers(0, 60), max_size=8),
)
def test_no_place_outside_of_a_scope_is_ever_found(
    spans: list[tuple[int, int]], only: frozenset[int] | None, but: frozenset[int]
) -> None:
    ranges, last = [], -1
    for first, length in sorted(spans):
        if first > last:
            ranges.append((first, last := first + length))
    scope = Scope(ranges, 100, 100, only, but)
    allowed = [
        place
        for place in range(70)
        if any(first <= place <= last for first, last in ranges)
        and (only is None or place in only)
        and place not in but
    ]
    assert [place for place in range(70) if scope.has(place)] == allowed
    with corpora() as corpus:
        for place in range(70):
            passage(corpus, "talk", place, "tea ->")
        assert postings(corpus, "talk", ['"tea"', '"coffee"'], scope) == [allowed, []]
        assert sorted(phrase_places(corpus, "talk", "tea", scope)) == allowed
        assert sorted(phrase_places(corpus, "talk", "->", scope)) == allowed


def test_passages_and_texts_are_those_that_there_are(corpus: sqlite3.Connection) -> None:
    asked, told = say(corpus, 1, ["Anna: Where is it?", "Bert: In the attic"])
    assert passages(corpus, "talk", [asked, told, told + 1]) == {
        asked: RankedPassage(3, date(2026, 3, 19), "Anna", True),
        told: RankedPassage(3, date(2026, 3, 19), "Bert", False),
    }
    assert [text.text for text in texts(corpus, "talk", {told, told + 9}).values()] == ["In the attic"]
    assert documents(corpus, "talk", [1, 2]) == {1: "s1"}


def test_a_phrase_is_its_very_words_in_their_order(corpus: sqlite3.Connection) -> None:
    right, *_ = say(
        corpus,
        1,
        [
            "Anna: She   LOVES\nred wine",
            "Anna: red wine she loves",
            "Anna: she loved red wine",
            "Anna: she loves redwine",
        ],
    )
    assert where(corpus, "she loves red wine") == [right]
    assert where(corpus, "loves  red") == [right]


def test_a_phrase_ends_where_its_words_end(corpus: sqlite3.Connection) -> None:
    cat, _ = say(corpus, 1, ["Anna: my cat's bed", "Anna: cats concatenate"])
    assert where(corpus, "cat") == [cat]


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("喜欢绿茶", "我喜欢绿茶和面包"),
        ("绿", "我喜欢绿茶"),
        ("Python写", "我用Python写代码"),
        ("我 喝 tea", "昨天我 喝 TEA"),
        ("🎉 party", "what a 🎉  party!"),
        ("->", "a -> b"),
        ("=> {", "x =>\n{ y }"),
        ("C++", "I write C++ now"),
        ("100%", "it is 100% sure"),
        ("O'Brien", "to O'Brien with"),
        ('say "hi"', 'I say "hi" twice'),
        ("Straße", "in der STRAßE 5"),
        ("getUserName", "call getusername()"),
        ("ｆｕｌｌ", "it is full"),
    ],
)
def test_a_phrase_in_any_script_or_of_signs_is_found(corpus: sqlite3.Connection, phrase: str, text: str) -> None:
    [place, _] = say(corpus, 1, [f"Anna: {text}", "Anna: something else"])
    assert where(corpus, phrase) == [place]


@pytest.mark.parametrize("phrase", ["", "  ", "\x00", "\ud800", '"', "NEAR(", "x" * 10_000, '" OR "', "text : x", "*"])
def test_any_text_is_a_valid_phrase(corpus: sqlite3.Connection, phrase: str) -> None:
    say(corpus, 1, ["Anna: something else"])
    assert where(corpus, phrase) == []


def test_phrases_come_latest_first(corpus: sqlite3.Connection) -> None:
    old = say(corpus, 1, ["Anna: good night", "Bert: good night"])
    [new] = say(corpus, 2, ["Anna: good night"])
    passage(corpus, "talk", place_of(1, 9), "good night", NOON * 2)
    assert where(corpus, "good night", 2) == [place_of(1, 9), new, old[1], old[0]]
