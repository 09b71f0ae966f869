"""`pytest --store postgres`: every database that a test opens or reads is a schema of Postgres, named after the file.

`--store postgres-oldest` is the same on the oldest major that the tests run on. Each worker has a server of its own:
the feed of transcripts waits for all transactions of a server, also those of another test. Daemons of
`tests.acceptance` get such a schema as their setting `store`. What a test opens by `open_file` stays a file of SQLite.

Skipped is what has the marker `sqlite`, and what kills at every write by `tests.kills`, which copies the file. Left out
is what cannot open a database, by what it imports and by its fixtures: it says the same as with SQLite.
"""

import hashlib
import inspect
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock, SteppedClock
from goclaw.durable.store import open as opening
from goclaw.durable.store.database import BoundStatement, Database, Row
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.sqlite.recovery import CLOCK
from tests import house
from tests.postgres import NEWEST, OLDEST, running

URL = "TESTS_POSTGRES"
"""Variable with the address of the server, for processes that tests start."""
MAJORS = {"postgres": NEWEST, "postgres-oldest": OLDEST}
"""The choices of `--store` beside SQLite, each with its major."""
_OPENERS = ("goclaw.durable.store.open", "goclaw.program.app", "tests.acceptance.daemon")
"""Modules that open a database, or a daemon that does."""
_ROOT = Path(__file__).resolve().parent
_stack = ExitStack()


def begin(store: str) -> None:
    """Start the server of this choice, and have `goclaw.durable.store.open` use it.

    Raises:
        UsageError: this machine cannot run one.
    """
    try:
        server = _stack.enter_context(running(MAJORS[store]))
    except pytest.skip.Exception as reason:
        raise pytest.UsageError(f"--store {store}: {reason}") from None
    os.environ[URL] = server.url
    _stack.callback(os.environ.pop, URL)
    vars(opening).update(open_file=_open_schema_of, read_file=_read_schema_of)
    setattr(PostgresDatabase, PostgresDatabase.clock_of.__name__, _clock_of)  # one that a test steps stays the test's


def end() -> None:
    """End the server that this process started."""
    _stack.close()


def stands_on_the_store(item: pytest.Item) -> bool:
    """Whether a test can open a database."""
    if "database" in getattr(item, "fixturenames", ()) or _opens(item.path):
        return True
    known = item.session._fixturemanager  # the one way from a name to the file that defines it
    defined = (each for name in getattr(item, "fixturenames", ()) for each in known.getfixturedefs(name, item) or ())
    files = {Path(inspect.unwrap(each.func).__code__.co_filename) for each in defined}
    return any(_opens(path) for path in files if path.is_relative_to(_ROOT) and path.parent != _ROOT)


@cache
def _opens(path: Path) -> bool:
    """Whether a file of tests imports one of `_OPENERS`, itself or by another file of tests."""
    for found in house.imports(path):
        if found.module.startswith(_OPENERS):
            return True
        if found.module.startswith("tests.") and (file := _file_of(found.module)) and file != path and _opens(file):
            return True
    return False


def _file_of(name: str) -> Path | None:
    """The file of a module below `tests`, also by the name of something in it."""
    parts = name.split(".")[1:]
    places = (_ROOT.joinpath(*parts[:length]).with_suffix(".py") for length in range(len(parts), 0, -1))
    return next((place for place in places if place.is_file()), None)


def about_a_file(item: pytest.Item) -> str:
    """Why a test cannot be run on Postgres; empty: it can.

    Raises:
        UsageError: its marker gives no reason.
    """
    if marker := item.get_closest_marker("sqlite"):
        if not marker.args:
            raise pytest.UsageError(f"{item.nodeid}: its marker `sqlite` needs a reason")
        return str(marker.args[0])
    function = getattr(item, "function", None)
    if function is not None and "recorded" in inspect.unwrap(function).__code__.co_names:
        return "copies the file at every write (tests.kills)"
    return ""


def address_of(path: Path) -> str:
    """The setting `store` for the schema that stands for a file; empty: this run is on SQLite."""
    if URL not in os.environ:
        return ""
    return f"{os.environ[URL]}?schema=f_{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:20]}"


def place_of(path: Path) -> PostgresPlace:
    """The schema that stands for a file."""
    return PostgresPlace.of(address_of(path))


def _open_schema_of(path: Path, clock: Clock = CLOCK) -> AbstractAsyncContextManager[Database]:
    return opening.postgres().open(place_of(path), clock, False)


def _clock_of(database: PostgresDatabase, clock: Clock) -> Clock:
    return clock if isinstance(clock, SteppedClock) else database.clock


def _read_schema_of(path: Path, statements: Sequence[BoundStatement]) -> list[Sequence[Row]]:
    return opening.postgres().read(place_of(path), statements)


def query(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a query on the schema that stands for a file; none where it was not made."""
    place = place_of(path)
    try:
        with psycopg.connect(place.url, options=f"-csearch_path={place.schema}") as connection:
            return connection.execute(statement.encode()).fetchall()
    except psycopg.errors.UndefinedTable:
        return []
