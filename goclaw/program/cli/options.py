"""Options that many commands share, and what follows from them: the configuration, or a daemon elsewhere."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goclaw.common.auth.config_lint import warnings
from goclaw.common.auth.users import User
from goclaw.common.config.load import Loaded
from goclaw.common.core import catalog
from goclaw.common.core.plugins import third_party
from goclaw.program.cli.base import Options, print_message
from goclaw.program.cli.loading import load_for

if TYPE_CHECKING:
    from goclaw.clients.tui.client import RemoteDaemon


def command_group(text: str) -> typer.Typer:
    """Return an empty group of commands, which shows its help when no command is given."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help=text)


def options(context: typer.Context) -> Options:
    """Return the options given before the command."""
    found = context.find_root().obj
    return found if isinstance(found, Options) else Options()


def load(context: typer.Context, *, packages: bool = True) -> Loaded:
    """Load the configuration for this command line; see `loading.load_for`, for its errors, too."""
    return load_for(options(context), packages=packages)


def spelling(loaded: Loaded, users: Sequence[User]) -> Iterator[str]:
    """Yield the warnings of `config_lint.warnings`."""
    from goclaw.tools.toolkit import arguments  # only a check needs to know what the tools are
    from goclaw.tools.toolkit.parts import parts_of
    from goclaw.tools.toolkit.registry import BuiltIn

    config = loaded.config
    tools = {name: frozenset[str]() for name in (*catalog.TOOLS, *third_party("tools"))}
    for name, settings in config.tools.cli.items():
        tools[name] = frozenset({"shell", "cli", *settings.tags})
    parts = parts_of(loaded.packaged)
    tools |= {tool.spec.id: tool.spec.tags for _, listed in parts.tools for tool in listed}
    tools |= {tool.spec.id: tool.spec.tags for file in parts.of_files.values() for tool in file.tools}
    built_in = {tool.spec.name: tool for tool in BuiltIn(catalog.GATED_TOOLS).tools()}
    tools |= {name: tool.spec.tags for name, tool in built_in.items()}

    def faults(name: str, given: Mapping[str, Any]) -> Sequence[str]:
        tool = built_in.get(name)
        return arguments.faults(tool.arguments, given) if tool else ()

    return warnings(config, users, tools, {*catalog.COMMANDS, *third_party("commands")}, faults, third_party("agents"))


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[
    str, typer.Option(help="A daemon reached over TCP: http://127.0.0.1:8137, https://host. Needs an access token.")
]
TokenFile = Annotated[Path | None, typer.Option(help="The file with the token; default: the variable GOCLAW_TOKEN.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow sending the token unencrypted (http) to another machine.")
]


def reach(url: str, token_file: Path | None, session: str, *, insecure: bool) -> "tuple[RemoteDaemon, str]":
    """Return the daemon, and the key of the session there (empty: the person's own one).

    Raises:
        ConfigError: the address or the token cannot be used.
        StateError: no daemon answers there, it refuses the token, or the session is not open to the person.
    """
    from goclaw.clients.tui.client import remote_of  # most commands talk to no daemon

    remote, notes = remote_of(url, token_file, insecure=insecure)
    for warning in notes:
        print_message(f"warning: {warning}")
    return asyncio.run(_resolve_user(remote, session))


async def _resolve_user(remote: "RemoteDaemon", session: str) -> "tuple[RemoteDaemon, str]":
    """Ask the daemon for our user there."""
    from goclaw.clients.tui.client import RemoteDaemon, attach

    async with attach(remote, session, limit=0) as client:
        attached = client.attached
    return RemoteDaemon(remote.url, remote.token, attached.person), session or attached.session
