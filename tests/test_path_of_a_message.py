"""The way of a plain message through the code: how many files and rooms it touches, and how often it changes file."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import goclaw
from tests.harness import Answer, World

ROOT = f"{Path(goclaw.__file__).parent}/"
MAX_FILES = 59
MAX_ROOMS = 7
MAX_CHANGES = 460
"""Little above what was measured on 2026-11-30 (58 files, 7 rooms, 456 changes): a new reader follows this way."""


@contextmanager
def traced() -> Iterator[list[str]]:
    """Collect the file, below the package, of every Python call of this thread and of threads that begin meanwhile."""
    files: list[str] = []

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            files.append(frame.f_code.co_filename.removeprefix(ROOT))

    before = sys.getprofile()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield files
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


async def test_a_plain_message_touches_few_files(tmp_path: Path) -> None:
    async with World(tmp_path, [Answer("Hello"), Answer("Hello again")]).running() as core:
        await core.say("hi")
        await core.settled()
        with traced() as files:
            await core.say("hi")
            await core.settled()
    touched = sorted(set(files))
    changes = sum(one != other for one, other in pairwise(files))
    assert "conversation/turns/turn.py" in touched and "durable/engine/outbox.py" in touched
    assert len(touched) <= MAX_FILES, touched
    assert len({file.partition("/")[0] for file in touched}) <= MAX_ROOMS, touched
    assert changes <= MAX_CHANGES
