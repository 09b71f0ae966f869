"""`goclaw upgrade` between two made versions with a step of the schema, under load, with faults and with kills."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from goclaw.durable.store.sqlite.backup import NEWEST
from goclaw.program.ops.upgrade import engine
from tests.acceptance.checkouts import ANN, Home, made_home, open_home
from tests.acceptance.model import EchoModel
from tests.acceptance.versions import NEW, NEWS, OLD, Fault, Repository, git
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.lanes import repeats

pytestmark = [pytest.mark.slow, pytest.mark.sqlite("upgrades copies of a file only"), pytest.mark.timeout(300)]

BROKEN_IMPORT = Fault("goclaw/program/cli/daemon.py", "import asyncio\n", "import asyncio\nimport turnips\n")
BROKEN_CHANNEL = Fault("goclaw/channels/telegram/polling.py", "import asyncio\n", "import asyncio\nimport turnips\n")
BROKEN_START = Fault(
    "goclaw/program/app/opening.py", "    check_caching(config)\n", "    raise OSError(5, 'worm in it')\n"
)
BROKEN_STEP = Fault("goclaw/durable/store/sqlite/migrations.py", "CREATE TABLE turnips (", "CREATE TABEL turnips (")
BROKEN_HEALTH = Fault("goclaw/program/app/status.py", "import ", "import turnips\nimport ")
BROKEN_AT_HOME = Fault(
    "goclaw/program/app/opening.py",
    "        commit_upgrade(config)\n",
    "        if 'trial' not in str(config.state_dir):\n            raise OSError(5, 'worm in it')\n"
    "        commit_upgrade(config)\n",
)
"""Works on the copy, brings the real database up to date, and fails before it begins to work."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository.make(tmp_path_factory.mktemp("upgrade") / "upstream")


@pytest.fixture
def new_version(repository: Repository) -> Iterator[str]:
    """The repository has a new version while the test runs."""
    yield repository.release(NEW)
    repository.withdraw(NEW)


@pytest.fixture
async def home(folder: Path, telegram: FakeTelegram, model: EchoModel, repository: Repository) -> AsyncIterator[Home]:
    async with made_home(folder, telegram, model, repository) as made:
        yield made


async def talk(home: Home, ended: asyncio.Event) -> None:
    """Write one message after the other, answered or not."""
    while not ended.is_set():
        await home.say()
        await clock.sleep(0.3)


@asynccontextmanager
async def load(home: Home) -> AsyncIterator[None]:
    """Let Ann write all the while."""
    ended = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(talk(home, ended))
        yield
        ended.set()


@pytest.mark.long
@pytest.mark.promise("P-upgrade")
@pytest.mark.promise("P-upgrade")
async def test_an_upgrade_under_load_loses_nothing_and_doubles_nothing(home: Home, new_version: str) -> None:
    before = (home.state / "goclaw.db").stat().st_ino
    license_ = home.root / "LICENSE"
    text = license_.read_text()
    license_.write_text("mine")
    refused = await home.goclaw("upgrade")
    assert refused.code == 1 and "uncommitted changes: LICENSE" in refused.err
    license_.write_text(text)
    checked = await home.well("upgrade", "--check")
    assert f"GoClaw {OLD} would become {NEW} (v{NEW})." in checked.out and NEWS in checked.out
    assert f"schema {NEWEST} would become {NEWEST + 1}, in 1 step" in checked.out
    assert git(home.root, "tag", "--list") == f"v{OLD}" and home.schema == NEWEST
    pid = home.pid
    async with load(home):
        ran = await home.well("upgrade")
    assert f"upgraded: GoClaw {NEW} runs" in ran.err and "goclaw restore" in ran.err
    assert home.pid != pid and len(home.said) > 5
    await home.is_well(NEW)
    assert (home.state / "goclaw.db").stat().st_ino == before
    news = f"GoClaw {NEW} is now running (before: {OLD}). New: {NEWS} (and 1 more changes)"
    await eventually(lambda: news in [sent.text for sent in home.telegram.sent(ANN)])
    await home.well("restart")
    await home.is_well(NEW)
    assert [sent.text for sent in home.telegram.sent(ANN)].count(news) == 1
    assert "newest version; nothing was changed" in (await home.well("upgrade")).err


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.promise("P-upgrade")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "fault",
    repeats(
        [BROKEN_AT_HOME], [BROKEN_IMPORT, BROKEN_CHANNEL, BROKEN_START, BROKEN_STEP, BROKEN_HEALTH, BROKEN_AT_HOME]
    ),
    ids=lambda fault: fault.path,
)
async def test_a_version_that_does_not_work_leaves_the_old_one_with_its_data(
    home: Home, repository: Repository, fault: Fault
) -> None:
    repository.release(NEW, fault)
    try:
        async with load(home):
            ran = await home.goclaw("upgrade")
        assert ran.code == 1 and f"not upgraded: {OLD} runs as before" in ran.err, ran.err
        await home.is_well(OLD)
    finally:
        repository.withdraw(NEW)


