"""`goclaw users check|list|add`."""

from typing import Annotated

import typer

from goclaw.cli.common import load, spelling
from goclaw.cli.frame import say, show
from goclaw.config.files import shown_path
from goclaw.users import User, Users, add_user

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check, list and add the people in users.json.",
)


@app.command()
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


@app.command("list")
def list_(context: typer.Context) -> None:
    """Print who may use GoClaw, and which tools."""
    for user in Users.read(load(context).config.users_path).all():
        show(described(user))


@app.command()
def add(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="`telegram:<numeric user id>` or `tui:<name>`.")],
    name: Annotated[str, typer.Option(help="For people to read.")] = "",
    role: Annotated[list[str] | None, typer.Option(help="`user`, `admin` or one of `roles`; may be repeated.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option(help="Allow only this tool; may be repeated. Not given: all.")
    ] = None,
) -> None:
    """Add one person to users.json; a running daemon follows within two seconds."""
    loaded = load(context)
    path = loaded.config.users_path
    add_user(path, key, name=name, roles=role or ["user"], allowed_tools=tool)
    users = Users.read(path)
    added = users.get(key)
    if added:
        for warning in spelling(loaded, [added]):
            say(f"warning: {warning}")
        print(f"{shown_path(path)}: added {described(added)}")


def described(user: User) -> str:
    """Format one line about a user."""
    tools = "all tools" if user.allowed_tools is None else ", ".join(sorted(user.allowed_tools)) or "no tools"
    parts = [user.key, user.name, f"[{', '.join(sorted(user.roles))}]" if user.roles else "", tools]
    extras = [
        f"session {user.session}" if user.session else "",
        f"workspace {user.workspace}" if user.workspace else "",
    ]
    return "  ".join(part for part in (*parts, *extras) if part)
