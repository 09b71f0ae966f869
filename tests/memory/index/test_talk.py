"""Conversations on their corpus: places, windows that grow, what a search may look at, and what is forgotten."""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.memory.base import Talk, TranscriptQuery
from goclaw.memory.chunks import chunk_messages
from goclaw.memory.index import talk
from goclaw.memory.index.schema import SCHEMA, place_of
from goclaw.memory.index.talk import IndexedRow
from goclaw.memory.index.windows import line_of
from goclaw.memory.ranking import REACH
from tests.lanes import repeats

HERE, ANNA, BERT = "telegram:5", "telegram:5", "telegram:6"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0


def opened() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA)
    return connection


@pytest.fixture
def index() -> Iterator[sqlite3.Connection]:
    connection = opened()
    yield connection
    connection.close()


def said(row: int, text: str, **changed: object) -> IndexedRow:
    """Something that Anna says, a minute after the row before."""
    known = {"session": HERE, "turn": f"t{row}", "role": "user", "speaker": "Anna", "sender": ANNA}
    return IndexedRow(**{"row": row, "text": text, "at": NOON + 60.0 * row, **known, **changed})  # type: ignore[arg-type]  # a test's own


def passages(index: sqlite3.Connection) -> list[tuple[int, int, str]]:
    return index.execute("SELECT place, row, text FROM talk_passages ORDER BY place").fetchall()


def units(index: sqlite3.Connection) -> list[tuple[int, int, str]]:
    return index.execute("SELECT first, last, text FROM talk_units ORDER BY first, last").fetchall()


def cut_at_once(index: sqlite3.Connection) -> list[tuple[int, int, str]]:
    """The windows over what is there, session by session."""
    rows = index.execute("SELECT place, speaker, heading, text FROM talk_passages ORDER BY place")
    return [(window.start, window.end, window.text) for window in chunk_messages(line_of(*row) for row in rows)]


def found(index: sqlite3.Connection, word: str) -> list[int]:
    return [row for (row,) in index.execute("SELECT rowid FROM talk_words WHERE talk_words MATCH ?", (word,))]


def looked_at(index: sqlite3.Connection, *sessions: str, **wanted: object) -> list[int]:
    """The rows that a search may look at."""
    scope = talk.scope(index, TranscriptQuery("x", sessions or (HERE,), **wanted))  # type: ignore[arg-type]  # a test's own
    return [
        row
        for place, row, _ in passages(index)
        if any(first <= place <= last for first, last in scope.ranges)
        and (scope.only is None or place in scope.only)
        and place not in scope.but
    ]


def test_messages_of_a_session_have_consecutive_places_however_they_come(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "one"), said(2, "elsewhere", session="b"), said(3, "two")])
    talk.put(index, [said(4, "three")])
    assert passages(index) == [
        (place_of(1, 0), 1, "one"),
        (place_of(1, 1), 3, "two"),
        (place_of(1, 2), 4, "three"),
        (place_of(2, 0), 2, "elsewhere"),
    ]
    assert talk.highest_row(index) == 4


def test_what_was_taken_in_before_is_left_out(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "one"), said(2, "two")])
    talk.put(index, [said(1, "one"), said(2, "two"), said(3, "three")])
    assert [row for _, row, _ in passages(index)] == [1, 2, 3]
    talk.put(index, [])
    assert talk.highest_row(index) == 3


def test_nobody_is_a_neighbour_across_an_hour_of_silence(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "one"), said(2, "two", at=NOON + 3_700), said(3, "three", at=NOON + 7_200)])
    first, second, third = (place for place, _, _ in passages(index))
    assert second - first > REACH and third == second + 1
    assert [text for _, _, text in units(index)] == ["Anna: one", "Anna: two\nAnna: three"]


def test_a_long_message_is_several_passages_that_together_are_all_of_it(index: sqlite3.Connection) -> None:
    text = " ".join(f"word{number}" for number in range(1_000))
    talk.put(index, [said(1, text), said(2, "short")])
    rows = index.execute("SELECT first, last, text FROM talk_passages WHERE row = 1 ORDER BY place").fetchall()
    assert len(rows) > 5 and all(len(part) <= 800 for _, _, part in rows)
    assert " ".join(part for _, _, part in rows) == text
    assert rows[0][0] == 0 and rows[-1][1] == len(text)
    assert all(one[1] == other[0] for one, other in pairwise(rows))


def test_a_result_is_one_passage_of_what_the_call_did_and_how_it_begins(index: sqlite3.Connection) -> None:
    result = said(1, "x " * 5_000, role="tool_result", speaker="exec", sender="", heading="Ran make test")
    talk.put(index, [result])
    [(heading, text)] = index.execute("SELECT heading, text FROM talk_passages")
    assert heading == "Ran make test" and len(text) < talk.RESULT_CHARACTERS
    assert found(index, "make") and units(index)[0][2].startswith("exec (Ran make test): x x")
    assert talk.talks(index) == [Talk(HERE, frozenset())]


