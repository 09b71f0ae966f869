"""Loading of the configuration for a command, the daemon included."""

import os
import sys

from goclaw.cli.base import Options, say
from goclaw.config.load import Loaded, load_config
from goclaw.config.schema import Config
from goclaw.config.state import UPGRADE_JOURNAL, open_state
from goclaw.errors import StateError
from goclaw.ops.backup import swap


def load_given(given: Options, *, packages: bool = True) -> Loaded:
    """Load the configuration for this command line; warnings go to standard error. An interrupted restore is finished,
    and an interrupted upgrade finished or undone.

    Without `packages` no foreign code is loaded if the configuration can be used without it: commands that end or watch
    the daemon must not hang in third-party code.

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
    for warning in (*loaded.warnings, *(f"{what}: {why}" for what, why in loaded.packaged.faults.items())):
        say(f"warning: {warning}")
    return loaded


def _finish_restore(config: Config) -> None:
    with open_state(config):
        try:
            swap.finish(config.state_dir)
        except OSError as error:
            words = f"{error.filename}: {error.strerror}"
            raise StateError(f"a restore was cut and cannot be finished: {words}. Mend that and try again") from error
    say("finished a restore that had been cut")


def _end_upgrade(config: Config) -> None:
    from goclaw.ops.upgrade.recovery import recover  # as good as never needed

    recovered = recover(config)
    if recovered is None:
        return
    say(recovered.sentence)
    if recovered.must_restart:
        # This process has the code of the version that was undone. The same path leads to the other one by now.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "goclaw", *sys.argv[1:]])  # noqa: S606  # no shell
