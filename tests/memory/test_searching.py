"""From a query to places, through the index: any text is a query, and nothing outside of the scope answers."""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.memory.index.schema import Corpus, Scope, place_of
from goclaw.memory.ranking import KEYWORD_DEPTH, Ranked
from goclaw.memory.searching import is_weak, ranked_places
from tests.memory.talking import corpora, passage, say, scope_of

TODAY = date(2026, 3, 21)
BESIDES = ["Anna: The garden needs water", "Bert: Bread is on the table", "Anna: Traffic was slow on the bridge"]


@pytest.fixture
def corpus() -> Iterator[sqlite3.Connection]:
    with corpora() as connection:
        yield connection


def search(
    corpus: sqlite3.Connection,
    query: str,
    sessions: Sequence[int] = (1,),
    similar: Sequence[tuple[int, int, float]] = (),
    *,
    only: frozenset[int] | None = None,
    phrase: bool = False,
) -> list[Ranked]:
    scope = scope_of(corpus, sessions, only)
    return ranked_places(corpus, "talk", query, scope, similar, TODAY, phrase=phrase)


def places(hits: Sequence[Ranked]) -> list[int]:
    return [hit.place for hit in hits]


HARD = [
    'the "cello"',
    "cello*",
    "-cello",
    "cello:",
    "NEAR(cello, 5)",
    "cello AND OR NOT",
    "text : cello",
    "cello 🎻",
    "cello " + "word " * 2_000,
    "cello" + " \x00\ud800",
    "the cello's?!",
    "CELLO",
    "celli cellos",
]


@pytest.mark.parametrize("query", HARD)
def test_any_query_finds_what_one_of_its_terms_stands_in(corpus: sqlite3.Connection, query: str) -> None:
    *_, cello = say(corpus, 1, [*BESIDES, "Bert: She plays the cello"])
    assert places(search(corpus, query))[0] == cello


@pytest.mark.parametrize(
    "query", ["", " ", '"', "*", "-", ":", "^", "(", "\x00", "'; DROP talk_passages; --", "\ud800"]
)
def test_a_query_that_says_nothing_finds_nothing_and_fails_nowhere(corpus: sqlite3.Connection, query: str) -> None:
    say(corpus, 1, BESIDES)
    assert search(corpus, query) == []


def test_a_query_of_stop_words_alone_finds_them(corpus: sqlite3.Connection) -> None:
    _, found = say(corpus, 1, ["Anna: Bread", "Bert: To be or not to be"])
    assert places(search(corpus, "to be or not to be"))[0] == found


def test_beginnings_of_words_are_found_where_no_whole_word_is(corpus: sqlite3.Connection) -> None:
    *_, place = say(corpus, 1, [*BESIDES, "Bert: an incomprehensibility"])
    assert places(search(corpus, "incompre"))[0] == place


def test_any_three_characters_of_an_identifier_find_it(corpus: sqlite3.Connection) -> None:
    *_, place = say(corpus, 1, [*BESIDES, "Bert: set MEMORY_BUDGET_TOKENS=5 there"])
    assert places(search(corpus, "EMORY_BUD"))[0] == place


def test_the_answer_beside_the_words_of_the_question_comes_before_words_that_stand_alone(
    corpus: sqlite3.Connection,
) -> None:
    [alone] = say(corpus, 1, ["Anna: I had an instrument once"])
    _, answer = say(
        corpus, 2, ["Anna: Which instrument does your daughter play?", "Bert: She plays the cello since she was six"]
    )
    hits = places(search(corpus, "What instrument does the daughter play?", (1, 2)))
    assert hits.index(answer) < hits.index(alone)


def test_a_named_speaker_and_a_named_day_come_first(corpus: sqlite3.Connection) -> None:
    says = ["Anna: The visa came", "Bert: The visa came"]
    _, second = say(corpus, 1, says)
    later = say(corpus, 2, says)
    assert places(search(corpus, "What did Bert say of the visa?"))[0] == second
    assert set(places(search(corpus, "What about the visa yesterday?", (1, 2)))[:2]) == set(later)


def test_what_only_its_meaning_finds_is_found(corpus: sqlite3.Connection) -> None:
    first, second, third = say(corpus, 1, BESIDES)
    hits = search(corpus, "cars", similar=[(second, third, 0.6), (first, first, 0.1)])
    assert set(places(hits)[:2]) == {second, third}
    assert [is_weak(hit) for hit in sorted(hits, key=lambda hit: hit.place)] == [True, False, False]


