"""Loading of the configuration for a command, the daemon included."""

import os
import sys

from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.state import UPGRADE_JOURNAL, open_state
from goclaw.common.core.clock import RealClock
from goclaw.common.core.plugin_folder import read_record
from goclaw.errors import StateError
from goclaw.program.cli.base import Options, print_message
from goclaw.program.ops.backup import swap


def load_for(given: Options, *, packages: bool = True, restoring: bool = False) -> Loaded:
    """Load the configuration for this command line; warnings go to standard error. An interrupted restore is finished,
    and an interrupted upgrade finished or undone.

    Without `packages` no foreign code is loaded if the configuration can be used without it: commands that end or watch
    the daemon must not hang in third-party code. With `restoring`, for a start of the daemon, plugins that were
    installed for another Python or another GoClaw are installed again.

    Raises:
        ConfigError: it cannot be used.
        StateError: a restore is going on, or an upgrade cannot be undone.
    """
    loaded = load_config(given.config, overrides=given.overrides, packages=packages)
    if (loaded.config.state_dir / UPGRADE_JOURNAL).exists():
        _end_upgrade(loaded.config)
    if swap.pending(loaded.config.state_dir):
        _finish_restore(loaded.config)
        loaded = load_config(given.config, overrides=given.overrides, packages=packages)
    if restoring and restore_plugins(loaded.config):
        loaded = load_config(given.config, overrides=given.overrides, packages=packages)
    for warning in (*loaded.warnings, *(f"{what}: {why}" for what, why in loaded.packaged.faults.items())):
        print_message(f"warning: {warning}")
    return loaded


def restore_plugins(config: Config) -> bool:
    """Install plugins again that were installed for another Python or other packages, or failed; whether any were.

    What cannot be installed is said and left out: it stops no start.
    """
    if not read_record(config.state_dir).is_due(RealClock().now()):
        return False
    from goclaw.program.ops.plugins.installing import RESTORE_SECONDS, open_plugins

    print_message("restoring plugins: they were installed for other packages or another Python, or failed before")
    try:
        with open_plugins(config.state_dir, print_message, RESTORE_SECONDS) as plugins:
            if plugins.record.is_due(RealClock().now()):  # another start may have done it meanwhile
                plugins.restore()
    except StateError as error:
        print_message(f"continuing without plugins: {error}")
        return False
    return True


def _finish_restore(config: Config) -> None:
    with open_state(config):
        try:
            swap.finish(config.state_dir)
        except OSError as error:
            words = f"{error.filename}: {error.strerror}"
            raise StateError(f"an interrupted restore cannot be finished: {words}. Fix that and try again") from error
    print_message("finished an interrupted restore")


def _end_upgrade(config: Config) -> None:
    from goclaw.program.ops.upgrade.recovery import recover  # as good as never needed

    recovered = recover(config)
    if recovered is None:
        return
    print_message(recovered.sentence)
    if recovered.must_restart:
        # This process has the code of the version that was undone. The same path leads to the other one by now.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "goclaw", *sys.argv[1:]])  # noqa: S606  # no shell
