"""`goclaw web`: a one-time link to the web page of the running daemon, opened in the browser where there is one."""

import asyncio
import html
import os
import sys
import webbrowser
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import aiohttp
import typer

from goclaw.clients.tui.client import own_socket
from goclaw.common.auth.web_logins import LINK_SECONDS
from goclaw.common.config.schema import Config
from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import replace_file, shown_path
from goclaw.common.core.wire import LINK_PATH
from goclaw.errors import StateError
from goclaw.program.cli.base import print_message
from goclaw.program.cli.options import load

SECONDS = 30.0
"""Time for the daemon's answer."""
LEADS_FILE = "web-link.html"
"""File of the state folder that leads the browser to the page."""


def open_page(
    context: typer.Context,
    user: Annotated[str, typer.Option(help="Sign in as this user of users.json; default: as the owner.")] = "",
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Only print the link, for a browser on another machine.")
    ] = False,
) -> None:
    """Open the web page, signed in by a one-time link. The link is also printed; without a browser, only that."""
    loaded = load(context)
    config = loaded.config
    if not config.http.web:
        file = shown_path(loaded.path or config.state_dir / "config.yaml")
        remedy = f"set `http.web: true` in {file}, then {daemon_command('restart')}"
        raise StateError(f"the web page is off: {remedy} (docs/web-page.md)")
    url = asyncio.run(_link(config, user))
    print(url)
    who = f"as {user}" if user else "with all rights of the owner"
    print_message(f"the link signs in one browser {who}, within {LINK_SECONDS:g} s; do not share it")
    # One with a window: one in text would take the terminal.
    has_browser = sys.platform == "darwin" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))
    if not no_open and has_browser:
        try:
            webbrowser.open(_lead(config.state_dir / LEADS_FILE, url).as_uri())
        except (OSError, webbrowser.Error) as error:
            print_message(f"no browser could be opened: {error}; open the link yourself")


async def _link(config: Config, user: str) -> str:
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    address = f"http://goclaw{LINK_PATH}"
    try:
        async with (
            aiohttp.ClientSession(connector=own_socket(config.socket_path), timeout=timeout) as http,
            http.post(address, params={"user": user} if user else None) as response,
        ):
            said = await response.text()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise StateError(f"no GoClaw daemon answers; start it with {daemon_command('start')}") from error
    if response.status != HTTPStatus.OK:
        known = response.status in (HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN)
        raise StateError(said if known else f"the daemon is older than this command; {daemon_command('restart')}")
    return said


def _lead(path: Path, url: str) -> Path:
    """Write a page that leads to the link: on a command line other users of the machine could read it, and be first."""
    shown = html.escape(url)
    replace_file(
        path,
        '<!doctype html><meta charset="utf-8"><title>GoClaw</title>'
        f'<meta http-equiv="refresh" content="0; url={shown}"><p><a href="{shown}">GoClaw</a>\n',
    )
    return path
