"""Which texts lack a vector, and how vectors are kept, changed for others and forgotten."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from goclaw.memory.index import text_vectors
from goclaw.memory.index.schema import SCHEMA, Corpus


@pytest.fixture
def index() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        yield connection


def add(index: sqlite3.Connection, *texts: str, corpus: Corpus = "note") -> None:
    """Units of these texts; the tables are `schema`'s."""
    statement = f"INSERT INTO {corpus}_units (first, last, sha256, text) VALUES (1, 1, ?, ?)"  # noqa: S608 - two names
    index.executemany(statement, [(sha256(text), text) for text in texts])


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def missing(index: sqlite3.Connection, corpus: Corpus = "note", model: str = "small", limit: int = 10) -> list[str]:
    span = (1, text_vectors.newest(index, corpus))
    return [each.text for each in text_vectors.missing(index, corpus, model, span, limit).missing]


def embed(index: sqlite3.Connection, *texts: str, model: str = "small") -> None:
    text_vectors.store(index, model, {sha256(text): model.encode() for text in texts})


def test_the_newest_texts_without_a_vector_come_first(index: sqlite3.Connection) -> None:
    add(index, "one", "two", "three", "four")
    text_vectors.announce(index, "small", "fake:small")
    embed(index, "three")
    assert missing(index) == ["four", "two", "one"]
    assert missing(index, limit=2) == ["four", "two"]
    assert missing(index, model="large") == ["four", "three", "two", "one"]
    assert missing(index, "talk") == []


def test_a_look_goes_on_where_the_last_one_ended(index: sqlite3.Connection) -> None:
    add(index, *(f"text {number}" for number in range(text_vectors.LOOKED_AT + 5)))
    text_vectors.announce(index, "small", "fake:small")
    embed(index, *(f"text {number}" for number in range(3, text_vectors.LOOKED_AT + 5)))
    first = text_vectors.missing(index, "note", "small", (1, text_vectors.newest(index, "note")), 10)
    assert (first.missing, first.down_to) == ([], 6)
    second = text_vectors.missing(index, "note", "small", (1, first.down_to - 1), 2)
    assert ([each.text for each in second.missing], second.down_to) == (["text 2", "text 1"], 2)
    third = text_vectors.missing(index, "note", "small", (1, second.down_to - 1), 2)
    assert ([each.text for each in third.missing], third.down_to) == (["text 0"], 1)


def test_a_text_that_stands_in_two_places_is_embedded_once(index: sqlite3.Connection) -> None:
    add(index, "same", "other", "same")
    text_vectors.announce(index, "small", "fake:small")
    assert missing(index) == ["same", "other"]
    embed(index, "same")
    assert missing(index) == ["other"]
    assert text_vectors.count(index, "note", "small", (1, 3)) == text_vectors.Count(embedded=2, units=3)


def test_the_first_model_serves_from_its_first_vector_on_and_a_second_one_waits(index: sqlite3.Connection) -> None:
    assert text_vectors.serving(index) is None
    small, large = (
        text_vectors.VectorModel("small", "fake:small", serving=True),
        text_vectors.VectorModel("large", "fake:large", serving=False),
    )
    assert text_vectors.announce(index, "small", "fake:small") == [small]
    assert text_vectors.announce(index, "large", "fake:large") == [small, large]
    assert text_vectors.announce(index, "small", "fake:small") == [small, large]
    text_vectors.switch(index, "large")
    assert text_vectors.serving(index) == text_vectors.VectorModel("large", "fake:large", serving=True)
    assert [model.serving for model in text_vectors.models(index)] == [False, True]


def test_vectors_of_a_model_that_nobody_knows_are_not_kept(index: sqlite3.Connection) -> None:
    add(index, "one")
    embed(index, "one", model="forgotten")
    assert index.execute("SELECT count(*) FROM vectors").fetchone() == (0,)


def test_models_that_neither_serve_nor_come_go_a_portion_at_a_time(index: sqlite3.Connection) -> None:
    add(index, "one", "two", "three")
    for model in ("old", "small", "large"):
        text_vectors.announce(index, model, f"fake:{model}")
        embed(index, "one", "two", "three", model=model)
    text_vectors.switch(index, "small")
    assert text_vectors.drop_others(index, ["large"], 2)
    assert index.execute("SELECT count(*) FROM vectors").fetchone() == (7,)
    assert text_vectors.drop_others(index, ["large"], 2)
    assert not text_vectors.drop_others(index, ["large"], 2)
    assert [model.name for model in text_vectors.models(index)] == ["small", "large"]
    assert index.execute("SELECT count(*) FROM vectors").fetchone() == (6,)


def test_vectors_of_texts_that_are_gone_are_swept(index: sqlite3.Connection) -> None:
    add(index, "a note")
    add(index, "a window", corpus="talk")
    text_vectors.announce(index, "small", "fake:small")
    embed(index, "a note", "a window", "gone", "gone, too")
    after: bytes | None = b""
    steps = 0
    while after is not None:
        after = text_vectors.sweep(index, after, 1)
        steps += 1
    assert steps == 5
    kept = {key for (key,) in index.execute("SELECT sha256 FROM vectors")}
    assert kept == {sha256("a note"), sha256("a window")}


def test_vectors_are_taken_to_another_file_in_portions(index: sqlite3.Connection) -> None:
    text_vectors.announce(index, "small", "fake:small")
    texts = ["one", "two", "three"]
    embed(index, *texts)
    first = text_vectors.next_vectors(index, "small", b"", 2)
    rest = text_vectors.next_vectors(index, "small", first[-1][0], 2)
    assert dict(first + rest) == {sha256(text): b"small" for text in texts}
    assert len(rest) == 1


def test_places_of_units_that_come_with_a_vector_or_go_are_told_once(index: sqlite3.Connection) -> None:
    add(index, "new", "known")
    text_vectors.announce(index, "small", "fake:small")
    assert text_vectors.list_touches(index, "note", 0) == ([], 0)
    embed(index, "known")
    add(index, "new, too")
    index.execute("INSERT INTO note_units (first, last, sha256, text) VALUES (20, 22, ?, 'known')", (sha256("known"),))
    index.execute("DELETE FROM note_units WHERE text = 'new'")
    ranges, step = text_vectors.list_touches(index, "note", 0)
    assert ranges == [(1, 1), (20, 22)]
    assert text_vectors.list_touches(index, "note", step) == ([], step)
    assert text_vectors.last_touch(index, "note") == step
    text_vectors.forget_touched(index, "note", step)
    assert text_vectors.list_touches(index, "note", 0) == ([], 0)
    assert text_vectors.last_touch(index, "note") == step
    assert text_vectors.last_touch(index, "talk") == 0


def test_units_within_places_are_those_that_reach_out_of_them_nowhere(index: sqlite3.Connection) -> None:
    text_vectors.announce(index, "small", "fake:small")
    spans = [(1, 3), (3, 5), (5, 5), (5, 9)]
    index.executemany(
        "INSERT INTO talk_units (first, last, sha256, text) VALUES (?, ?, ?, '')",
        [(first, last, sha256(f"{first} {last}")) for first, last in spans],
    )
    embed(index, *(f"{first} {last}" for first, last in spans))
    found = text_vectors.units_within(index, "talk", "small", [(1, 2), (3, 5)])
    assert [(unit.first, unit.last) for unit in found] == [(3, 5), (5, 5)]
    assert text_vectors.units_within(index, "talk", "large", [(1, 9)]) == []
