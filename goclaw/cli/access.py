"""`goclaw users|token|pair`: who may come in.

The people in users.json; access tokens for terminals, MCP clients and our registry; and requests to the bot, as
`/pair` handles them. A running daemon follows changes of the files within two seconds.
"""

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from goclaw.auth.tokens import add_token, read_tokens, revoke_token
from goclaw.auth.users import User, Users, add_user, login_name
from goclaw.auth.workplaces import place_of
from goclaw.cli.base import say, show
from goclaw.cli.options import load, spelling
from goclaw.config.schema import Config
from goclaw.core.clock import RealClock
from goclaw.core.files import shown_path
from goclaw.errors import ConfigError
from goclaw.workspace import SHARED

users_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check, list and add the people in users.json.",
)


@users_app.command()
def check(context: typer.Context) -> None:
    """Say whether users.json can be used, and which tools and roles in it do not exist."""
    loaded = load(context)
    path = loaded.config.users_path
    users = Users.read(path).all()
    for warning in spelling(loaded, users):
        say(f"warning: {warning}")
    if path.exists():
        print(f"{shown_path(path)}: fine, {len(users)} {'user' if len(users) == 1 else 'users'}")
    else:
        print(f"{shown_path(path)}: no such file; only the owner of the state folder may use GoClaw")


@users_app.command("list")
def list_users(context: typer.Context) -> None:
    """Print who may use GoClaw, and which tools."""
    config = load(context).config
    for user in Users.read(config.users_path).all():
        show(user_line(user, config))


@users_app.command("add")
def add_person(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="`telegram:<numeric user id>` or `tui:<name>`.")],
    name: Annotated[str, typer.Option(help="For people to read.")] = "",
    role: Annotated[list[str] | None, typer.Option(help="`user`, `admin` or one of `roles`; may be repeated.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option(help="Allow only this tool; may be repeated. Not given: all.")
    ] = None,
    workspace: Annotated[
        str,
        typer.Option(help="`own`, `shared`, or a folder; not given: what `workspaces` and roles say."),
    ] = "",
) -> None:
    """Add one person to users.json; a running daemon follows within two seconds."""
    loaded = load(context)
    path = loaded.config.users_path
    add_user(path, key, name=name, roles=role or ["user"], allowed_tools=tool, workspace=workspace)
    users = Users.read(path)
    added = users.get(key)
    if added:
        for warning in spelling(loaded, [added]):
            say(f"warning: {warning}")
        print(f"{shown_path(path)}: added {user_line(added, loaded.config)}")


def user_line(user: User, config: Config) -> str:
    """Format one line about a user."""
    place = place_of(config, user)
    own = f"workspace {shown_path(place.root)}" if user.workspace or place.shared else ""
    tools = "all tools" if user.allowed_tools is None else ", ".join(sorted(user.allowed_tools)) or "no tools"
    parts = [user.key, user.name, f"[{', '.join(sorted(user.roles))}]" if user.roles else "", tools]
    extras = [
        f"session {user.session}" if user.session else "",
        f"{own}, with {SHARED}/" if place.shared else own,
    ]
    return "  ".join(part for part in (*parts, *extras) if part)


DAY = 24 * 3600.0

token_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Make, list and revoke tokens for terminals and programs.",
)

TokenName = Annotated[str, typer.Argument(help="What the token is called: the machine that has it, say.")]


@token_app.command()
def add(
    context: typer.Context,
    name: TokenName,
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
    of_http = config.http.api or config.http.clients or config.http.openai or config.http.web
    if not (of_http or config.mcp.server.enabled or "registry_server" in config.model_fields_set):
        ways = (
            "`http.clients: true` (terminals), `http.api: true` or `http.openai: true` (programs), "
            "`http.web: true` (browsers), or "
            "`mcp.server.enabled: true` (MCP)"
        )
        say(f"nobody can come in with it until {ways} is set and the daemon restarted, or `goclaw registry serve` runs")


@token_app.command("list")
def list_tokens(context: typer.Context) -> None:
    """Print the tokens: their names and users, never themselves."""
    config = load(context).config
    users, now = Users.read(config.users_path), RealClock().now()
    for name, token in sorted(read_tokens(config.tokens_path).items()):
        until = "for ever" if token.until is None else f"until {_minute(token.until)}"
        over = " (expired)" if token.until is not None and token.until <= now else ""
        unknown = "" if token.owner or users.get(token.user) else " (not in users.json: of no use)"
        device = f"  {token.device}" if token.device else ""
        as_owner = " (owner)" if token.owner else ""
        show(f"{name}{device}  {token.user}{as_owner}{unknown}  made {_minute(token.made)}  {until}{over}")


@token_app.command()
def revoke(context: typer.Context, name: TokenName) -> None:
    """End a token; a client connected with it is cut off within two seconds."""
    revoke_token(load(context).config.tokens_path, name)
    print(f"revoked {name}")


def _minute(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%Y-%m-%d %H:%M}"


PAIRING_DONE = ("is let in:", "is not let in, and")
"""How `/pair` begins its answer when it succeeded."""

pair_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Let in, or turn away, who asked the bot (pairing.enabled).",
)

Code = Annotated[str, typer.Argument(help="As `goclaw pair list` shows it, or as somebody told you.")]


@pair_app.command("list")
def list_requests(context: typer.Context) -> None:
    """Print who asks to be let in."""
    show(_answer(context, "/pair list"))


@pair_app.command()
def approve(context: typer.Context, code: Code) -> None:
    """Let in the person who got this code: it makes an entry in users.json."""
    _order(context, f"/pair approve {code}")


@pair_app.command()
def deny(context: typer.Context, code: Code) -> None:
    """Turn away the person who got this code."""
    _order(context, f"/pair deny {code}")


def _order(context: typer.Context, command: str) -> None:
    said = _answer(context, command)
    show(said)
    if not any(words in said for words in PAIRING_DONE):
        raise typer.Exit(1)


def _answer(context: typer.Context, command: str) -> str:
    from goclaw.cli.send import send_and_wait  # only these commands talk to the daemon

    answer, _ = asyncio.run(send_and_wait(load(context).config, command, f"tui:{login_name()}"))
    return answer
