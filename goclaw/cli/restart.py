"""`goclaw restart`: the same daemon again, with the same options."""

import asyncio
import os

import typer

from goclaw.cli import process, systemd
from goclaw.cli.common import load, options
from goclaw.cli.frame import Options, say
from goclaw.cli.launch_record import LaunchRecord, recall
from goclaw.cli.start import bring_up, refuse_secrets
from goclaw.cli.unit import NAME, installed, unit_text
from goclaw.config.environment import LOCATION
from goclaw.config.load import Loaded, load_config
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.state import running_pid

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def restart(context: typer.Context) -> None:
    """End the daemon and start it anew.

    It gets the options that it was started with; those of this command go before them. The configuration is checked
    first: one that cannot be used ends nothing.
    """
    loaded, given = load(context), options(context)
    config = loaded.config
    pid = running_pid(config)
    if pid and installed() and pid == systemd.main_pid():
        _restart_service(loaded, given)
    else:
        _restart_in_background(config, given)
    say(f"{'' if pid else 'none ran; '}running in the background (pid {running_pid(config)})")


def _restart_service(loaded: Loaded, given: Options) -> None:
    if given.overrides or (given.config and installed() != unit_text(loaded)):
        raise StateError("systemd runs the daemon with the options of its unit; `goclaw service install` changes them")
    systemd.control("restart", NAME)


def _restart_in_background(config: Config, given: Options) -> None:
    before = recall(config)
    again = _merged(config, before, given) if before else given
    loaded = load_config(again.config, overrides=again.overrides)
    refuse_secrets(loaded)
    if loaded.config.state_dir != config.state_dir:
        raise StateError(
            f"{again.config} names another state folder by now, {loaded.config.state_dir}: "
            "end the daemon with `goclaw stop`, then start it anew"
        )
    for name in before.missing if before else ():
        if name not in os.environ and name not in given.overrides:
            say(f"warning: {name} was set where the daemon was started, and is not here: it goes on without it")
    asyncio.run(process.stop(config))
    bring_up(loaded, again)


def _merged(config: Config, before: LaunchRecord, given: Options) -> Options:
    """Return the options of this command, and for the rest those of the daemon."""
    named = given.config or os.environ.get(LOCATION) or before.config == config.state_dir / "config.yaml"
    return Options(given.config if named else before.config, {**before.overrides, **given.overrides}, given.debug)