def test_what_has_no_text_is_no_passage_but_was_taken_in(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, ""), said(2, " \n"), said(3, "\u200bthree", sender=BERT)])
    assert [row for _, row, _ in passages(index)] == [3]
    assert talk.extents(index) == {HERE: (1, 3)} and talk.talks(index) == [Talk(HERE, frozenset({ANNA, BERT}))]


def test_parts_of_identifiers_and_signs_of_unspaced_scripts_are_kept_for_searches(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "call getUserName in app_core.py"), said(2, "我们在公司开会")])
    [(extra, parts), (chinese, _)] = index.execute("SELECT extra, parts FROM talk_passages ORDER BY place")
    assert "Name" in extra and "app_core.py" in parts and "公司" in chinese


def test_who_asks_is_noted_and_tools_ask_nothing(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "When?"), said(2, "Now."), said(3, "why?", role="tool_result"), said(4, "几点？ ")])
    assert [asks for (asks,) in index.execute("SELECT asks FROM talk_passages ORDER BY place")] == [1, 0, 0, 1]


TEXTS = st.sampled_from(
    ["ok", "two words", "a line\nand another", "x" * 300, "long words " * 40, "漢字" * 200, "w " * 900]
)
BATCHES = st.lists(st.lists(st.tuples(TEXTS, st.sampled_from([1.0, 60.0, 4_000.0, -500.0]), st.booleans()), max_size=6))


def story(batches: Sequence[Sequence[tuple[str, float, bool]]]) -> list[list[IndexedRow]]:
    rows: list[list[IndexedRow]] = []
    number, at = 0, NOON
    for batch in batches:
        rows.append([])
        for text, pause, elsewhere in batch:
            number, at = number + 1, at + pause
            rows[-1].append(said(number, text, at=at, session="b" if elsewhere else HERE))
    return rows


@pytest.mark.deep
@settings(max_examples=repeats(30, 300))
@given(BATCHES)
def test_windows_that_grow_are_those_that_one_cut_would_give(
    batches: Sequence[Sequence[tuple[str, float, bool]]],
) -> None:
    index = opened()
    for batch in story(batches):
        talk.put(index, batch)
    assert units(index) == sorted(cut_at_once(index))
    index.close()


@pytest.mark.deep
@settings(max_examples=repeats(30, 300))
@given(BATCHES, st.integers(0, 40), st.integers(0, 40))
def test_after_forgetting_every_passage_has_a_window_and_no_window_a_forgotten_word(
    batches: Sequence[Sequence[tuple[str, float, bool]]], before: int, last: int
) -> None:
    index = opened()
    rows = story(batches)
    for batch in rows:
        talk.put(index, [said for said in batch if said.row <= last])
    assert not talk.forget(index, HERE, before)
    for batch in rows:
        talk.put(index, batch)
    left = {row: place for place, row, _ in passages(index)}
    here = [said.row for batch in rows for said in batch if said.session == HERE]
    assert not [row for row in here if row < before and row <= last and row in left]
    assert [row for row in here if row >= before] == [row for row in here if row >= before and row in left]
    places = {place for place, _, _ in passages(index)}
    assert places == {place for first, end, _ in units(index) for place in range(first, end + 1)}
    assert check(index)
    index.close()


def check(index: sqlite3.Connection) -> bool:
    """Whether the words' table has what the passages have, and each conversation knows its sums."""
    index.execute("INSERT INTO talk_words (talk_words, rank) VALUES ('integrity-check', 1)")
    # Passages without any have no row there, which the comparison with the passages would take for damage.
    index.execute("INSERT INTO talk_parts (talk_parts, rank) VALUES ('integrity-check', 0)")
    sums = index.execute(
        "SELECT passages, words, (SELECT count(*) FROM talk_passages WHERE place >> 24 = id), "
        "(SELECT total(words) FROM talk_passages WHERE place >> 24 = id) FROM talk_documents"
    )
    return all(row[:2] == row[2:] for row in sums)


def test_a_message_more_costs_the_same_however_long_the_conversation_is(index: sqlite3.Connection) -> None:
    def cost(row: int) -> int:
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        index.set_progress_handler(step, 1)
        talk.put(index, [said(row, f"message number {row} of a long conversation")])
        index.set_progress_handler(None, 0)
        return steps

    early = max(cost(row) for row in range(1, 30))
    for row in range(30, 2_000):
        talk.put(index, [said(row, f"message number {row} of a long conversation")])
    assert max(cost(row) for row in range(2_000, 2_030)) < 2 * early


def test_a_window_that_did_not_change_keeps_its_unit_and_a_vector_goes_with_the_last_text_of_its_kind(
    index: sqlite3.Connection,
) -> None:
    talk.put(index, [said(1, "one")])
    [(first, digest)] = index.execute("SELECT id, sha256 FROM talk_units").fetchall()
    index.execute("INSERT INTO vectors VALUES (?, 1, x'01')", (digest,))
    talk.put(index, [said(2, "two", at=NOON + 9_000)])
    assert index.execute("SELECT min(id) FROM talk_units").fetchone() == (first,)
    talk.put(index, [said(3, "one", session="b", at=NOON + 9_000)])
    talk.forget(index, HERE)
    assert index.execute("SELECT count(*) FROM vectors").fetchone() == (1,), "another session says the same"
    talk.forget(index, "b")
    assert index.execute("SELECT count(*) FROM vectors").fetchone() == (0,)


