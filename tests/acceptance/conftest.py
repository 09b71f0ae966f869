"""The world around a daemon: people in Telegram, a model server, a folder to live in."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests import canaries
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel, echo_model
from tests.acceptance.shared import Person, SharedDaemon, open_shared
from tests.fake_telegram.server import FakeTelegram
from tests.postgres import Server, fresh_database, running


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: the socket below it may have 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="goclaw-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    """Telegram, without flood limits."""
    async with FakeTelegram() as fake:
        yield fake


@pytest.fixture
async def model() -> AsyncIterator[EchoModel]:
    """The model server, answering at once."""
    async with echo_model() as server:
        yield server


@pytest.fixture
async def home(folder: Path, telegram: FakeTelegram, model: EchoModel) -> AsyncIterator[Installation]:
    """An installation on both, where user 5 may do everything; no daemon runs yet."""
    async with installation(folder, telegram, model.url, forks=True) as made:
        made.write_users({"telegram:5": {"name": "Ann"}})
        yield made
    canaries.check(folder, model.requests)


@pytest.fixture
async def bare(folder: Path) -> AsyncIterator[Installation]:
    """No configuration at all; a daemon that still runs at the end is killed."""
    made = Installation(folder, forks=True)
    yield made
    if made.process is not None:
        await made.kill()


@pytest.fixture
def server(server: Server) -> Iterator[Server]:
    """A database of the worker's Postgres that no test has used; what still uses it at the end is cut off."""
    with fresh_database(server) as made:
        yield made


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A Postgres that the test may stop, where no other test had a database."""
    with running() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[SharedDaemon]:
    """A daemon that runs while the tests of the module do: they mark themselves with `asyncio(loop_scope="module")`."""
    made = Path(tempfile.mkdtemp(prefix="goclaw-"))
    async with open_shared(made) as daemon:
        yield daemon
    shutil.rmtree(made)


@pytest.fixture
def ann(shared: SharedDaemon) -> Person:
    """A person to whom the shared daemon has not spoken yet."""
    return shared.person()
