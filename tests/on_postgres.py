"""`pytest --store postgres`: every database that a test opens or reads is a schema of Postgres, named after the file.

Each worker has a server of its own: the feed of transcripts waits for all transactions of a server, also those of
another test. What a test opens by `open_file` stays a file of SQLite. Left out is what has the marker `sqlite`, and
what kills at every write by `tests.kills`, which copies the file.
"""

import hashlib
import inspect
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

import pytest

from goclaw.config.values import PostgresPlace
from goclaw.core.clock import Clock
from goclaw.store import open as opening
from goclaw.store.database import BoundStatement, Database, Row
from goclaw.store.sqlite.recovery import CLOCK
from tests.postgres import NEWEST, running

URL = "TESTS_POSTGRES"
"""Variable with the address of the server, for processes that tests start."""
MAJOR = "TESTS_POSTGRES_MAJOR"
"""Variable with the major to run on; not set: the newest one."""
_stack = ExitStack()


def begin() -> None:
    """Start the server, and have `goclaw.store.open` use it."""
    server = _stack.enter_context(running(int(os.environ.get(MAJOR, NEWEST))))
    os.environ[URL] = server.url
    _stack.callback(os.environ.pop, URL)
    vars(opening).update(open_file=_open_schema_of, read_file=_read_schema_of)


def end() -> None:
    """End the server that this process started."""
    _stack.close()


def is_about_a_file(item: pytest.Item) -> bool:
    """Whether a test cannot be run on Postgres."""
    if item.get_closest_marker("sqlite"):
        return True
    function = getattr(item, "function", None)
    return function is not None and "recorded" in inspect.unwrap(function).__code__.co_names


def place_of(path: Path) -> PostgresPlace:
    """The schema that stands for a file."""
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:20]
    return PostgresPlace.of(f"{os.environ[URL]}?schema=f_{name}")


def _open_schema_of(path: Path, clock: Clock = CLOCK) -> AbstractAsyncContextManager[Database]:
    return opening.postgres().open(place_of(path), clock)


def _read_schema_of(path: Path, statements: Sequence[BoundStatement]) -> list[Sequence[Row]]:
    return opening.postgres().read(place_of(path), statements)
