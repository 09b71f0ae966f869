"""What commands share: the options given before them, and the configuration that follows from those."""

import typer

from goclaw import catalog
from goclaw.cli.frame import Options, say
from goclaw.config.load import Loaded, load_config
from goclaw.plugins import third_party


def options(context: typer.Context) -> Options:
    """What was said before the command."""
    found = context.find_root().obj
    return found if isinstance(found, Options) else Options()


def load(context: typer.Context) -> Loaded:
    """The configuration for this command line; warnings go to standard error.

    Raises:
        ConfigError: it cannot be used.
    """
    given = options(context)
    loaded = load_config(given.config, overrides=given.overrides)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded


def known_tools() -> list[str]:
    """Names of the tools that come with GoClaw or with an installed plugin."""
    return sorted({*catalog.TOOLS, *third_party("tools")})
