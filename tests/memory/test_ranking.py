"""Passages are ranked by what comes together around them. The index is FTS5's own; the conversations are made up."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.memory.dates import named_times
from goclaw.memory.query_terms import term_expressions
from goclaw.memory.ranking import (
    KEYWORD_DEPTH,
    REACH,
    Ranked,
    RankedPassage,
    Term,
    Wish,
    around,
    candidates,
    named_speaker,
    of_windows,
    rank,
    weigh,
)

DAY = date(2026, 3, 18)
BESIDES = [
    "Anna: The garden needs water again this week",
    "Bert: I listened to the radio all evening",
    "Anna: My sister sends her love to everybody",
    "Bert: There is fresh bread on the table",
    "Anna: Traffic was slow on the bridge today",
    "Bert: The cat slept on the keyboard for hours",
]


@dataclass
class Talk:
    """A conversation in a full-text index."""

    connection: sqlite3.Connection
    passages: Mapping[int, RankedPassage]

    def search(
        self, query: str, vectors: Sequence[Mapping[int, float]] = (), today: date = DAY, speaker: str = ""
    ) -> list[Ranked]:
        postings = [
            [place for (place,) in self.connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (each,))]
            for each in term_expressions(query)
        ]
        terms = weigh(postings, len(self.passages))
        usual = sum(passage.words for passage in self.passages.values()) / len(self.passages)
        wish = Wish(named_times(query, today), speaker)
        return rank(candidates(terms, vectors), self.passages, terms, vectors, wish, usual)

    def bm25(self, query: str) -> list[int]:
        statement = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words)"
        return [place for (place,) in self.connection.execute(statement, (" OR ".join(term_expressions(query)),))]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61')")
        yield connection


def talk(connection: sqlite3.Connection, lines: Mapping[int, str], told: Mapping[int, date] | None = None) -> Talk:
    passages = {}
    for place, line in lines.items():
        speaker, _, text = line.partition(": ")
        connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (place, text))
        day = (told or {}).get(place, DAY)
        passages[place] = RankedPassage(len(text.split()), day, speaker, text.endswith("?"))
    return Talk(connection, passages)


def placed(*lines: str) -> dict[int, str]:
    """The lines one after the other, with talk of other things around them."""
    return dict(enumerate([*BESIDES, *lines, *BESIDES], start=100))


def test_an_answer_is_found_by_the_words_of_the_question_before_it(connection: sqlite3.Connection) -> None:
    lines = placed("Bert: Which instrument does your daughter play?", "Anna: She took up the cello when she was six")
    found = talk(connection, lines)
    asking, answer, *_ = found.search("daughter's instrument")
    assert "instrument" in lines[asking.place] and "cello" in lines[answer.place]
    assert len(found.bm25("daughter's instrument")) == 1, "BM25 alone has the question only"


def test_terms_that_come_together_beat_one_term_repeated(connection: sqlite3.Connection) -> None:
    lines = placed("Anna: The passport is renewed", "Bert: And the visa for Kenya came by post this morning") | {
        300: "Bert: Kenya has lakes and Kenya has mountains and Kenya has coasts",
        301: "Anna: Kenya it is",
    }
    found = talk(connection, lines)
    assert "visa" in lines[found.search("passport and visa for Kenya")[0].place]


def test_nothing_is_taken_over_a_gap_between_conversations(connection: sqlite3.Connection) -> None:
    near = {100: "Bert: Which instrument does your daughter play?", 101: "Anna: She took up the cello at six"}
    far = {100: near[100], 101 + REACH: near[101]}
    besides = dict(enumerate(BESIDES * 2, start=300))
    together = talk(connection, near | besides).search("daughter's instrument")
    connection.execute("DELETE FROM words")
    apart = talk(connection, far | besides).search("daughter's instrument")
    assert {hit.place: hit.keyword for hit in together}[101] > 0
    assert {hit.place: hit.keyword for hit in apart}.get(101 + REACH, 0.0) == 0


def test_without_any_term_in_the_index_the_vectors_alone_decide(connection: sqlite3.Connection) -> None:
    lines = placed("Anna: She took up the cello when she was six years old")
    found = talk(connection, lines)
    hits = found.search("hobby", [{106: 0.6, 102: 0.3}])
    assert [hit.place for hit in hits] == [106, 102]
    assert hits[0].keyword == 0 and hits[0].cosine == 0.6


def test_similarity_lifts_one_of_two_equal_passages_and_none_is_needed(connection: sqlite3.Connection) -> None:
    lines = placed("Anna: We bought a red boat", *BESIDES[:5], "Bert: We bought a red house")
    found = talk(connection, lines)
    assert found.search("what red thing was bought", [{106: 0.7, 112: 0.2}])[0].place == 106
    assert found.search("what red thing was bought", [{106: 0.2, 112: 0.7}])[0].place == 112
    assert {hit.place for hit in found.search("what red thing was bought")[:2]} == {106, 112}


def test_the_day_that_a_query_names_decides_between_equal_passages(connection: sqlite3.Connection) -> None:
    lines = placed("Anna: We went to the dentist", *BESIDES[:5], "Anna: We went to the dentist")
    told = {106: date(2026, 1, 7), 112: date(2026, 3, 3)}
    found = talk(connection, lines, told)
    assert found.search("dentist in January 2026")[0].place == 106
    assert found.search("dentist on 3 March")[0].place == 112


def test_the_person_that_a_query_names_decides_between_equal_passages(connection: sqlite3.Connection) -> None:
    lines = placed("Anna: I went to the dentist", *BESIDES[:5], "Bert: I went to the dentist")
    found = talk(connection, lines)
    assert found.search("When was Anna at the dentist?", speaker="Anna")[0].place == 106
    assert found.search("When was Bert at the dentist?", speaker="Bert")[0].place == 112


def test_who_tells_is_ranked_above_who_asks_the_same(connection: sqlite3.Connection) -> None:
    lines = placed("Anna: Is the key under the blue stone?", *BESIDES[:5], "Anna: Yes the key is under the blue stone")
    assert talk(connection, lines).search("key under the stone")[0].place == 112


def test_a_message_of_two_words_is_ranked_below_what_it_stands_beside(connection: sqlite3.Connection) -> None:
    lines = placed("Anna: I found my old violin in the attic", "Bert: My violin!")
    assert lines[talk(connection, lines).search("violin")[0].place].startswith("Anna")


@pytest.mark.parametrize(
    ("words", "named"),
    [(["what", "did", "anna", "say"], "Anna Lee"), (["Anna", "and", "Bert"], ""), (["who"], ""), (["annabel"], "")],
)
def test_a_speaker_is_wished_for_when_one_alone_is_named(words: list[str], named: str) -> None:
    assert named_speaker(words, ["Anna Lee", "Bert"]) == named


def test_a_term_that_stands_nowhere_leaves_more_to_the_vectors() -> None:
    passages = {place: RankedPassage(8, DAY) for place in range(100, 140)}

    def first(postings: list[list[int]]) -> int:
        terms = weigh(postings, len(passages))
        return rank([100, 120], passages, terms, [{100: 0.2, 120: 0.8}], Wish(), 8)[0].place

    assert first([[100]]) == 100
    assert first([[100], [], [], []]) == 120


def test_a_place_that_a_list_of_vectors_was_cut_before_counts_as_its_last() -> None:
    passages = {place: RankedPassage(8, DAY) for place in (100, 110, 120)}
    best, last, missing = rank([100, 110, 120], passages, [], [{100: 0.8, 110: 0.4}], Wish(), 8)
    assert best.place == 100 and {last.place, missing.place} == {110, 120}
    assert last.score == missing.score and best.score > last.score


def test_a_common_term_brings_no_more_candidates_than_the_depth() -> None:
    everywhere = weigh([range(0, 100_000, 3), [50_000, 50_002]], 100_000)
    places = candidates(everywhere)
    assert len(places) == 4 * KEYWORD_DEPTH
    assert {50_000, 50_001, 50_002} <= places


def test_terms_on_both_sides_of_a_block_are_candidates_before_single_ones() -> None:
    alone = range(0, 8 * 4 * KEYWORD_DEPTH, 8)
    first, second = 80_003, 80_004
    terms = weigh([[*alone, first], [second], *[[1_000_000 + 8 * place] for place in range(KEYWORD_DEPTH)]], 90_000)
    rare = [Term(term.places, 1.0) for term in terms]
    assert {first, second} <= candidates(rare)


def test_places_that_do_not_exist_are_left_out() -> None:
    assert rank([1, 2], {2: RankedPassage(3, DAY)}, [], [], Wish(), 3) == [Ranked(2, 0.0, 0.0, 0.0)]
    assert rank([], {}, [], [{}], Wish(), 0.0) == []


def test_neighbours_lie_within_reach() -> None:
    assert around([10]) == set(range(10 - REACH, 10 + REACH + 1))


def test_a_place_in_two_windows_has_the_better_similarity() -> None:
    assert of_windows([(1, 3, 0.2), (3, 4, 0.5)]) == {1: 0.2, 2: 0.2, 3: 0.5, 4: 0.5}
    assert of_windows([(3, 4, 0.5), (1, 3, -0.2)]) == {3: 0.5, 4: 0.5, 1: -0.2, 2: -0.2}


places = st.integers(min_value=0, max_value=60)


@given(
    st.lists(st.lists(places), max_size=5),
    st.lists(st.dictionaries(places, st.floats(-1, 1)), max_size=2),
    st.integers(min_value=0, max_value=60),
    st.randoms(use_true_random=False),
)
def test_every_existing_candidate_is_ranked_once_whatever_was_found(
    postings: list[list[int]], vectors: list[dict[int, float]], size: int, random: Random
) -> None:
    passages = {place: RankedPassage(random.randrange(40), DAY) for place in range(60) if random.random() < 0.8}
    terms: list[Term] = weigh([set(each) for each in postings], size)
    found = candidates(terms, vectors)
    hits = rank(found, passages, terms, vectors, Wish(), 12.0)
    assert sorted(hit.place for hit in hits) == sorted(found & passages.keys())
    assert all(first.score >= second.score for first, second in pairwise(hits))
