"""`goclaw upgrade` between two made versions with a step of the schema, under load, with faults and with kills."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.store.backup import NEWEST
from tests.acceptance.daemon import Ran, installation
from tests.acceptance.model import EchoModel
from tests.acceptance.versions import NEW, NEWS, OLD, Fault, Repository, git
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.lanes import repeats

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ANN = 5
SECONDS = 120.0
"""For one command; an upgrade is a handful of starts."""
CUTTER = Path(__file__).with_name("cut_upgrade.py")
BROKEN_IMPORT = Fault("goclaw/cli/daemon.py", "import asyncio\n", "import asyncio\nimport turnips\n")
"""Found by the first real start: the trial does not run the daemon's loop."""
BROKEN_START = Fault("goclaw/app/opening.py", "    check_caching(config)\n", "    raise OSError(5, 'worm in it')\n")
BROKEN_STEP = Fault("goclaw/store/schema.py", "CREATE TABLE turnips (", "CREATE TABEL turnips (")
BROKEN_HEALTH = Fault("goclaw/app/status.py", "import ", "import turnips\nimport ")
BROKEN_AT_HOME = Fault(
    "goclaw/app/opening.py",
    "        commit_upgrade(config)\n",
    "        if 'trial' not in str(config.state_dir):\n            raise OSError(5, 'worm in it')\n"
    "        commit_upgrade(config)\n",
)
"""Works on the copy, brings the real database up to date, and fails before it begins to work."""


@dataclass
class Home:
    """A checkout of a made version with a state folder, whose daemon runs in the background."""

    folder: Path
    telegram: FakeTelegram
    config: Path
    said: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "goclaw"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "GOCLAW_STATE_DIR": str(self.state),
            "OLLAMA_HOST": "http://127.0.0.1:9",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }

    async def goclaw(self, *arguments: str, cut: int | None = None, points: Path | None = None) -> Ran:
        """Run a command of the installation to its end; `cut`: it dies at that point."""
        python = [str(self.root / ".venv" / "bin" / "python"), "-P"]
        words = [*python, *([str(CUTTER)] if points else ["-m", "goclaw"]), "--config", str(self.config), *arguments]
        more = {"UPGRADE_POINTS": str(points), "UPGRADE_KILL": str(cut or 0)} if points else {}
        began = clock.monotonic()
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment | more,
            cwd=self.folder,
        )
        try:
            async with asyncio.timeout(SECONDS):
                out, err = await process.communicate()
        except (TimeoutError, asyncio.CancelledError):
            process.kill()
            await process.wait()
            raise
        return Ran(await process.wait(), out.decode(), err.decode(), clock.monotonic() - began)

    async def well(self, *arguments: str) -> Ran:
        """Run a command that has to succeed."""
        ran = await self.goclaw(*arguments)
        assert ran.code == 0, ran.err + ran.out + self.log
        return ran

    @property
    def log(self) -> str:
        path = self.state / "logs" / "daemon.out"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        try:
            return int((self.state / "goclaw.lock").read_text() or 0)
        except (OSError, ValueError):
            return 0

    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except OSError:
            return False
        return self.pid > 0

    @property
    def schema(self) -> int:
        with closing(sqlite3.connect(self.state / "goclaw.db", timeout=10)) as database:
            return int(database.execute("PRAGMA user_version").fetchone()[0])

    async def say(self) -> str:
        """Let Ann write the next message; returns its name."""
        name = f"m{len(self.said) + 1}"
        self.said.append(name)
        await self.telegram.world.say(f"{name} plain", user=ANN)
        return name

    def answers(self) -> list[str]:
        """The answers that Ann got, without what is no answer."""
        return [sent.text for sent in self.telegram.sent(ANN) if sent.text.startswith("answer")]

    async def all_answered(self) -> None:
        """Wait until every message has its answer; none has two."""
        wanted = [f"answer {name} (end)" for name in self.said]
        await eventually(lambda: set(self.answers()) >= set(wanted), 60)
        assert self.answers() == wanted

    async def is_well(self, version: str) -> None:
        """Check that this version runs, on a database of its schema, in a checkout of its tag, and answers."""
        assert (await self.well("version")).out == f"goclaw {version}\n"
        assert self.is_alive()
        await self.say()
        await self.all_answered()
        assert self.schema == (NEWEST if version == OLD else NEWEST + 1)
        assert git(self.root, "rev-parse", "HEAD") == git(self.root, "rev-parse", f"v{version}^{{commit}}")
        assert git(self.root, "status", "--porcelain") == ""
        left = {"upgrade.json", "upgrade.uncommitted", "upgrade-snapshot", "trial"} & {
            path.name for path in self.state.iterdir()
        }
        assert left == set()
        assert not (self.root / ".tools" / "upgrade" / "switched").exists()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository.make(tmp_path_factory.mktemp("upgrade") / "upstream")


@pytest.fixture
def new_version(repository: Repository) -> Iterator[str]:
    """The repository has a new version while the test runs."""
    yield repository.release(NEW)
    repository.withdraw(NEW)


@asynccontextmanager
async def made_home(
    folder: Path, telegram: FakeTelegram, model: EchoModel, repository: Repository
) -> AsyncIterator[Home]:
    """A daemon of the old version that has answered one message."""
    async with installation(folder, telegram, model.url, alerts={"to": f"telegram:{ANN}"}) as made:
        made.write_users({"telegram:5": {"roles": ["admin"]}})
        home = Home(folder, telegram, made.config_path)
        await asyncio.to_thread(repository.checkout, home.root)
        try:
            await home.well("start")
            await home.say()
            await home.all_answered()
            yield home
        finally:
            if home.is_alive():
                os.kill(home.pid, signal.SIGKILL)
                await eventually(lambda: not home.is_alive())


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


@pytest.mark.promise("P-upgrade")
@pytest.mark.promise("P-upgrade-news")
async def test_an_upgrade_under_load_loses_nothing_and_doubles_nothing(home: Home, new_version: str) -> None:
    before = (home.state / "goclaw.db").stat().st_ino
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
    news = f"GoClaw {NEW} runs now (before: {OLD}). New: {NEWS} (and 1 more changes)"
    await eventually(lambda: news in [sent.text for sent in home.telegram.sent(ANN)])
    await home.well("restart")
    await home.is_well(NEW)
    assert [sent.text for sent in home.telegram.sent(ANN)].count(news) == 1
    assert "newest version; nothing was changed" in (await home.well("upgrade")).err


@pytest.mark.deep
@pytest.mark.promise("P-upgrade")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "fault",
    repeats([BROKEN_AT_HOME], [BROKEN_IMPORT, BROKEN_START, BROKEN_STEP, BROKEN_HEALTH, BROKEN_AT_HOME]),
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


async def points_of_an_upgrade(home: Home) -> Sequence[str]:
    """The points that an upgrade passes, in order."""
    points = home.folder / "points"
    ran = await home.goclaw("upgrade", points=points)
    assert ran.code == 0, ran.err
    return [line.split(" ", 1)[1] for line in points.read_text().splitlines()]
