"""`goclaw gateway|start|stop|restart|status`: the daemon here or in the background, its end and its state.

Where `goclaw service install` put the daemon into systemd, systemd starts and restarts it.
"""

import asyncio
import os
from typing import Annotated, Any

import orjson
import typer

from goclaw.common.auth.users import login_name
from goclaw.common.config.load import Loaded, load_config
from goclaw.common.config.schema import Config
from goclaw.common.config.sources import LOCATION
from goclaw.common.config.state import running_pid
from goclaw.common.core.container import daemon_command, is_main_program
from goclaw.errors import StateError
from goclaw.program.cli import process
from goclaw.program.cli.base import Options, print_message, show
from goclaw.program.cli.gateway import run_gateway
from goclaw.program.cli.loading import restore_plugins
from goclaw.program.cli.options import load, options
from goclaw.program.cli.process import listens, recall, secret_overrides, start_in_background
from goclaw.program.cli.systemd import UNIT_NAME, manager_for, manager_of


def gateway(context: typer.Context) -> None:
    """Run the daemon here, until Ctrl-C or SIGTERM."""
    run_gateway(options(context))


def start(context: typer.Context) -> None:
    """Start the daemon in the background.

    Where `goclaw service install` put it into systemd, systemd starts it.
    """
    loaded = load(context)
    if listens(loaded.config):
        print_message(f"already running (pid {running_pid(loaded.config)})")
    else:
        bring_up(loaded, options(context))
        print_message(f"running in the background (pid {running_pid(loaded.config)})")
    if manager_of(running_pid(loaded.config)):
        print_message("systemd runs it, even after you close this terminal. `goclaw service status` shows more.")
    else:
        end = f"until {daemon_command('stop')} or a shutdown of the machine."
        print_message(f"It keeps running after you close this terminal, {end}")
    print_message("Talk to it with `goclaw`, or `goclaw send TEXT`. Check it with `goclaw status`.")
    log = loaded.config.state_dir / "logs" / "goclaw.log"
    print_message(f"It logs to {log}; follow the log with `goclaw logs -f`.")


def bring_up(loaded: Loaded, given: Options) -> None:
    """Start a daemon that stays, and wait until it listens.

    Raises:
        StateError: it did not start; the message says why.
    """
    refuse_secrets(loaded)
    restore_plugins(loaded.config)  # here, where it can be seen
    manager = None if given.overrides else manager_for(loaded)  # else it would be another daemon
    if manager and manager.answers():
        manager.control("start", UNIT_NAME)
    else:
        asyncio.run(start_in_background(loaded.config, given))


def refuse_secrets(loaded: Loaded) -> None:
    """Raise StateError for a secret among the options: a daemon shows them to everyone while it lives."""
    if secrets := secret_overrides(loaded):
        raise StateError(
            f"{secrets[0]}: is a secret, but everybody on this machine can read a daemon's options; put it in a file "
            f"in {loaded.config.state_dir / 'secrets'}"
        )


def stop(context: typer.Context) -> None:
    """Stop the daemon; unfinished work resumes at the next start."""
    loaded = load(context, packages=False)
    running = running_pid(loaded.config)
    if running and is_main_program(running):
        raise StateError(f"this container ends with its daemon; run {daemon_command('stop')} outside of it")
    pid = asyncio.run(process.stop(loaded.config))
    manager = manager_for(loaded) if pid is None else None
    # After a failure it starts the daemon again in a moment.
    if manager and manager.properties("ActiveState")["ActiveState"] == "activating":
        manager.control("stop", UNIT_NAME)
        print_message("systemd was about to restart it; stopped")
    else:
        print_message(f"stopped (pid {pid})" if pid else "not running")


def restart(context: typer.Context) -> None:
    """Restart the daemon.

    It gets the options that it was started with; those of this command go before them. The configuration is checked
    first: one that cannot be used ends nothing.
    """
    loaded, given = load(context), options(context)
    config = loaded.config
    pid = running_pid(config)
    if pid and is_main_program(pid):
        raise StateError(f"this container ends with its daemon; run {daemon_command('restart')} outside of it")
    if manager := manager_of(pid):
        if given.overrides or (given.config and manager.installed_unit() != manager.unit_text(loaded)):
            raise StateError(
                "systemd starts the daemon with the options in its unit; change them with `goclaw service install`"
            )
        restore_plugins(config)
        manager.control("restart", UNIT_NAME)
    else:
        loaded, given = as_before(config, given)
        restore_plugins(config)  # before the end of the one that runs, which goes on with what it has
        asyncio.run(process.stop(config))
        bring_up(loaded, given)
    print_message(f"{'' if pid else 'it was not running; now '}running in the background (pid {running_pid(config)})")


def as_before(config: Config, given: Options) -> tuple[Loaded, Options]:
    """Return the configuration and the options for restarting the running daemon: these, and for the rest its own.

    Says which variables it had and would not have.

    Raises:
        ConfigError: the configuration cannot be used.
        StateError: it names another state folder by now, or the options hold a secret.
    """
    before, again = recall(config), given
    if before:
        named = given.config or os.environ.get(LOCATION) or before.config == config.state_dir / "config.yaml"
        file = given.config if named else before.config
        again = Options(file, {**before.overrides, **given.overrides}, given.debug)
    loaded = load_config(again.config, overrides=again.overrides)
    refuse_secrets(loaded)
    if loaded.config.state_dir != config.state_dir:
        raise StateError(
            f"{again.config} now names another state folder, {loaded.config.state_dir}: stop the daemon with "
            f"{daemon_command('stop')}, then start it again"
        )
    for name in before.missing if before else ():
        if name not in os.environ and name not in given.overrides:
            print_message(
                f"warning: {name} was set when the daemon was started but is not set here; the daemon continues "
                "without it"
            )
    return loaded, again


def status(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    session: Annotated[str, typer.Option(help="The conversation; default: your own.")] = "",
) -> None:
    """Print the state of the running daemon. Exit code 1 when no daemon runs."""
    config = load(context, packages=False).config
    if not listens(config):
        if as_json:
            print(orjson.dumps({"running": False}).decode())
        else:
            print_message(f"not running (state folder {config.state_dir}). Start it with `goclaw`.")
        raise typer.Exit(1)
    numbers = asyncio.run(_ask_status(config, session or f"tui:{login_name()}"))
    text = numbers.pop("text")
    if as_json:
        print(orjson.dumps({"running": True, "pid": running_pid(config), **numbers}).decode())
    else:
        show(f"{text}\n\nProcess: pid {running_pid(config)}")


async def _ask_status(config: Config, session: str) -> dict[str, Any]:
    from goclaw.clients.tui.client import attach  # starting and stopping a daemon needs no connection

    async with attach(config.socket_path, session, limit=1) as client:
        return await client.status()
