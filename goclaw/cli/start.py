"""`goclaw start`: a daemon that stays when this program and its terminal are gone."""

import asyncio

import typer

from goclaw.cli import systemd
from goclaw.cli.common import load, options
from goclaw.cli.frame import Options, say
from goclaw.cli.launch_record import secret_overrides
from goclaw.cli.process import listens, start_in_background
from goclaw.cli.unit import NAME, installed, unit_text
from goclaw.config.load import Loaded
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.state import running_pid

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def start(context: typer.Context) -> None:
    """Start the daemon in the background.

    Where `goclaw service install` put it into systemd, systemd starts it.
    """
    loaded = load(context)
    if listens(loaded.config):
        say(f"it runs already (pid {running_pid(loaded.config)})")
    else:
        bring_up(loaded, options(context))
        say(f"running in the background (pid {running_pid(loaded.config)})")
    for line in what_stays(loaded.config):
        say(line)


def bring_up(loaded: Loaded, given: Options) -> None:
    """Start a daemon that stays, and wait until it listens.

    Raises:
        StateError: it did not start; the message says why.
    """
    refuse_secrets(loaded)
    if runs_as_service(loaded, given):
        systemd.control("start", NAME)
    else:
        asyncio.run(start_in_background(loaded.config, given))


def refuse_secrets(loaded: Loaded) -> None:
    """Raise StateError for a secret among the options: a daemon has them for as long as it lives, for all to read."""
    if secrets := secret_overrides(loaded):
        raise StateError(
            f"{secrets[0]}: is a secret, and everybody on this machine can read the options of a daemon; "
            f"put it into a file of {loaded.config.state_dir / 'secrets'}"
        )


def runs_as_service(loaded: Loaded, given: Options) -> bool:
    """Whether systemd would start the very same daemon."""
    return not given.overrides and installed() == unit_text(loaded) and systemd.answers()


def what_stays(config: Config) -> list[str]:
    """Return lines about a daemon that stays in the background."""
    if installed() and running_pid(config) == systemd.main_pid():
        end = "It is run by systemd, also after this terminal is closed. `goclaw service status` says more."
    else:
        end = "It goes on when this terminal is closed, until `goclaw stop` or the machine ends it."
    return [
        end,
        "Talk to it with `goclaw`, or `goclaw send TEXT`. How it is: `goclaw status`.",
        f"It logs to {config.state_dir / 'logs' / 'goclaw.log'}; watch that with `goclaw logs -f`.",
    ]
