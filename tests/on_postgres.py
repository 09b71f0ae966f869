"""`pytest --store postgres`: every database that a test opens is a schema of Postgres, named after the file's path.

The process that starts the workers starts one server for all of them. What a test opens by `open_file` stays a file of
SQLite.
"""

import hashlib
import os
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

from goclaw.config.values import PostgresPlace
from goclaw.core.clock import Clock
from goclaw.store import open as opening
from goclaw.store.database import Database
from goclaw.store.sqlite.recovery import CLOCK
from tests.postgres import NEWEST, running

URL = "TESTS_POSTGRES"
"""Variable with the address of the server, for the workers."""
MAJOR = "TESTS_POSTGRES_MAJOR"
"""Variable with the major to run on; not set: the newest one."""
_stack = ExitStack()


def begin() -> None:
    """Start the server, unless the process that started this one has; have `open_database` use it."""
    if URL not in os.environ:
        server = _stack.enter_context(running(int(os.environ.get(MAJOR, NEWEST))))
        os.environ[URL] = server.url
        _stack.callback(os.environ.pop, URL)
    opening.open_file = _open_schema_of  # type: ignore[assignment]  # a file's path stands for a schema


def end() -> None:
    """End the server that this process started."""
    _stack.close()


def place_of(path: Path) -> PostgresPlace:
    """The schema that stands for a file."""
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:20]
    return PostgresPlace.of(f"{os.environ[URL]}?schema=f_{name}")


def _open_schema_of(path: Path, clock: Clock = CLOCK) -> AbstractAsyncContextManager[Database]:
    return opening.postgres().open(place_of(path), clock)
