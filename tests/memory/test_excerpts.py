"""What is shown of what was found: within the budget and the scope, the best first, nothing twice."""

import sqlite3
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.memory.base import NoteHit, Quote
from goclaw.memory.chunks import chunk_markdown
from goclaw.memory.excerpts import CUT, WITH_NEIGHBOURS, hits, quotes, tokens
from goclaw.memory.index.schema import Scope, place_of
from goclaw.memory.ranking import Ranked
from goclaw.memory.searching import texts
from tests.lanes import repeats
from tests.memory.talking import corpora, passage, say, scope_of

EVERYWHERE = Scope(((0, 1 << 40),), 1, 1)


@pytest.fixture
def corpus() -> Iterator[sqlite3.Connection]:
    with corpora() as connection:
        yield connection


def order(*places: int) -> list[Ranked]:
    return [Ranked(place, 2.0 - number / 100, 0.5, 0.4) for number, place in enumerate(places)]


def shown(
    corpus: sqlite3.Connection,
    places: Sequence[int],
    *,
    limit: int = 10,
    budget: int = 1_000,
    scope: Scope = EVERYWHERE,
) -> list[Quote]:
    found, _ = quotes(corpus, order(*places), scope, limit, budget)
    return found


def rows(found: Sequence[Quote]) -> list[list[int]]:
    return [[line.row for line in quote.lines] for quote in found]


def file(corpus: sqlite3.Connection, text: str, number: int = 1) -> list[int]:
    """Put a memory file; returns the places of its passages."""
    corpus.execute(
        "INSERT INTO note_documents VALUES (?, '/w', ?, '', 0, 0, 0, '', 0, 0, 0)", (number, f"memory/{number}.md")
    )
    chunks = chunk_markdown(text)
    for position, chunk in enumerate(chunks):
        lines = (chunk.start, chunk.end)
        passage(corpus, "note", place_of(number, position), chunk.text, heading=chunk.heading, lines=lines)
    return [place_of(number, position) for position in range(len(chunks))]


def excerpts(
    corpus: sqlite3.Connection, places: Sequence[int], *, limit: int = 10, budget: int = 1_000
) -> list[NoteHit]:
    return hits(corpus, order(*places), limit, budget)[0]


def test_a_quote_has_what_was_said_around_its_message(corpus: sqlite3.Connection) -> None:
    said = say(corpus, 1, [f"Anna: message {number}" for number in range(9)])
    [quote] = shown(corpus, [said[4]])
    assert (quote.session, quote.row, [line.row for line in quote.lines]) == ("s1", said[4], said[2:7])
    assert (quote.lines[0].speaker, quote.lines[0].text) == ("Anna", "message 2")
    assert (quote.score.score, quote.score.keyword, quote.score.weak) == (1.0, 0.5, False)


def test_scores_are_parts_of_the_best_one(corpus: sqlite3.Connection) -> None:
    said = say(corpus, 1, [f"Anna: message {number}" for number in range(20)])
    first, second = quotes(corpus, [Ranked(said[2], 0.5, 1, 0), Ranked(said[15], 0.2, 0, 0.1)], EVERYWHERE, 9, 99)[0]
    assert (first.score.score, second.score.score, second.score.weak) == (1.0, 0.4, True)
    [nothing] = quotes(corpus, [Ranked(said[2], 0.0, 0, 0)], EVERYWHERE, 9, 99)[0]
    assert nothing.score.score == 1.0


def test_quotes_that_touch_are_one_known_by_its_best_hit(corpus: sqlite3.Connection) -> None:
    said = say(corpus, 1, [f"Anna: message {number}" for number in range(30)])
    found = shown(corpus, [said[20], said[4], said[6], said[21]])
    assert [quote.row for quote in found] == [said[20], said[4]]
    assert rows(found) == [said[18:24], said[2:9]]


def test_hits_come_before_the_surroundings_of_all_but_the_best(corpus: sqlite3.Connection) -> None:
    said = say(corpus, 1, ["Anna: about as many tokens as messages have, more or less"] * 200)
    far = said[10::15]
    cost = tokens(texts(corpus, "talk", far[:1])[far[0]])
    found = shown(corpus, far, limit=99, budget=cost * (len(far) + 2 * WITH_NEIGHBOURS))
    assert [len(lines) for lines in rows(found)] == [3] * WITH_NEIGHBOURS + [1] * (len(far) - WITH_NEIGHBOURS)


def test_what_does_not_fit_makes_room_for_what_does(corpus: sqlite3.Connection) -> None:
    short, long, other = say(corpus, 1, ["Anna: yes", "Anna: " + "long " * 100, "Anna: no"])
    found, more = quotes(corpus, order(short, long, other), EVERYWHERE, 9, 20)
    assert (rows(found), more) == ([[short], [other]], True)


