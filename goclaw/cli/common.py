"""What commands share: the options given before them, and the configuration that follows from those."""

from collections.abc import Iterator, Sequence

import typer

from goclaw import catalog
from goclaw.backup import swap
from goclaw.cli.frame import Options, say
from goclaw.config.load import Loaded, load_config
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.plugins import third_party
from goclaw.spelling import warnings
from goclaw.state import open_state
from goclaw.users import User


def options(context: typer.Context) -> Options:
    """What was said before the command."""
    found = context.find_root().obj
    return found if isinstance(found, Options) else Options()


def load(context: typer.Context) -> Loaded:
    """The configuration for this command line; warnings go to standard error. A restore that was cut is finished first.

    Raises:
        ConfigError: it cannot be used.
        StateError: a restore is going on.
    """
    given = options(context)
    loaded = load_config(given.config, overrides=given.overrides)
    if swap.pending(loaded.config.state_dir):
        _finish_restore(loaded.config)
        loaded = load_config(given.config, overrides=given.overrides)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded


def spelling(config: Config, users: Sequence[User]) -> Iterator[str]:
    """See `spelling.warnings`."""
    from goclaw.toolkit.registry import BuiltIn  # only a check needs to know what the tools are

    tools = {name: frozenset[str]() for name in (*catalog.TOOLS, *third_party("tools"))}
    for name, settings in config.tools.cli.items():
        tools[name] = frozenset({"shell", "cli", *settings.tags})
    tools |= {tool.spec.name: tool.spec.tags for tool in BuiltIn().tools()}
    return warnings(config, users, tools, {*catalog.COMMANDS, *third_party("commands")})


def _finish_restore(config: Config) -> None:
    with open_state(config):
        try:
            swap.finish(config.state_dir)
        except OSError as error:
            words = f"{error.filename}: {error.strerror}"
            raise StateError(f"a restore was cut and cannot be finished: {words}. Mend that and try again") from error
    say("finished a restore that had been cut")
