"""`goclaw upgrade`: a newer version, tried out next to the running one; a failure leaves all as it was."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from goclaw import __version__
from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.config.state import running_pid
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import lies_inside
from goclaw.durable.store.sqlite.backup import NEWEST, schema_of_file
from goclaw.errors import StateError
from goclaw.program.cli import process
from goclaw.program.cli.base import Options, print_message, show
from goclaw.program.cli.lifecycle import as_before
from goclaw.program.cli.options import load, options
from goclaw.program.cli.process import listens, start_in_background
from goclaw.program.cli.systemd import UNIT_NAME, manager_of
from goclaw.program.ops.backup.swap import stamp_of
from goclaw.program.ops.upgrade import journal
from goclaw.program.ops.upgrade.changes import Source, between, changes, schema_of
from goclaw.program.ops.upgrade.engine import Order, upgrade, way_back
from goclaw.program.ops.upgrade.installation import Release
from goclaw.program.ops.upgrade.recognise import recognise

START_SECONDS = 120.0
"""How long the new daemon may take until it works: longer than a start, for it brings the database up to date."""
LOOK_SECONDS = 0.05
MAX_CHANGES = 40
"""Lines of the changelog that are shown."""
MAX_LINE = 300
"""Characters of one of them."""
BESIDE_POSTGRES = (
    "`store` names a Postgres, but `goclaw upgrade` can only try a version on a copy of a file: `goclaw backup`, "
    f"{daemon_command('stop')}, install the new version, {daemon_command('start')}. Upgrade several gateways on one "
    "schema one after the other: the others keep running, even after the first has migrated the schema"
)


def upgrade_(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="Show what would change; change nothing.")] = False,
    ref: Annotated[
        str, typer.Option(help="The version: a tag, branch or commit of a checkout, or a version of a package.")
    ] = "",
    backup: Annotated[
        Path | None, typer.Option(help="The file for the backup; default: a new file next to the state folder.")
    ] = None,
    workspace: Annotated[bool, typer.Option(help="Include the agent's files in the backup.")] = True,
) -> None:
    """Upgrade to a newer version, or keep the old one on failure.

    The new version is installed beside the one that runs, and started without channels on a copy of the state. Only
    then the old one ends and the new one starts. Until that works, a failure brings back program and data from before.
    """
    loaded, given = load(context), options(context)
    if loaded.config.store:
        raise StateError(BESIDE_POSTGRES)
    installation = recognise()
    print_message(f"this is {__version__}, {installation.description}; looking for {ref or 'the newest version'} …")
    release, source = installation.find_release(ref)
    if check:
        show("\n".join(_differences(loaded.config, release, source)))
        return
    if release.version == __version__ and not ref:
        print_message(f"{__version__} is the newest version; nothing was changed")
        return
    daemon = RunningDaemon(loaded, given, installation.home)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda signal_number, _: sys.exit(128 + signal_number))
    file = loaded.config.state_dir.parent / f"goclaw-{__version__}-{stamp_of(RealClock().now())}.tar.gz"
    target = (backup or file).expanduser().absolute()
    order = Order(
        daemon.loaded, installation, release, daemon, daemon.words, target, workspace, RealClock(), print_message
    )
    if warning := upgrade(order):
        print_message(f"warning: {warning}")
    start = daemon_command("start")
    how = f"runs (pid {running_pid(loaded.config)})" if daemon.ran else f"is installed; {start} starts it"
    print_message(f"upgraded: GoClaw {release.version} {how}")
    if order.backup.exists():
        print_message(f"to go back to {__version__} and the current data: {way_back(order)}")


def _differences(config: Config, release: Release, source: Source) -> list[str]:
    """Return the changes of an upgrade to the release, as lines."""
    if release.version == __version__:
        lines = [f"{release.name} is the installed version, {__version__}."]
    else:
        lines = [f"GoClaw {__version__} would become {release.version} ({release.name})."]
    entries = [
        (each.version or "not released", entry)
        for each in between(source.changelog, __version__, release.version)
        for entry in changes(each)
    ]
    lines += [f"  {version}: {entry[:MAX_LINE]}" for version, entry in entries[:MAX_CHANGES]]
    if len(entries) > MAX_CHANGES:
        lines.append(f"  … and {len(entries) - MAX_CHANGES} more changes")
    return [*lines, _schema_line(config, schema_of(source.schema)), "Nothing was changed."]


def _schema_line(config: Config, newest: int | None) -> str:
    here = schema_of_file(config.database_path)
    if newest is None:
        return "Database: the schema of that version is unknown."
    if here is None:
        return f"Database: none yet; that version creates schema {newest}."
    if here > newest:
        return f"Database: schema {here}, but that version knows only up to {newest}: it would refuse to start."
    if here == newest:
        return f"Database: unchanged (schema {here})."
    steps = f"{newest - here} step{'s' if newest - here > 1 else ''}"
    return f"Database: schema {here} would become {newest}, in {steps}; {__version__} knows up to {NEWEST}."


class RunningDaemon:
    """Implements `engine.Daemon`: by systemd where that runs it, else as a process in the background."""

    def __init__(self, loaded: Loaded, given: Options, home: Path) -> None:
        """Find out how the daemon runs now.

        Raises:
            ConfigError: the configuration cannot be used.
            StateError: it runs from another installation, or cannot be started again in the same way.
        """
        self._config = loaded.config
        pid = running_pid(self._config)
        self.ran = pid is not None
        self._manager = manager_of(pid)
        if pid is not None:
            _refuse_other_installation(pid, home)
        self.loaded, self._given = as_before(self._config, given) if self.ran else (loaded, given)

    @property
    def words(self) -> Sequence[str]:
        """The options with which it finds its configuration."""
        return process.option_words(self._given)

    def drain(self) -> None:
        if self._manager:
            self._manager.control("stop", UNIT_NAME)
        else:
            asyncio.run(process.stop(self._config))

    def start(self) -> None:
        if self._manager:
            self._manager.control("start", UNIT_NAME)
        else:
            asyncio.run(start_in_background(self._config, self._given, START_SECONDS))
        deadline = time.monotonic() + START_SECONDS
        # A socket that a killed daemon left behind is no sign that this one works.
        while journal.is_uncommitted(self._config.state_dir) or not listens(self._config):
            if time.monotonic() > deadline or running_pid(self._config) is None:
                raise StateError(f"the daemon did not start within {START_SECONDS:g} s; see `goclaw logs`")
            asyncio.run(asyncio.sleep(LOOK_SECONDS))

    def kill(self) -> None:
        if self._manager:
            self._manager.control("stop", UNIT_NAME)
            self._manager.forget()
        deadline = time.monotonic() + START_SECONDS
        while (pid := running_pid(self._config)) and time.monotonic() < deadline:
            os.kill(pid, signal.SIGKILL)
            asyncio.run(asyncio.sleep(LOOK_SECONDS))


def _refuse_other_installation(pid: int, home: Path) -> None:
    try:
        program = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return  # a system without /proc
    if program.startswith("/") and not lies_inside(Path(program).parent, home):
        raise StateError(
            f"the daemon (pid {pid}) runs from another installation, {program}; this one is {home}. Upgrade that one, "
            f"or stop the daemon with {daemon_command('stop')}"
        )