def test_the_limit_counts_quotes_and_says_that_there_is_more(corpus: sqlite3.Connection) -> None:
    said = say(corpus, 1, [f"Anna: message {number}" for number in range(60)])
    found, more = quotes(corpus, order(said[5], said[25], said[26], said[45]), EVERYWHERE, 2, 1_000)
    assert ([quote.row for quote in found], more) == ([said[5], said[25]], True)
    assert not quotes(corpus, order(said[5], said[25], said[26]), EVERYWHERE, 2, 1_000)[1]


def test_weak_hits_that_are_left_out_are_no_more(corpus: sqlite3.Connection) -> None:
    said = say(corpus, 1, [f"Anna: message {number}" for number in range(30)])
    weak = Ranked(said[20], 0.1, 0.0, 0.1)
    assert not quotes(corpus, [*order(said[5]), weak], EVERYWHERE, 1, 1_000)[1]


@pytest.mark.parametrize("word", ["word ", "wortüber ", "字", "🎉", "\n"])
def test_a_hit_that_is_over_the_budget_by_itself_is_cut_between_words(corpus: sqlite3.Connection, word: str) -> None:
    [place] = say(corpus, 1, ["Anna: " + word * 2_000])
    [quote] = shown(corpus, [place], budget=100)
    [line] = quote.lines
    assert line.text.endswith(CUT)
    assert line.text.removesuffix(CUT) == (word * 2_000)[: len(line.text) - len(CUT)]
    assert word != "word " or line.text.endswith("word" + CUT)
    assert 90 <= len(f"Anna: {line.text}".encode()) / 4 <= 100


def test_a_budget_of_nothing_shows_nothing(corpus: sqlite3.Connection) -> None:
    say(corpus, 1, ["Anna: Hello"])
    assert shown(corpus, [place_of(1, 0)], budget=0) == []
    assert shown(corpus, [], budget=100) == []


sessions = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=1, max_size=3)


@pytest.mark.deep
@settings(max_examples=repeats(25, 300), deadline=None)
@given(sessions, st.data(), st.integers(0, 8), st.integers(10, 400))
def test_quotes_keep_to_their_scope_budget_and_limit_and_show_nothing_twice(
    lengths: Sequence[Sequence[int]], data: st.DataObject, limit: int, budget: int
) -> None:
    with corpora() as corpus:
        said = [
            place
            for session, each in enumerate(lengths, 1)
            for place in say(corpus, session, ["Anna: " + "word " * length for length in each])
        ]
        only = data.draw(st.none() | st.frozensets(st.sampled_from(said)))
        scope = scope_of(corpus, data.draw(st.frozensets(st.integers(1, 3))), only)
        ranked = order(*data.draw(st.permutations([place for place in said if scope.has(place)])))
        found, _ = quotes(corpus, ranked, scope, limit, budget)
        lines = [line for quote in found for line in quote.lines]
        assert all(scope.has(line.row) for line in lines)
        assert len({line.row for line in lines}) == len(lines)
        assert len(found) <= limit
        assert sum(-(-len(f"{line.speaker}: {line.text}".encode()) // 4) for line in lines) <= budget
        assert all(quote.row in {line.row for line in quote.lines} for quote in found)
        assert [quote.score.score for quote in found] == sorted((quote.score.score for quote in found), reverse=True)
        assert bool(found) == bool(ranked and limit and budget)


def test_an_excerpt_says_where_it_stands(corpus: sqlite3.Connection) -> None:
    _, place = file(corpus, "# House\n\nIt is old.\n\n## Attic\n\nThe attic is\ngreen.\n")
    [hit] = excerpts(corpus, [place])
    assert (hit.path, hit.start, hit.end, hit.heading, hit.text) == (
        "memory/1.md", 7, 8, "House > Attic", "The attic is\ngreen.",
    )  # fmt: skip


def test_passages_that_follow_one_another_are_one_excerpt_without_what_they_repeat(corpus: sqlite3.Connection) -> None:
    text = "\n".join(f"- line {number} of the long list of things" for number in range(60))
    places = file(corpus, f"# List\n\n{text}")
    assert len(places) > 2
    [hit] = excerpts(corpus, [places[1], places[2], places[0]], budget=10_000)
    assert hit.text == text[: len(hit.text)] and hit.end - hit.start + 1 == len(hit.text.splitlines())


def test_one_long_line_in_several_passages_is_shown_once(corpus: sqlite3.Connection) -> None:
    text = " ".join(str(number) for number in range(600))
    places = file(corpus, text)
    [hit] = excerpts(corpus, places, budget=10_000)
    assert hit.text.split() == text.split()


def test_passages_below_different_headings_stay_apart(corpus: sqlite3.Connection) -> None:
    first, second = file(corpus, "# Hall\nred\n# Attic\ngreen\n")
    other = file(corpus, "# Hall\nblue\n", 2)
    found = excerpts(corpus, [second, *other, first])
    assert [(hit.path, hit.heading) for hit in found] == [
        ("memory/1.md", "Attic"), ("memory/2.md", "Hall"), ("memory/1.md", "Hall"),
    ]  # fmt: skip
    assert len(excerpts(corpus, [second, *other, first], limit=2)) == 2
