"""`goclaw users`: the people in users.json, their actual rights, and adding them one by one or by preset."""

import asyncio
from typing import Annotated

import typer

from goclaw.common.auth.invitations import is_code
from goclaw.common.auth.presets import find_preset
from goclaw.common.auth.users import Users, add_user, remove_user
from goclaw.common.config.load import Loaded
from goclaw.common.core.files import shown_path
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.inviting import give_order, invite
from goclaw.program.cli.options import command_group, load, spelling
from goclaw.program.cli.rights import Wanted, person_lines, plan_people, rights_of, table, write
from goclaw.program.cli.state_files import FromFile, ToFile, bring_up_to_date, edit_file, export_file, import_file

users_app = command_group("Check, list, add and edit the people in users.json.")


@users_app.command()
def check(context: typer.Context) -> None:
    """Say whether users.json can be used, and which tools and roles in it do not exist."""
    loaded = load(context)
    path = loaded.config.users_path
    bring_up_to_date(loaded.config, path)
    users = Users.read(path).all()
    for warning in spelling(loaded, users):
        print_message(f"warning: {warning}")
    if path.exists():
        print(f"{shown_path(path)}: fine, {len(users)} {'user' if len(users) == 1 else 'users'}")
    else:
        print(f"{shown_path(path)}: no such file; only the owner of the state folder can use GoClaw")


@users_app.command("list")
def list_users(context: typer.Context) -> None:
    """Print who may use GoClaw, and what each of them may really do."""
    loaded = load(context)
    bring_up_to_date(loaded.config, loaded.config.users_path)
    users = Users.read(loaded.config.users_path).all()
    if not users:
        shown = shown_path(loaded.config.users_path)
        print(f"{shown} lists nobody: only the owner of the state folder can use GoClaw, in a terminal")
        print("add people with `goclaw users add KEY --preset adult` (docs/family.md)")
    rights = rights_of(loaded, users)
    for user in users:
        show("\n".join(person_lines(user, loaded.config, rights[user.key])))


@users_app.command("add")
def add_person(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="`telegram:<numeric user id>` or `tui:<name>`; with --invite a name.")],
    name: Annotated[str, typer.Option(help="The person's name.")] = "",
    role: Annotated[list[str] | None, typer.Option(help="`user`, `admin` or one of `roles`; may be repeated.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option(help="Allow only this tool; may be repeated. Not given: all.")
    ] = None,
    workspace: Annotated[
        str, typer.Option(help="`own`, `shared`, or a folder; default: as `workspaces` and roles say.")
    ] = "",
    preset: Annotated[
        str, typer.Option(help="`owner`, `adult`, `child` or `guest`: a role with all its settings.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Write the preset without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what the preset would write.")] = False,
    invited: Annotated[
        str, typer.Option("--invite", metavar="PRESET", help="Invite the person called so, with this preset.")
    ] = "",
) -> None:
    """Add one person to users.json; a running daemon follows within two seconds.

    With a preset a table shows first what the person will be able to do, or what changes for one who is listed.
    `--invite child Cem` makes a code and a link instead, by which Cem comes in: once, within seven days.
    """
    loaded = load(context)
    if invited:
        if preset or role or tool or workspace or name:
            raise typer.BadParameter("takes a preset and a name, and nothing else", param_hint="--invite")
        show(asyncio.run(invite(loaded.config, invited, key)))
        return
    if preset:
        if role:
            raise typer.BadParameter("a preset includes a role; use either --preset or --role", param_hint="--role")
        changes = {**({"allowedTools": tool} if tool else {}), **({"workspace": workspace} if workspace else {})}
        _add_by_preset(loaded, Wanted(key, find_preset(preset), name, changes), yes=yes, dry_run=dry_run)
        return
    if yes or dry_run:
        raise typer.BadParameter("needs --preset", param_hint="--yes" if yes else "--dry-run")
    path, writer = loaded.config.users_path, file_writer(loaded.config)
    add_user(path, key, name=name, roles=role or ["user"], allowed_tools=tool, workspace=workspace, writer=writer)
    added = Users.read(path).get(key)
    if added:
        for warning in spelling(loaded, [added]):
            print_message(f"warning: {warning}")
        print(f"{shown_path(path)}: added")
        show("\n".join(person_lines(added, loaded.config, rights_of(loaded, [added])[key])))


Person = Annotated[str, typer.Argument(metavar="PERSON", help="A key of users.json, or the person's name.")]


@users_app.command("set")
def set_person(
    context: typer.Context,
    person: Person,
    preset: Annotated[str, typer.Option(help="`owner`, `adult`, `child` or `guest`.")],
    name: Annotated[str, typer.Option(help="Another name; default: as now.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
) -> None:
    """Give a listed person another preset; a table shows first what changes."""
    loaded = load(context)
    key = _find_key(loaded, person)
    _add_by_preset(loaded, Wanted(key, find_preset(preset), name), yes=yes, dry_run=dry_run)


@users_app.command()
def remove(
    context: typer.Context,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="A key, a name, or an invitation's code.")],
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """Take a person out of users.json, or revoke an invitation. Conversations and files stay."""
    loaded = load(context)
    if is_code(person):
        show(asyncio.run(give_order(loaded.config, "revoke", person)))
        return
    key = _find_key(loaded, person)
    if not (yes or confirm(f"Remove {key}? Their conversations and files stay. [y/N] ")):
        print_message("nothing was written; `--yes` removes without asking")
        raise typer.Exit(1)
    remove_user(loaded.config.users_path, key, file_writer(loaded.config))
    print(f"{shown_path(loaded.config.users_path)}: removed {key}")


@users_app.command()
def waiting(context: typer.Context) -> None:
    """List who asked to be let in, and who is invited and has not come yet."""
    show(asyncio.run(give_order(load(context).config, "waiting")))


def _find_key(loaded: Loaded, person: str) -> str:
    """Return the key of a listed person, named by key or name; raises ConfigError where it is not one person."""
    path = loaded.config.users_path
    bring_up_to_date(loaded.config, path)
    users = Users.read(path)
    found = [user.key for user in users.all() if user.name.casefold() == person.casefold()]
    if users.get(person):
        return person
    if len(found) == 1:
        return found[0]
    why = f"is the name of {', '.join(found)}: name the key" if found else "is not listed; see `goclaw users list`"
    raise ConfigError(f"{shown_path(path)}: {person} {why}")


@users_app.command()
def edit(context: typer.Context) -> None:
    """Open users.json in your editor; what you save counts if it can be used."""
    config = load(context).config
    edit_file(config, config.users_path)


@users_app.command("export")
def export_users(context: typer.Context, to: ToFile = None) -> None:
    """Print users.json, or write it into a file."""
    config = load(context).config
    export_file(config, config.users_path, to)


@users_app.command("import")
def import_users(context: typer.Context, file: FromFile) -> None:
    """Replace users.json by a file, if it can be used."""
    config = load(context).config
    import_file(config, config.users_path, file)


def _add_by_preset(loaded: Loaded, wanted: Wanted, *, yes: bool, dry_run: bool) -> None:
    bring_up_to_date(loaded.config, loaded.config.users_path)
    plans = plan_people(loaded.config, [wanted])
    show("\n".join(asyncio.run(table(loaded, plans))))
    if dry_run:
        return
    if not (yes or confirm("Write this? [y/N] ")):
        print_message("nothing was written; `--yes` writes without asking")
        raise typer.Exit(1)
    for line in write(loaded, plans):
        print(line)


def confirm(question: str) -> bool:
    """Return whether the next line of standard input says yes."""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
