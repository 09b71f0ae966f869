"""The end of an upgrade that was cut: undone before its commit, finished after it.

Every function here may be killed anywhere and called again.
"""

from contextlib import ExitStack
from dataclasses import replace

from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state, running_pid
from goclaw.common.core.records import record
from goclaw.errors import StateError
from goclaw.program.ops.backup.swap import remove
from goclaw.program.ops.upgrade import checkout, journal, snapshot, trial
from goclaw.program.ops.upgrade.exchange import exchange
from goclaw.program.ops.upgrade.journal import Journal, Phase


@record
class Recovered:
    """The result of a recovery."""

    sentence: str
    must_restart: bool
    """Whether this process is of a version that no longer has the place."""


def recover(config: Config) -> Recovered | None:
    """Undo or finish an upgrade after its process has gone. None: there is nothing to do, or another process is at it.

    Raises:
        StateError: it cannot be undone now; the message says why.
    """
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(journal.only_upgrade(config.state_dir))
            except StateError:
                return None
            return _recover(config, journal.read(config.state_dir))
    except OSError as error:
        words = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise StateError(f"an interrupted upgrade cannot be finished: {words}. Fix that and try again") from error


def _recover(config: Config, found: Journal | None) -> Recovered | None:
    if found is None:
        return None
    if found.phase is Phase.PREPARING:
        # Now, for a copy of every conversation may be among it.
        discard(config, found)
        return Recovered(f"removed the files of an interrupted upgrade to {found.new}", must_restart=False)
    if is_committed(config, found):
        try:
            finish(config, found)
        except StateError as error:
            return Recovered(f"warning: the upgrade to {found.new} is not finished yet: {error}", must_restart=False)
        return Recovered(f"finished an interrupted upgrade to {found.new}", must_restart=False)
    if running_pid(config) is not None:
        return None  # it began before the upgrade was cut, and commits, or ends
    was_exchanged = found.is_exchanged
    undo(config, found)
    return Recovered(
        f"undid an interrupted upgrade to {found.new}; {found.old} runs with its previous data",
        must_restart=was_exchanged,
    )


def is_committed(config: Config, found: Journal) -> bool:
    """Whether the new version has begun to work: from then on there is no way back without a loss."""
    if found.phase is Phase.SWITCHING:
        return found.is_exchanged and not journal.is_uncommitted(config.state_dir)
    return found.phase is Phase.SETTLING


def undo(config: Config, found: Journal) -> None:
    """Go back to the program and the data from before.

    Raises:
        StateError: a daemon has the state folder: it may be about to commit.
        OSError: files cannot be written.
    """
    state_dir = config.state_dir
    with open_state(config):
        if is_committed(config, found):
            raise StateError(f"{found.new} has already taken over")
        journal.write(state_dir, replace(found, phase=Phase.UNDOING))
        snapshot.put_back(state_dir)
        if found.is_exchanged:
            exchange(found.beside, found.home)
        checkout.unguard(found)
        journal.unmark(state_dir)
        journal.remove(state_dir)
    discard(config, found)


def discard(config: Config, found: Journal) -> None:
    """Remove everything made for an upgrade that does not take place."""
    journal.unmark(config.state_dir)
    journal.remove(config.state_dir)
    snapshot.drop(config.state_dir)
    remove(config.state_dir / trial.FOLDER)
    remove(found.source or found.beside)


def finish(config: Config, found: Journal) -> None:
    """Finish an upgrade that was committed: the checkout follows, the old environment goes.

    Raises:
        StateError: the checkout cannot follow; the new version runs all the same.
        OSError: files cannot be written.
    """
    state_dir = config.state_dir
    journal.write(state_dir, replace(found, phase=Phase.SETTLING))
    checkout.follow(found)
    snapshot.drop(state_dir)
    remove(state_dir / trial.FOLDER)
    remove(found.beside)
    journal.remove(state_dir)
