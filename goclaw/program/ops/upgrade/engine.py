"""The steps of an upgrade, in order; what fails before the commit is undone.

A kill is followed by `recovery`: each step leaves the journal such that the old version runs, or the new one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from goclaw import __version__
from goclaw.common.config.load import Loaded
from goclaw.common.config.state import make_private, open_state
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.records import record
from goclaw.errors import GoclawError, StateError
from goclaw.program.ops.backup.collect import back_up
from goclaw.program.ops.backup.swap import remove
from goclaw.program.ops.upgrade import checkout, journal, snapshot, trial
from goclaw.program.ops.upgrade.exchange import check_exchange, exchange
from goclaw.program.ops.upgrade.installation import Installation, Release, Say
from goclaw.program.ops.upgrade.journal import Journal, Phase, identity
from goclaw.program.ops.upgrade.recovery import discard, finish, is_committed, undo


class Daemon(Protocol):
    """The daemon as another process, however it is run."""

    ran: bool
    """Whether it ran when the upgrade began."""

    def drain(self) -> None:
        """End it in order and wait; it does nothing where none runs.

        Raises:
            StateError: it did not end in time.
        """
        ...

    def start(self) -> None:
        """Start the version installed now, in the way the daemon ran, and wait until it works.

        Raises:
            StateError: it ended, or does not work in time.
        """
        ...

    def kill(self) -> None:
        """End whatever holds the state folder, immediately."""
        ...


@record
class Order:
    """The parameters of an upgrade."""

    loaded: Loaded
    installation: Installation
    release: Release
    daemon: Daemon
    options: Sequence[str]
    """Options of the command line with which the daemon finds its configuration."""
    backup: Path
    """The file to make."""
    workspace: bool
    """Whether the agent's files are in the backup."""
    clock: Clock
    say: Say


class Upgrade:
    """One upgrade under way."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.config = order.loaded.config
        self.ran = order.daemon.ran
        self.journal: Journal = replace(order.installation.journal(order.release, __version__), backup=order.backup)
        self.is_drained = False

    def prepare(self) -> None:
        """Check everything that can be checked now, clean up after an earlier upgrade, and begin the journal."""
        self.order.installation.check()
        place = self.journal.source or self.journal.beside
        place.parent.mkdir(parents=True, exist_ok=True)
        check_exchange(self.journal.home, place)
        if left := journal.read(self.config.state_dir):
            discard(self.config, left)
        journal.write(self.config.state_dir, self.journal)

    def back_up(self) -> None:
        """Make a backup, while the daemon goes on."""
        if not self.config.database_path.exists():
            return
        order = self.order
        try:
            made = back_up(order.loaded, order.backup, order.clock, workspace=order.workspace)
        except StateError as error:
            raise StateError(f"{error}\nchoose another place with `--backup FILE`") from error
        for note in made.notes:
            self.order.say(f"warning: not in the backup: {note}")

    def fetch(self) -> None:
        """Get the new version."""
        self.order.installation.fetch(self.order.release)

    def install(self) -> None:
        """Install it next to the running one."""
        self.order.installation.install(self.order.release, self.journal)
        self.journal = replace(self.journal, identity=identity(self.journal.beside))
        journal.write(self.config.state_dir, self.journal)

    def try_out(self) -> None:
        """Start it on a copy of the state, without channels."""
        folder = trial.copy_state(self.config)
        version = trial.run_trial(self.journal.beside, self.order.options, folder)
        if version != self.journal.new:
            raise StateError(f"{self.order.release.name} should be {self.journal.new} and says that it is {version}")
        remove(folder)

    def drain(self) -> None:
        """End the old daemon, which served until now."""
        self.is_drained = True
        self.order.daemon.drain()

    def switch(self) -> None:
        """Keep the state as the old version left it, and let the two environments exchange their places."""
        with open_state(self.config):
            snapshot.create(self.config.state_dir)
            journal.mark_uncommitted(self.config.state_dir)
            self.journal = replace(self.journal, phase=Phase.SWITCHING)
            journal.write(self.config.state_dir, self.journal)
            checkout.guard(self.journal)
            exchange(self.journal.beside, self.journal.home)
            if not self.ran:
                # Nobody waits for a start, and the copy has shown that one works.
                journal.unmark(self.config.state_dir)

    def start(self) -> None:
        """Start the new daemon; it brings the state up to date, commits, and begins to work."""
        if self.ran:
            self.order.daemon.start()

    def finish(self) -> None:
        """Let the rest follow, and remove unneeded leftovers."""
        finish(self.config, self.journal)


STEPS: Sequence[tuple[str, Callable[[Upgrade], None]]] = (
    ("checking whether it can work", Upgrade.prepare),
    ("making a backup", Upgrade.back_up),
    ("fetching", Upgrade.fetch),
    ("installing next to the running version", Upgrade.install),
    ("trying it out on a copy of the state", Upgrade.try_out),
    ("stopping the old version", Upgrade.drain),
    ("switching", Upgrade.switch),
    ("starting the new version", Upgrade.start),
    ("cleaning up", Upgrade.finish),
)
"""Every step, with the words that are shown when it begins."""


def upgrade(order: Order) -> str:
    """Carry the steps out; return the rest that has to be done by hand, empty when all is done.

    Raises:
        StateError: it did not take place; the old version is unchanged, and runs if it ran. Or it did, and the
            new daemon ended after the commit: the message says which.
        ConfigError: the configuration cannot be used.
    """
    make_private(order.loaded.config.state_dir)
    with journal.only_upgrade(order.loaded.config.state_dir):
        work = Upgrade(order)
        try:
            for words, step in STEPS[:-1]:
                order.say(f"{words} …")
                step(work)
        except (GoclawError, OSError) as error:
            raise StateError(f"{_words(error)}\n{_undo(work)}") from error
        except BaseException:  # Ctrl-C and SIGTERM
            order.say(_undo(work))
            raise
        words, step = STEPS[-1]
        try:
            step(work)
        except (StateError, OSError) as error:
            return f"{words}: {error}"
        return ""


def _undo(work: Upgrade) -> str:
    """Go back to the version and the data from before; return what is so now, in words."""
    config, order, found = work.config, work.order, work.journal
    if found.phase is Phase.PREPARING:
        discard(config, found)
    else:
        if is_committed(config, found):
            return _after_commit(work)
        order.daemon.kill()
        if is_committed(config, found):
            return _after_commit(work)
        undo(config, found)
    kept = f" The backup is {order.backup}." if order.backup.exists() else ""
    end = f"not upgraded: {found.old} {'runs' if work.ran else 'is installed'} as before, and nothing is lost.{kept}"
    if work.is_drained and work.ran:
        try:
            order.daemon.start()
        except StateError as failure:
            end = f"not upgraded: {found.old} and its data are as before, but it did not start: {failure}{kept}"
    return end


def _after_commit(work: Upgrade) -> str:
    return (
        f"{work.journal.new} had already taken over and stays: see `goclaw logs`. To go back to {work.journal.old}: "
        f"{way_back(work.order)}"
    )


def way_back(order: Order) -> str:
    """Return the commands that bring back the old version and the data of the backup."""
    return (
        f"{daemon_command('stop')}, `{order.installation.way_back(__version__)}`, "
        f"{daemon_command(f'restore {order.backup}')}, {daemon_command('start')}"
    )


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
