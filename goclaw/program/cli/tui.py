"""`goclaw tui`, and `goclaw` alone: start the daemon if none runs, then the terminal client.

Without a terminal `goclaw` alone is the daemon, here.
"""

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from goclaw.clients.tui.client import RemoteDaemon
from goclaw.clients.tui.plain import converse
from goclaw.common.auth.users import login_name
from goclaw.common.config.schema import Config
from goclaw.common.core.container import daemon_command
from goclaw.errors import StateError
from goclaw.program.cli.base import print_message
from goclaw.program.cli.lifecycle import bring_up
from goclaw.program.cli.options import Insecure, TokenFile, Url, load, options, reach
from goclaw.program.cli.process import launch_record, listens


def home(context: typer.Context) -> None:
    """Start the daemon if none runs, then talk to the agent in this terminal."""
    loaded, given = load(context), options(context)
    if not sys.stdin.isatty():
        from goclaw.program.cli.daemon import serve
        from goclaw.program.cli.loop import run_daemon

        run_daemon(serve(loaded, launch_record(loaded, given)))
        return
    if not listens(loaded.config):
        print_message("starting the daemon …")
        bring_up(loaded, given)
    talk_here(loaded.config)


def talk_here(
    config: Config,
    session: str = "",
    *,
    plain: bool = False,
    mouse: bool = True,
    pick: bool = False,
    remote: RemoteDaemon | None = None,
) -> None:
    """Talk in `session` (empty: the person's own) in this terminal, or in plain lines without one.

    `pick` begins with the list of sessions. `remote` is a daemon elsewhere, and then `session` is not empty.

    Raises:
        StateError: no daemon answers, or it went away under a conversation in plain lines; or the session is not open
            to the person; or `pick` where plain lines are shown.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    in_lines = plain or not is_terminal
    if in_lines and pick:
        raise StateError("--pick needs the full client in a terminal; `goclaw sessions list` shows the sessions here")
    if in_lines:
        try:
            asyncio.run(converse(remote or config.socket_path, session or own_session()))
        except KeyboardInterrupt:
            print()
        if sys.stdin.isatty():
            print_message(goodbye(session, remote=remote))
    else:
        _open_terminal(config, session, mouse=mouse, pick=pick, remote=remote)


def own_session() -> str:
    """Return the session of the user who runs this program."""
    return f"tui:{login_name()}"


def goodbye(session: str = "", *, runs: bool = True, remote: RemoteDaemon | None = None) -> str:
    """Return the last line: what goes on, how to come back, how to end it."""
    if remote:
        return f"GoClaw at {remote} keeps running. Come back with `goclaw tui --url {remote}`."
    back = f"goclaw tui --session {session}" if session else "goclaw tui"
    if runs:
        return (
            f"GoClaw keeps running in the background. Come back with `{back}`, stop it with {daemon_command('stop')}."
        )
    return "The daemon is not running. Start it and come back with `goclaw`; no accepted message is lost."


def _open_terminal(config: Config, session: str, *, mouse: bool, pick: bool, remote: RemoteDaemon | None) -> None:
    # Nothing that is made until the first picture becomes garbage; looking for some costs a tenth of the start.
    gc.disable()
    from goclaw.clients.tui.app import DaemonPlace, open_terminal

    # The log of a daemon elsewhere is not to be had; that of one here is not what is asked for.
    log = Path(os.devnull) if remote else config.state_dir / "logs" / "goclaw.log"
    place = DaemonPlace(config.socket_path, log, config.state_dir, remote)
    farewell = asyncio.run(open_terminal(place, session or own_session(), mouse=mouse, pick=pick))
    for text in farewell.unsent:
        print_message(f"not sent: {text}")
    last = farewell.session or session
    print_message(goodbye("" if last == own_session() else last, runs=farewell.connected, remote=remote))


def tui(
    context: typer.Context,
    session: Annotated[str, typer.Option(help="The conversation; default: your own.")] = "",
    pick: Annotated[bool, typer.Option("--pick", help="Start with the list of conversations.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, as in a pipe.")] = False,
    mouse: Annotated[bool, typer.Option(help="Use the mouse to fold cards and scroll.")] = True,
    url: Url = "",
    token_file: TokenFile = None,
    insecure: Insecure = False,
) -> None:
    """Talk to the agent in this terminal."""
    config, remote = load(context, packages=False).config, None
    if url:
        remote, session = reach(url, token_file, session, insecure=insecure)
    talk_here(config, session, plain=plain, mouse=mouse, pick=pick, remote=remote)
