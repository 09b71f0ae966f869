"""A checkout of a made version (`versions`) whose daemon runs in the background, with a person who writes to it."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from goclaw.durable.store.sqlite.backup import NEWEST
from tests.acceptance.daemon import Ran, installation, run_command
from tests.acceptance.model import EchoModel
from tests.acceptance.versions import OLD, Repository, git
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram

ANN = 5
SECONDS = 120.0
"""For one command; an upgrade is a handful of starts."""
CUTTER = Path(__file__).with_name("cut_upgrade.py")


@dataclass
class Home:
    """A checkout of a made version with a state folder, whose daemon runs in the background."""

    folder: Path
    telegram: FakeTelegram
    config: Path
    said: list[str] = field(default_factory=list)
    variables: Mapping[str, str] = field(default_factory=dict)
    """More for the environment of its commands."""

    @property
    def root(self) -> Path:
        return self.folder / "goclaw"

    @property
    def python(self) -> Path:
        return self.root / ".venv" / "bin" / "python"

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
            **self.variables,
        }

    async def goclaw(self, *arguments: str, cut: int | None = None, points: Path | None = None, stdin: str = "") -> Ran:
        """Run a command of the installation to its end; `cut`: it dies at that point."""
        python = [str(self.python), "-P"]
        words = [*python, *([str(CUTTER)] if points else ["-m", "goclaw"]), "--config", str(self.config), *arguments]
        more = {"UPGRADE_POINTS": str(points), "UPGRADE_KILL": str(cut or 0)} if points else {}
        return await run_command(words, self.environment | more, self.folder, stdin, SECONDS)

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

    async def begin(self) -> None:
        """Start the daemon and let it answer one message."""
        await self.well("start")
        await self.say()
        await self.all_answered()

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
        if (self.root / ".git").exists():
            assert git(self.root, "rev-parse", "HEAD") == git(self.root, "rev-parse", f"v{version}^{{commit}}")
            assert git(self.root, "status", "--porcelain") == ""
        left = {"upgrade.json", "upgrade.uncommitted", "upgrade-snapshot", "trial"} & {
            path.name for path in self.state.iterdir()
        }
        assert left == set()
        assert not (self.root / ".tools" / "upgrade" / "switched").exists()


@asynccontextmanager
async def made_home(
    folder: Path, telegram: FakeTelegram, model: EchoModel, repository: Repository
) -> AsyncIterator[Home]:
    """A daemon of the old version, in a checkout, that has answered one message."""
    async with open_home(folder, telegram, model) as home:
        await asyncio.to_thread(repository.checkout, home.root)
        await home.begin()
        yield home


@asynccontextmanager
async def open_home(folder: Path, telegram: FakeTelegram, model: EchoModel) -> AsyncIterator[Home]:
    """A configuration and a state folder; whatever daemon runs at the end is killed."""
    async with installation(folder, telegram, model.url, alerts={"to": f"telegram:{ANN}"}) as made:
        made.write_users({"telegram:5": {"roles": ["admin"]}})
        home = Home(folder, telegram, made.config_path)
        try:
            yield home
        finally:
            if home.is_alive():
                os.kill(home.pid, signal.SIGKILL)
                await eventually(lambda: not home.is_alive())