def test_a_hit_with_a_term_is_not_weak_whatever_it_means(corpus: sqlite3.Connection) -> None:
    say(corpus, 1, BESIDES)
    assert not is_weak(search(corpus, "garden")[0])


def test_very_words_are_found_and_nothing_else(corpus: sqlite3.Connection) -> None:
    right, _ = say(corpus, 1, ["Anna: red wine", "Bert: wine, red"])
    assert search(corpus, "red  WINE", phrase=True) == [Ranked(right, 1.0, 1.0, 0.0)]


@pytest.mark.parametrize("phrase", ["Weissenburger strasse", "weißenburger STRASSE", "Weißenburger Straße"])
def test_very_words_are_found_in_any_spelling(corpus: sqlite3.Connection, phrase: str) -> None:
    full, plain = say(corpus, 1, ["Anna: in der Weißenburger Straße", "Bert: Weissenburger Strasse 12"])
    say(corpus, 1, ["Carl: Straße, Weißenburger"], 5)
    assert sorted(places(search(corpus, phrase, phrase=True))) == sorted([full, plain])


def test_others_hits_hide_nobodys(corpus: sqlite3.Connection) -> None:
    """More of them than a search looks at closely; they have the term more often, too."""
    for session in range(2, KEYWORD_DEPTH + 4):
        say(corpus, session, ["Bert: cello cello cello"] * 8)
    *_, mine = say(corpus, 1, ["Anna: The long story of a garden beside a bridge", "Anna: the cello"])
    assert places(search(corpus, "cello"))[0] == mine
    everybody = range(1, KEYWORD_DEPTH + 4)
    assert places(search(corpus, "cello", everybody, only=frozenset([mine]))) == [mine]


words = st.sampled_from(["tea", "cello", "garden", "bread", "visa", "getUserName", "绿茶", "🎉"])
lines = st.lists(st.lists(words, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(lines, min_size=1, max_size=4),
    st.frozensets(st.integers(1, 4)),
    st.none() | st.frozensets(st.builds(place_of, st.integers(1, 4), st.integers(0, 5))),
    st.frozensets(st.builds(place_of, st.integers(1, 4), st.integers(0, 5)), max_size=4),
    st.lists(words, max_size=3).map(" ".join),
    st.booleans(),
)
def test_nothing_outside_of_the_scope_answers_and_every_passage_with_a_term_does(
    said: Sequence[Sequence[str]],
    sessions: frozenset[int],
    only: frozenset[int] | None,
    but: frozenset[int],
    query: str,
    phrase: bool,
) -> None:
    with corpora() as corpus:
        texts = {
            place: text
            for session, each in enumerate(said, 1)
            for place, text in zip(say(corpus, session, [f"Anna: {text}" for text in each]), each, strict=True)
        }
        whole = scope_of(corpus, sessions, only)
        scope = Scope(whole.ranges, whole.passages, whole.words, only, but)
        similar = [(min(texts), max(texts), 0.5)] if len(said) == 1 else [(place, place, 0.5) for place in texts]
        hits = places(ranked_places(corpus, "talk", query, scope, similar, TODAY, phrase=phrase))
        assert all(map(scope.has, hits)) and len(set(hits)) == len(hits)
        meant = {place for place in texts if scope.has(place)}
        if phrase:
            assert set(hits) == {place for place in meant if query and f" {query} " in f" {texts[place]} "}
        else:
            assert set(hits) == meant  # all are similar
        alone = places(ranked_places(corpus, "talk", query, scope, [], TODAY))
        assert {place for place in meant if set(query.split()) & set(texts[place].split())} <= set(alone) <= meant


def test_neighbours_count_for_less_between_passages_of_files(corpus: sqlite3.Connection) -> None:
    """A passage of a file has a question and its answer in itself; a message has one of the two."""
    texts = ["What does the daughter play", "She took it up long ago", "Nothing to see"]
    scope = Scope([(0, 1_000)], 6, 30)
    beside = []
    kinds: Sequence[Corpus] = ("talk", "note")
    for kind in kinds:
        for place, text in enumerate(texts):
            passage(corpus, kind, place, text)
            passage(corpus, kind, place + 500, "Something else altogether")
        hits = ranked_places(corpus, kind, "daughter play", scope, [], TODAY)
        scores = {hit.place: hit.keyword for hit in hits}
        beside.append(scores[1] / scores[0])
    assert 0 < beside[1] < beside[0] / 1.5