def test_nothing_is_left_of_a_forgotten_conversation(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "apple pie"), said(2, "berry", session="b", sender=BERT, speaker="Bert")])
    assert not talk.forget(index, HERE) and not talk.forget(index, "unknown")
    everything = "\n".join(index.iterdump())
    assert "apple" not in everything and "Anna" not in everything and HERE not in everything
    assert talk.talks(index) == [Talk("b", frozenset({BERT}))] and check(index)
    talk.put(index, [said(3, "anew")])
    assert [place for place, row, _ in passages(index) if row == 3] == [place_of(3, 0)], "no number is used twice"


def test_a_long_conversation_is_forgotten_in_steps(index: sqlite3.Connection) -> None:
    talk.put(index, [said(row, f"apple {row}") for row in range(1, 1_201)])
    steps = 0
    while talk.forget(index, HERE, 1_101):
        steps += 1
        assert check(index)
    assert steps == 2 and [row for _, row, _ in passages(index)] == list(range(1_101, 1_201))
    assert talk.extents(index) == {HERE: (1_101, 1_200)}


def test_only_the_wanted_sessions_are_looked_at(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "a"), said(2, "b", session="b"), said(3, "c", session="c")])
    assert looked_at(index, "c", HERE, "unknown") == [1, 3]
    assert looked_at(index, "unknown") == [] and talk.scope(index, TranscriptQuery("x", ())).ranges == ()


def test_the_scope_knows_how_much_there_is_in_it(index: sqlite3.Connection) -> None:
    talk.put(index, [said(row, "two words", at=NOON + DAY * row) for row in range(10)][1:])
    whole = talk.scope(index, TranscriptQuery("x", (HERE,)))
    assert (whole.passages, whole.words, whole.usual) == (9, 18, 2.0)
    assert talk.scope(index, TranscriptQuery("x", (HERE,), since=date(2026, 11, 28))).usual == 2.0


@pytest.mark.parametrize("jumped", [False, True], ids=["in order", "the clock was set back"])
def test_days_limit_what_is_looked_at(index: sqlite3.Connection, jumped: bool) -> None:
    times = [NOON + DAY * row for row in range(7)]
    if jumped:
        times[3], times[5] = times[5], times[3]
    talk.put(index, [said(row, "x", at=at) for row, at in enumerate(times, 1)])
    for first in range(-1, 8):
        for last in range(-1, 8):
            since, until = (date(2026, 11, 20) + timedelta(days=days) for days in (first, last))
            expected = [row for row, at in enumerate(times, 1) if NOON + DAY * first <= at <= NOON + DAY * last]
            assert looked_at(index, since=since, until=until) == expected
    assert looked_at(index, until=date(2026, 11, 21)) == [1, 2]


def test_a_day_begins_and_ends_at_midnight(index: sqlite3.Connection) -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
    talk.put(index, [said(1, "late", at=midnight - 1), said(2, "early", at=midnight)])
    assert looked_at(index, since=date(2026, 11, 21)) == [2] and looked_at(index, until=date(2026, 11, 20)) == [1]


def test_only_what_somebody_said_is_looked_at_by_key_by_name_or_by_a_part_of_it(index: sqlite3.Connection) -> None:
    agent = {"role": "assistant", "speaker": "GoClaw", "sender": ""}
    talk.put(
        index,
        [
            said(1, "a", speaker="Anna Berg"),
            said(2, "b", **agent),
            said(3, "c", speaker="Bert", sender=BERT),
            said(4, "d", speaker="Anna"),
            said(5, "e", speaker="Anna", sender="tui:anna", session="b"),
        ],
    )
    assert looked_at(index, speaker=ANNA) == [1, 4]
    assert looked_at(index, HERE, "b", speaker="anna") == [4, 5] and looked_at(index, speaker="anna") == [4]
    assert looked_at(index, speaker="berg") == [1] and looked_at(index, speaker="Berg Anna") == [1]
    assert looked_at(index, speaker="goclaw") == [2] and looked_at(index, speaker="Carla") == []


def test_the_asking_turn_is_left_out_with_the_agents_that_work_in_it(index: sqlite3.Connection) -> None:
    agent = f"{HERE}/agent:x"
    talk.put(
        index,
        [
            said(1, "before", turn="t1"),
            said(2, "the question", turn="t2"),
            said(3, "the task", turn="t2:agent:x", session=agent),
            said(4, "another", turn="t22"),
        ],
    )
    assert looked_at(index, HERE, agent, but_turn="t2") == [1, 4]
    assert looked_at(index, HERE, agent, but_turn="t2:agent:x") == [1, 4]


def test_who_wrote_in_a_conversation_wrote_in_those_of_its_agents(index: sqlite3.Connection) -> None:
    talk.put(index, [said(1, "a"), said(2, "task", session=f"{HERE}/agent:x", sender="", speaker="GoClaw")])
    assert talk.talks(index) == [Talk(HERE, frozenset({ANNA})), Talk(f"{HERE}/agent:x", frozenset({ANNA}))]
