"""`goclaw token add|list|revoke`: who may come in over TCP, with a terminal, as an MCP client or to our registry.

A running daemon follows within two seconds.
"""

from datetime import datetime
from typing import Annotated

import typer

from goclaw.cli.common import load
from goclaw.cli.frame import say, show
from goclaw.clock import RealClock
from goclaw.errors import ConfigError
from goclaw.tokens import add_token, read_tokens, revoke_token
from goclaw.users import Users

DAY = 24 * 3600.0

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Make, list and revoke tokens for terminals and programs.",
)

Name = Annotated[str, typer.Argument(help="What the token is called: the machine that has it, say.")]


@app.command()
def add(
    context: typer.Context,
    name: Name,
    user: Annotated[str, typer.Option(help="As whom it comes in: a key of users.json, like `tui:ann`.")],
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36_500, help="How long it lasts; not given: for ever")
    ] = None,
) -> None:
    """Make a token and print it: this once, for only its hash is kept."""
    config = load(context).config
    if Users.read(config.users_path).get(user) is None:
        raise ConfigError(f"{user} is not in users.json: `goclaw users add {user}` first")
    now = RealClock().now()
    secret = add_token(config.tokens_path, name, user, now, None if days is None else now + days * DAY)
    print(secret)
    say(f"made {name}, which acts as {user}. It is shown this once: put it into a file that only its user can read")
    if not (config.http.clients or config.mcp.server.enabled or "registry_server" in config.model_fields_set):
        ways = "`http.clients: true` (terminals) or `mcp.server.enabled: true` (MCP clients)"
        say(f"nobody can come in with it until {ways} is set and the daemon restarted, or `goclaw registry serve` runs")


@app.command("list")
def list_(context: typer.Context) -> None:
    """Print the tokens: their names and users, never themselves."""
    config = load(context).config
    users, now = Users.read(config.users_path), RealClock().now()
    for name, token in sorted(read_tokens(config.tokens_path).items()):
        until = "for ever" if token.until is None else f"until {_day(token.until)}"
        over = " (expired)" if token.until is not None and token.until <= now else ""
        unknown = "" if users.get(token.user) else " (not in users.json: of no use)"
        show(f"{name}  {token.user}{unknown}  made {_day(token.made)}  {until}{over}")


@app.command()
def revoke(context: typer.Context, name: Name) -> None:
    """End a token; a client connected with it is cut off within two seconds."""
    revoke_token(load(context).config.tokens_path, name)
    print(f"revoked {name}")


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%Y-%m-%d %H:%M}"
