"""How long the memory index takes to forget a conversation, with large notes beside it and without."""

import random
import sqlite3
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure, Options
from goclaw.memory.chunks import Chunk
from goclaw.memory.index import notes, talk
from goclaw.memory.index.database import IndexFile, open_index
from goclaw.memory.index.talk import IndexedRow

MEGABYTES = 200
"""Of notes."""
FORGOTTEN, KEPT = 1_000, 4_000
"""Messages of the conversation that is forgotten, and of the others."""
WORDS, PASSAGE, PASSAGES = 8_000, 180, 20
"""Words there are, of a passage, and passages of a note."""


async def measure_forgetting(options: Options) -> list[Figure]:
    """Forget 1,000 messages of 5,000, without notes and beside 200 MB of them, until no file has their words."""
    megabytes = MEGABYTES // 10 if options.quick else MEGABYTES
    alone, small = await _forget(0)
    beside, large = await _forget(megabytes)
    detail = {"without notes": round(alone, 2), "beside them": round(beside, 2), "bytes": [small, large]}
    name = f"to forget {FORGOTTEN:,} messages beside {megabytes} MB of notes"
    return [
        Figure(f"{name}, of the time without them", "x", beside / alone, 2, detail=detail),
        Figure(name, "s", beside),
    ]


async def _forget(megabytes: int) -> tuple[float, int]:
    """Return the seconds that forgetting takes, and the size of the index before."""
    with tempfile.TemporaryDirectory(prefix="goclaw-forgetting-") as folder:
        path = Path(folder) / "memory.db"
        async with open_index(path) as index:
            chance = random.Random(7)
            await _take_notes(index, megabytes, chance)
            await _speak(index, chance)
            size = path.stat().st_size
            began = time.perf_counter()
            while await index.write(partial(talk.forget, session="forgotten")):
                pass
            if not await index.rewrite():
                raise RuntimeError("the index was not rewritten")
            seconds = time.perf_counter() - began
        left = _holding(Path(folder), b"pomegranate")
        if left:
            raise RuntimeError(f"the words are still in {', '.join(left)}")
        return seconds, size


async def _take_notes(index: IndexFile, megabytes: int, chance: random.Random) -> None:
    for number in range(megabytes * 1_000_000 // (PASSAGES * PASSAGE * 7)):
        passages = [Chunk(part, part, "", _text(chance, PASSAGE)) for part in range(1, PASSAGES + 1)]
        note = notes.IndexedNote(f"{number}.md", notes.FileVersion(1, number, 1), "sha", PASSAGES, passages)
        await index.write(partial(_put_note, note=note))


def _put_note(connection: sqlite3.Connection, note: notes.IndexedNote) -> None:
    notes.put(connection, "workspace", [note])


async def _speak(index: IndexFile, chance: random.Random) -> None:
    every = (FORGOTTEN + KEPT) // FORGOTTEN
    rows = [
        IndexedRow(row, "forgotten", "t", "user", f"pomegranate{row} {_text(chance, 60)}", "Ann", "tui:ann", row)
        if row % every == 0
        else IndexedRow(row, "kept", "t", "user", _text(chance, 60), "Ann", "tui:ann", row)
        for row in range(1, FORGOTTEN + KEPT + 1)
    ]
    for first in range(0, len(rows), 100):
        await index.write(partial(talk.put, rows=rows[first : first + 100], newest=False))


def _text(chance: random.Random, words: int) -> str:
    return " ".join(f"word{chance.randrange(WORDS)}"[:9] for _ in range(words))


def _holding(folder: Path, word: bytes) -> list[str]:
    return [each.name for each in folder.iterdir() if _holds(each, word)]


def _holds(path: Path, word: bytes) -> bool:
    before = b""
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            if word in before + piece:
                return True
            before = piece[-len(word) :]
    return False
