"""The corpus of notes: what stays, what goes, and whose it is."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from goclaw.memory import searching
from goclaw.memory.base import MemoryFile
from goclaw.memory.chunks import Chunk, chunk_markdown
from goclaw.memory.index import notes
from goclaw.memory.index.notes import FileVersion, IndexedNote
from goclaw.memory.index.schema import SCHEMA, Scope, place_of
from goclaw.memory.searching import PassageText

VERSION = FileVersion(1.5, 7, 9)
ROOMS = ("Hall", "Attic", "Cellar", "Garden")


@pytest.fixture
def corpus() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        yield connection


def house(
    *rooms: str, path: str = "memory/house.md", lines_above: int = 0, version: FileVersion = VERSION
) -> IndexedNote:
    """A file with a passage for each room."""
    passages = [
        Chunk(lines_above + 2 * number + 1, lines_above + 2 * number + 2, room, f"The {room.lower()} is green.")
        for number, room in enumerate(rooms)
    ]
    return IndexedNote(path, version, f"sha of {rooms}", 2 * len(rooms), passages)


def put(corpus: sqlite3.Connection, *documents: IndexedNote, workspace: str = "/w") -> int:
    """Put all of them; returns in how many calls."""
    left: Sequence[IndexedNote] = documents
    calls = 0
    while left:
        calls += 1
        left = notes.put(corpus, workspace, left)
    return calls


def found(corpus: sqlite3.Connection, word: str, table: str = "note_words") -> list[int]:
    rows = corpus.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid", (f'"{word}"',))  # noqa: S608 - ours
    return [place for (place,) in rows]


def units(corpus: sqlite3.Connection) -> dict[int, tuple[int, str]]:
    """By place the number and the text."""
    return {
        first: (number, text)
        for number, first, last, text in corpus.execute("SELECT id, first, last, text FROM note_units")
        if first == last
    }


def totals(corpus: sqlite3.Connection) -> tuple[int, int]:
    [row] = corpus.execute("SELECT passages, words FROM note_documents")
    return row[0], row[1]


def times(corpus: sqlite3.Connection) -> list[float]:
    """Which times of change the passages tell."""
    return [told for (told,) in corpus.execute("SELECT DISTINCT told FROM note_passages")]


def check(corpus: sqlite3.Connection) -> None:
    """Whether the full-text tables hold exactly what the passages say; passages without parts are in the one only."""
    corpus.execute("INSERT INTO note_words (note_words, rank) VALUES ('integrity-check', 1)")
    corpus.execute("INSERT INTO note_parts (note_parts) VALUES ('integrity-check')")


def test_passages_stand_at_consecutive_places_with_a_unit_each(corpus: sqlite3.Connection) -> None:
    put(corpus, house("Hall", "Attic"))
    assert found(corpus, "green") == [place_of(1, 0), place_of(1, 1)]
    assert found(corpus, "attics") == [place_of(1, 1)]
    assert {place: text for place, (_, text) in units(corpus).items()} == {
        place_of(1, 0): "Hall\nThe hall is green.",
        place_of(1, 1): "Attic\nThe attic is green.",
    }
    assert totals(corpus) == (2, 8)
    assert notes.versions(corpus, "/w") == {"memory/house.md": (VERSION, "sha of ('Hall', 'Attic')")}


def test_what_stands_where_it_stood_keeps_its_unit(corpus: sqlite3.Connection) -> None:
    put(corpus, house("Hall", "Attic", "Cellar"))
    before = units(corpus)
    put(corpus, house("Hall", "Garden", "Cellar", lines_above=3, version=FileVersion(2.5, 8, 10)))
    after = units(corpus)
    kept = [place for place in before if before[place] == after[place]]
    assert kept == [place_of(1, 0), place_of(1, 2)]
    assert (found(corpus, "attic"), found(corpus, "garden")) == ([], [place_of(1, 1)])
    shown = searching.texts(corpus, "note", [place_of(1, 2), place_of(9, 9)])
    cellar = PassageText(place_of(1, 2), 0, 8, 9, 2.5, "", "Cellar", "The cellar is green.")
    assert shown == {cellar.place: cellar}
    assert times(corpus) == [2.5]
    check(corpus)


def test_a_shorter_file_leaves_nothing_behind(corpus: sqlite3.Connection) -> None:
    put(corpus, house(*ROOMS))
    put(corpus, house("Cellar"))
    assert found(corpus, "green") == [place_of(1, 0)]
    assert list(units(corpus)) == [place_of(1, 0)]
    assert totals(corpus) == (1, 4)
    put(corpus, house())
    assert (found(corpus, "green"), units(corpus), totals(corpus)) == ([], {}, (0, 0))
    check(corpus)


def test_a_large_file_is_written_and_removed_in_bounded_steps(
    corpus: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "ROWS_AT_ONCE", 3)
    rooms = [f"Room{number}" for number in range(10)]
    [left] = notes.put(corpus, "/w", [house(*rooms)])
    assert len(found(corpus, "green")) == 3
    assert notes.versions(corpus, "/w")["memory/house.md"][1] == ""  # what was cut off here is read again
    put(corpus, left)
    assert len(found(corpus, "green")) == 10
    assert notes.versions(corpus, "/w")["memory/house.md"][1] == f"sha of {tuple(rooms)}"
    assert totals(corpus) == (10, 40)
    assert put(corpus, house("Hall")) == 4
    assert totals(corpus) == (1, 4)
    put(corpus, house(*rooms))
    paths: Sequence[str] = ["memory/house.md"]
    calls = 0
    while paths:
        before = len(found(corpus, "green"))
        paths = notes.remove(corpus, "/w", paths)
        assert before - len(found(corpus, "green")) <= 3
        calls += 1
    assert calls == 4
    assert (notes.versions(corpus, "/w"), units(corpus)) == ({}, {})
    check(corpus)


def test_several_files_share_a_step(corpus: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "ROWS_AT_ONCE", 5)
    documents = [house(*ROOMS[:2], path=f"memory/{number}.md") for number in range(6)]
    assert put(corpus, *documents) == 3
    assert len(found(corpus, "green")) == 12
    assert all(sha256 for _, sha256 in notes.versions(corpus, "/w").values())


def test_a_removed_file_is_forgotten_and_its_number_not_used_again(corpus: sqlite3.Connection) -> None:
    put(corpus, house("Hall"))
    assert notes.remove(corpus, "/w", ["memory/house.md", "memory/never.md"]) == ()
    assert notes.files(corpus, "/w", "") == []
    assert searching.texts(corpus, "note", [place_of(1, 0)]) == {}
    put(corpus, house("Hall"))
    assert found(corpus, "green") == [place_of(2, 0)]


def test_a_touched_file_keeps_its_passages_and_tells_its_new_time(corpus: sqlite3.Connection) -> None:
    put(corpus, house("Hall"))
    notes.touch(corpus, "/w", {"memory/house.md": FileVersion(3.5, 8, 9), "memory/never.md": VERSION})
    assert notes.versions(corpus, "/w") == {"memory/house.md": (FileVersion(3.5, 8, 9), "sha of ('Hall',)")}
    assert notes.files(corpus, "/w", "") == [MemoryFile("memory/house.md", 9, 2, 3.5)]
    assert times(corpus) == [3.5]


def test_workspaces_do_not_mix(corpus: sqlite3.Connection) -> None:
    put(corpus, house("Hall"))
    put(corpus, house("Attic"), workspace="/other")
    assert notes.scope(corpus, "/w", "").ranges == [(place_of(1, 0), place_of(2, 0) - 1)]
    assert notes.scope(corpus, "/other", "").ranges == [(place_of(2, 0), place_of(3, 0) - 1)]
    assert notes.scope(corpus, "/none", "") == Scope([], 0, 0)
    notes.remove(corpus, "/other", ["memory/house.md"])
    assert found(corpus, "green") == [place_of(1, 0)]


@pytest.mark.promise("P-memory-own-notes")
def test_a_persons_notes_are_in_nobody_elses_scope(corpus: sqlite3.Connection) -> None:
    shared = [house("Hall", path="memory/a.md"), house("Hall", "Attic", path="memory/b.md")]
    annas, berts = (house("Cellar", path=f"memory/users/telegram:{number}/c.md") for number in (5, 6))
    put(corpus, *shared, annas, berts, house("Garden", path="MEMORY.md"))
    both, own, last = (place_of(1, 0), place_of(3, 0) - 1), place_of(4, 0) - 1, (place_of(5, 0), place_of(6, 0) - 1)
    assert notes.scope(corpus, "/w", "telegram:5") == Scope([(both[0], own), last], 5, 20)
    assert notes.scope(corpus, "/w", "telegram:6").ranges == [both, (place_of(4, 0), last[1])]
    assert notes.scope(corpus, "/w", "") == Scope([both, last], 4, 16)
    assert [file.path for file in notes.files(corpus, "/w", "telegram:6")] == [
        "MEMORY.md",
        "memory/a.md",
        "memory/b.md",
        "memory/users/telegram:6/c.md",
    ]


def test_identifiers_are_found_by_any_part_and_the_day_in_a_name_by_its_words(corpus: sqlite3.Connection) -> None:
    text = "Call `HTTPServer.getUserName()` or write to anna.smith@example.com."
    put(corpus, IndexedNote("memory/2026-11-20.md", VERSION, "x", 1, chunk_markdown(text)))
    for part in ("rver.ge", "getuser", "smith@exam", "ple.com"):
        assert found(corpus, part, "note_parts") == [place_of(1, 0)]
    assert found(corpus, "2026-11-20") == [place_of(1, 0)]


def test_a_failure_in_the_middle_changes_nothing_when_it_is_rolled_back(corpus: sqlite3.Connection) -> None:
    put(corpus, house("Hall"))
    corpus.commit()
    with pytest.raises(UnicodeEncodeError):
        notes.put(corpus, "/w", [house("Attic"), house("\ud800", path="memory/b.md")])
    corpus.rollback()
    assert (found(corpus, "hall"), found(corpus, "attic")) == ([place_of(1, 0)], [])
    check(corpus)