CHOSEN = ("after engine.exchange", "before cleaning up")
"""What the short lane tries: the new version has the place and has not begun to work; it has."""


async def points_of_an_upgrade(home: Home) -> Sequence[str]:
    """The points that an upgrade passes, in order; the home has the new version then."""
    points = home.folder / "points"
    ran = await home.goclaw("upgrade", points=points)
    assert ran.code == 0, ran.err
    return [line.split(" ", 1)[1] for line in points.read_text().splitlines()]


async def back_to_the_old_version(home: Home) -> None:
    """Bring the home back to where it was before an upgrade, with the answers that it has given."""
    await home.goclaw("stop")
    saved = home.folder / "saved"
    for name in ("state", "goclaw"):
        await asyncio.to_thread(shutil.rmtree, home.folder / name)
        await asyncio.to_thread(shutil.copytree, saved / name, home.folder / name, symlinks=True)


async def keep(home: Home) -> None:
    """Keep the home as it is, for `back_to_the_old_version`."""
    await home.well("stop")
    for name in ("state", "goclaw"):
        await asyncio.to_thread(shutil.copytree, home.folder / name, home.folder / "saved" / name, symlinks=True)


async def killed_at(home: Home, number: int, name: str) -> str:
    """Kill an upgrade at a point, look what a person finds who starts GoClaw then; returns what is wrong."""
    await home.well("start")
    points = home.folder / "points"
    points.unlink(missing_ok=True)
    ran = await home.goclaw("upgrade", cut=number, points=points)
    if ran.code != -signal.SIGKILL:
        return f"{number} {name}: ended with {ran.code}: {ran.err}"
    try:
        await home.say()
        await home.well("start")
        version = (await home.well("version")).out.removeprefix("goclaw ").strip()
        if version not in (OLD, NEW):
            return f"{number} {name}: {version} runs"
        await home.is_well(version)
        if version == OLD and number % AGAIN == 0:
            await home.well("upgrade")
            await home.is_well(NEW)
    except (AssertionError, TimeoutError) as error:
        return f"{number} {name}: {error!r}"
    return ""


AGAIN = 5
"""After which of the kills the upgrade is repeated: the others differ only in what they leave."""
PARTS = repeats(1, 8)
"""Pieces of the table of points, so that several workers share it."""


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.promise("P-upgrade")
@pytest.mark.timeout(repeats(300, 1200))
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_kill_at_any_point_leaves_the_old_version_or_the_new_one(
    home: Home, new_version: str, part: int
) -> None:
    await keep(home)
    await home.well("start")
    names = await points_of_an_upgrade(home)
    steps = {words for words, _ in engine.STEPS}
    assert {f"{when} {words}" for words in steps for when in ("before", "after")} <= set(names)
    last = {name: index for index, name in enumerate(names)}
    assert set(CHOSEN) <= set(last)
    chosen = repeats([last[name] for name in CHOSEN], list(range(len(names)))[part::PARTS])
    wrong = []
    for index in chosen:
        await back_to_the_old_version(home)
        wrong.append(await killed_at(home, index + 1, names[index]))
    assert [each for each in wrong if each] == []


@pytest.mark.long
@pytest.mark.promise("P-upgrade")
@pytest.mark.timeout(1500)
async def test_an_environment_of_the_real_set_up_is_taken_over_as_if_it_was_made_in_its_place(
    folder: Path, telegram: FakeTelegram, model: EchoModel, tmp_path: Path
) -> None:
    """With all dependencies, by the locks, as `scripts/run` installs them."""
    repository = await asyncio.to_thread(partial(Repository.make, tmp_path / "upstream", bootstrap=False))
    async with open_home(folder, telegram, model) as home:
        home.variables = {
            **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_CERT"))},
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
        }
        await asyncio.to_thread(repository.checkout, home.root)
        await home.begin()
        repository.release(NEW)
        ran = await home.well("upgrade")
        assert f"upgraded: GoClaw {NEW} runs" in ran.err
        await home.is_well(NEW)
        process = await asyncio.create_subprocess_exec(
            home.root / "scripts" / "run",
            "version",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=home.environment,
        )
        out, err = await process.communicate()
        assert (out.decode(), err.decode()) == (f"goclaw {NEW}\n", ""), "nothing had to be set up again"
        await home.well("restart")
        await home.is_well(NEW)
