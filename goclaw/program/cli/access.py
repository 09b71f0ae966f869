"""`goclaw token|pair`: who may come in.

Access tokens for terminals, MCP clients and our registry; and requests to the bot, as `/pair` handles them. A running
daemon follows changes of the files within two seconds.
"""

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from goclaw.common.auth.tokens import add_token, read_tokens, revoke_token
from goclaw.common.auth.users import Users, login_name
from goclaw.common.core.clock import RealClock
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import command_group, load
from goclaw.program.cli.state_files import bring_up_to_date

DAY = 24 * 3600.0

token_app = command_group("Create, list and revoke tokens for terminals and programs.")

TokenName = Annotated[str, typer.Argument(help="A name for the token, for example the machine that uses it.")]


@token_app.command()
def add(
    context: typer.Context,
    name: TokenName,
    user: Annotated[str, typer.Option(help="The user it acts as: a key of users.json, like `tui:ann`.")],
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36_500, help="Days until it expires; default: never")
    ] = None,
) -> None:
    """Make a token and print it: this once, for only its hash is kept."""
    config = load(context).config
    bring_up_to_date(config, config.users_path)
    if Users.read(config.users_path).get(user) is None:
        raise ConfigError(f"{user} is not in users.json; run `goclaw users add {user}` first")
    now = RealClock().now()
    until = None if days is None else now + days * DAY
    secret = add_token(config.tokens_path, name, user, now, until, file_writer(config))
    print(secret)
    print_message(
        f"created {name}, which acts as {user}. It is shown only once: save it in a file that only its user can read"
    )
    of_http = config.http.api or config.http.clients or config.http.openai or config.http.web
    if not (of_http or config.mcp.server.enabled or "registry_server" in config.model_fields_set):
        ways = (
            "`http.clients: true` (terminals), `http.api: true` or `http.openai: true` (programs), "
            "`http.web: true` (browsers), or "
            "`mcp.server.enabled: true` (MCP)"
        )
        print_message(
            f"the token is of no use until you set {ways} and restart the daemon, or run `goclaw registry serve`"
        )


@token_app.command("list")
def list_tokens(context: typer.Context) -> None:
    """Print the tokens: their names and users, never themselves."""
    config = load(context).config
    bring_up_to_date(config, config.users_path, config.tokens_path)
    users, now = Users.read(config.users_path), RealClock().now()
    for name, token in sorted(read_tokens(config.tokens_path).items()):
        until = "forever" if token.until is None else f"until {_minute(token.until)}"
        over = " (expired)" if token.until is not None and token.until <= now else ""
        unknown = "" if token.owner or users.get(token.user) else " (not in users.json, so not valid)"
        device = f"  {token.device}" if token.device else ""
        as_owner = " (owner)" if token.owner else ""
        show(f"{name}{device}  {token.user}{as_owner}{unknown}  made {_minute(token.made)}  {until}{over}")


@token_app.command()
def revoke(context: typer.Context, name: TokenName) -> None:
    """End a token; a client connected with it is cut off within two seconds."""
    config = load(context).config
    revoke_token(config.tokens_path, name, file_writer(config))
    print(f"revoked {name}")


def _minute(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%Y-%m-%d %H:%M}"


pair_app = command_group("Approve or refuse requests for access (pairing.enabled).")

Code = Annotated[str, typer.Argument(help="The code, as in `goclaw pair list` or as the person told you.")]


@pair_app.command("list")
def list_requests(context: typer.Context) -> None:
    """Print who asks to be let in."""
    _order(context, "/pair list")


@pair_app.command()
def approve(
    context: typer.Context,
    code: Code,
    preset: Annotated[str, typer.Option(help="`adult`, `child` or `guest`; default: `pairing.role`.")] = "",
) -> None:
    """Let in the person who got this code: it makes an entry in users.json."""
    _order(context, f"/pair approve {code} {preset}".strip())


@pair_app.command()
def deny(context: typer.Context, code: Code) -> None:
    """Turn away the person who got this code."""
    _order(context, f"/pair deny {code}")


def _order(context: typer.Context, command: str) -> None:
    from goclaw.program.cli.send import send_and_wait  # only these commands talk to the daemon

    answer, went_well = asyncio.run(send_and_wait(load(context).config, command, f"tui:{login_name()}"))
    show(answer)
    if not went_well:
        raise typer.Exit(1)
