"""Options given before every command, and the configuration that follows from them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from goclaw import catalog
from goclaw.backup import swap
from goclaw.cli.frame import Options, say
from goclaw.config.load import Loaded, load_config
from goclaw.config.schema import Config
from goclaw.config_lint import warnings
from goclaw.errors import StateError
from goclaw.plugins import third_party
from goclaw.state import open_state
from goclaw.users import User


def options(context: typer.Context) -> Options:
    """Return the options given before the command."""
    found = context.find_root().obj
    return found if isinstance(found, Options) else Options()


def load(context: typer.Context, *, packages: bool = True) -> Loaded:
    """Load the configuration for this command line; warnings go to standard error. An interrupted restore is finished.

    Without `packages` no foreign code is loaded if the configuration can be used without it: commands that end or watch
    the daemon must not hang in third-party code.

    Raises:
        ConfigError: it cannot be used.
        StateError: a restore is going on.
    """
    given = options(context)
    loaded = load_config(given.config, overrides=given.overrides, packages=packages)
    if swap.pending(loaded.config.state_dir):
        _finish_restore(loaded.config)
        loaded = load_config(given.config, overrides=given.overrides, packages=packages)
    for warning in (*loaded.warnings, *(f"{what}: {why}" for what, why in loaded.packaged.faults.items())):
        say(f"warning: {warning}")
    return loaded


def spelling(loaded: Loaded, users: Sequence[User]) -> Iterator[str]:
    """Yield the warnings of `spelling.warnings`."""
    from goclaw.toolkit import arguments  # only a check needs to know what the tools are
    from goclaw.toolkit.parts import parts_of
    from goclaw.toolkit.registry import BuiltIn

    config = loaded.config
    tools = {name: frozenset[str]() for name in (*catalog.TOOLS, *third_party("tools"))}
    for name, settings in config.tools.cli.items():
        tools[name] = frozenset({"shell", "cli", *settings.tags})
    tools |= {tool.spec.name: tool.spec.tags for _, listed in parts_of(loaded.packaged).tools for tool in listed}
    built_in = {tool.spec.name: tool for tool in BuiltIn(catalog.GATED_TOOLS).tools()}
    tools |= {name: tool.spec.tags for name, tool in built_in.items()}

    def faults(name: str, given: Mapping[str, Any]) -> Sequence[str]:
        tool = built_in.get(name)
        return arguments.faults(tool.arguments, given) if tool else ()

    return warnings(config, users, tools, {*catalog.COMMANDS, *third_party("commands")}, faults, third_party("agents"))


def _finish_restore(config: Config) -> None:
    with open_state(config):
        try:
            swap.finish(config.state_dir)
        except OSError as error:
            words = f"{error.filename}: {error.strerror}"
            raise StateError(f"a restore was cut and cannot be finished: {words}. Mend that and try again") from error
    say("finished a restore that had been cut")
