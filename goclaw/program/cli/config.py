"""`goclaw config|doctor`: check, show and explain the configuration; try everything out.

Both report weak settings, by `doctor.security`; `config check` also says what several people share.
"""

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer

from goclaw.common.auth.access import own_session
from goclaw.common.auth.users import User, Users
from goclaw.common.auth.workplaces import places_of
from goclaw.common.config.document import effective, example, markdown
from goclaw.common.config.listening import hindrances
from goclaw.common.config.policies import ADMIN, USER
from goclaw.common.config.schema import Config
from goclaw.common.core.files import shown_path
from goclaw.common.workspace import SHARED
from goclaw.llm.open import check_caching
from goclaw.program.cli.base import print_message
from goclaw.program.cli.options import command_group, load, spelling
from goclaw.program.cli.rights import person_lines, rights_of
from goclaw.program.ops.doctor import examine
from goclaw.program.ops.doctor.security import weak_spots

config_app = command_group("Check, show and explain the configuration.")


@config_app.command()
def check(context: typer.Context) -> None:
    """Say whether it can be used, what is weak, and what is shared with whom."""
    loaded = load(context)
    check_caching(loaded.config)
    path = loaded.config.users_path
    users = Users.read(path).all()
    for warning in spelling(loaded, users):
        print_message(f"warning: {warning}")
    for place, why in hindrances(loaded.config):
        print_message(f"warning: {place}: {why}")
    print(f"{shown_path(loaded.path)}: fine" if loaded.path else "no configuration file; the defaults are in force")
    print(f"{shown_path(path)}: fine" if path.exists() else f"{shown_path(path)}: no such file; no users are listed")
    rights = rights_of(loaded, users)
    _section("Weak", (f"{spot.text}\n    → {spot.remedy}" for spot in weak_spots(loaded, users)))
    _section("Rights", (line for user in users for line in person_lines(user, loaded.config, rights[user.key])))
    _section("Shared", shared(loaded.config, users, {key for key, each in rights.items() if each.writes_files}))


@config_app.command()
def show(context: typer.Context) -> None:
    """Print the configuration in force, secrets hidden, and where each value was set."""
    loaded = load(context)
    print(effective(loaded.config, loaded.origin), end="")


@config_app.command()
def schema(
    markdown_: Annotated[bool, typer.Option("--markdown", help="Print docs/configuration.md instead.")] = False,
) -> None:
    """Print the JSON Schema of config.yaml, for editors."""
    if markdown_:
        print(markdown(), end="")
    else:
        print(json.dumps(Config.model_json_schema(), indent=2, ensure_ascii=False))


@config_app.command("example")
def example_() -> None:
    """Print a config.yaml with every key, its meaning and its default."""
    print(example(), end="")


@config_app.command("openapi")
def openapi_() -> None:
    """Print docs/openapi.json: the HTTP API (`http.api`) for programs that make clients of it."""
    from goclaw.gateway.servers.api.table import document  # its libraries take long

    print(document().decode(), end="")


def _section(title: str, lines: Iterable[str]) -> None:
    found = list(lines)
    print(f"{title}:" if found else f"{title}: nothing")
    for line in found:
        print(f"  {line}")


def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not contact the model.")] = False,
) -> None:
    """Check every part and say how to fix problems. Exit code 1 when something is broken.

    The model is asked for one tool call, which may cost a little; --offline leaves that out.
    """
    findings = asyncio.run(examine(load(context), print_message, offline=offline))
    if as_json:
        print(orjson.dumps([asdict(finding) for finding in findings]).decode())
    else:
        print("\n".join(finding.line() for finding in findings))
    if any(finding.verdict == "problem" for finding in findings):
        raise typer.Exit(1)


def shared(config: Config, users: Sequence[User], writers: Collection[str]) -> Iterator[str]:
    """Yield folders and conversations that several people share, one line each.

    Args:
        config: the configuration.
        users: the people in users.json.
        writers: the keys of those who have a tool that changes files.
    """
    owner = "the owner of the state folder"
    folders: dict[Path, list[str]] = {config.workspace_path: [owner]}
    writing: dict[Path, list[str]] = {config.workspace_path: [owner]}
    sessions: dict[str, list[str]] = {}
    places = places_of(config, users)
    for user in users:
        for folder in places[user.key].folders:
            folders.setdefault(folder, []).append(_label(user))
            writing.setdefault(folder, []).extend([_label(user)] if user.key in writers else [])
        sessions.setdefault(user.session or own_session(user.key), []).append(_label(user))
    for folder, people in folders.items():
        shown = f", {SHARED}/ of the others" if any(place.shared == folder for place in places.values()) else ""
        yield f"workspace {shown_path(folder)}{shown}, files and memory: {', '.join(people)}"
        if len(people) > 1:
            files = "AGENTS.md, SOUL.md …"
            who = ", ".join(writing[folder]) or "nobody"
            yield f"who may write the agent's instructions in {shown_path(folder)} ({files}): {who}"
    for session, people in sessions.items():
        if len(people) > 1:
            yield f"session {session}, the whole conversation: {', '.join(people)}"
    if any(user.key.startswith("telegram:") for user in users):
        yield "sessions of Telegram groups: every listed user of Telegram"
    seeing = {ADMIN, *(name for name, role in config.roles.items() if role.sessions != "own")}
    yield f"all sessions: {', '.join([owner, *(_label(user) for user in users if (user.roles or {USER}) & seeing)])}"


def _label(user: User) -> str:
    return f"{user.key} ({user.name})" if user.name else user.key
