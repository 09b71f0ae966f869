"""Nouns that many tests need."""

import faulthandler
import gc
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core import redact
from goclaw.common.core.clock import SteppedClock
from goclaw.common.net import LOOPBACK_ONLY
from goclaw.durable.store.database import Database
from goclaw.durable.store.open import open_database
from tests import on_postgres
from tests.interrupts import let_children_be_interrupted
from tests.lanes import LONG
from tests.parts import new_database
from tests.postgres import Server, fresh_place, running

let_children_be_interrupted()
gc.disable()  # until all tests are collected: each of the many collections would look through all of them in vain

# A busy machine is no reason to fail, and a commit fails by what it changed: the long lane tries new examples.
settings.register_profile("house", deadline=None, derandomize=not LONG)
settings.load_profile("house")


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Watch the clean-up of a test that failed: `faulthandler_timeout` ends with the failure, and a thread may hang."""
    if isinstance(node, pytest.Item):
        end_when_hung(node.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let no thread that a test left behind hold this process; workers are ended by the one that started them."""
    if not hasattr(session.config, "workerinput") and not starts_workers(session.config):
        end_when_hung(session.config)


def end_when_hung(config: pytest.Config) -> None:
    """Print all stacks and exit unless what begins now ends within `faulthandler_timeout`."""
    uncaptured = os.dup(config.stash[fault_handler_stderr_fd_key])  # pytest closes its own before the process ends
    faulthandler.dump_traceback_later(float(config.getini("faulthandler_timeout")), exit=True, file=uncaptured)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the store."""
    choices = ("sqlite", *on_postgres.MAJORS)
    parser.addoption("--store", choices=choices, default="sqlite", help="where databases of tests are")


def pytest_configure(config: pytest.Config) -> None:
    """Put every database that a test opens on Postgres, with `--store postgres`."""
    store = config.getoption("--store")
    if store in on_postgres.MAJORS and not starts_workers(config):
        on_postgres.begin(store)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the Postgres of this run."""
    on_postgres.end()


def starts_workers(config: pytest.Config) -> bool:
    """Whether others run the tests."""
    return not hasattr(config, "workerinput") and bool(config.getoption("numprocesses", None))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With Postgres, leave out what opens no database, and skip what is about a file of SQLite."""
    if config.getoption("--store") in on_postgres.MAJORS:
        chosen = [item for item in items if on_postgres.stands_on_the_store(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen
        for item in chosen:
            if reason := on_postgres.about_a_file(item):
                item.add_marker(pytest.mark.skip(reason=f"about SQLite: {reason}"))


def pytest_collection_finish() -> None:
    """Keep what was collected out of later collections of garbage, a seventh of what tests cost."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches anything but this machine."""
    monkeypatch.setenv(LOOPBACK_ONLY, "1")


@pytest.fixture(autouse=True)
def own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test has masked is no secret to the next: a text that is streamed waits where one could begin."""
    keep_secrets_apart(monkeypatch)


@pytest.fixture(scope="module")
def shared_by_the_module() -> Iterator[None]:
    """The same two for a fixture that all tests of a module share."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(LOOPBACK_ONLY, "1")
        keep_secrets_apart(monkeypatch)
        yield


def keep_secrets_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is masked from here on be no secret once the fixture ends."""
    monkeypatch.setattr(redact, "_known", set(redact._known))
    for name in ("_plain", "_runs", "_run", "_pattern", "_names", "_wrapped", "_bare", "_bare_secrets", "_bare_run"):
        monkeypatch.setattr(redact, name, getattr(redact, name))


class _Lost(logging.Handler):
    """What asyncio says of errors that nobody took."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def nothing_is_lost() -> Iterator[None]:
    """The test leaves no exception behind that nobody took; rooms whose tests all keep to it have it in `conftest`."""
    lost = _Lost()
    logging.getLogger("asyncio").addHandler(lost)
    yield
    logging.getLogger("asyncio").removeHandler(lost)
    assert lost.said == []


@pytest.fixture
def clock() -> SteppedClock:
    """A clock that stands still."""
    return SteppedClock()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A new database file."""
    (tmp_path / "goclaw.db").write_bytes(new_database())
    async with open_database(tmp_path / "goclaw.db") as opened:
        yield opened


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A Postgres of the newest major: one for each worker, for tests that do not stop it."""
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def stopped_server() -> Iterator[Server]:
    """The Postgres of the tests that stop one."""
    with running() as started:
        yield started


@pytest.fixture
def own_server(stopped_server: Server) -> Server:
    """A Postgres that runs, and that the test may stop; the next one to stop it has it started again."""
    if not stopped_server.is_running:
        stopped_server.start()
    return stopped_server


@pytest.fixture
def place(server: Server) -> PostgresPlace:
    """A schema that does not exist yet."""
    return fresh_place(server)
