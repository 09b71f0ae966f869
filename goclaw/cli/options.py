"""Options that many commands share, and what follows from them: the configuration, or a daemon elsewhere."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goclaw.auth.config_lint import warnings
from goclaw.auth.users import User
from goclaw.cli.frame import Options, say
from goclaw.config.load import Loaded, load_config
from goclaw.config.schema import Config
from goclaw.config.state import open_state
from goclaw.core import catalog
from goclaw.core.plugins import third_party
from goclaw.errors import StateError
from goclaw.ops.backup import swap

if TYPE_CHECKING:
    from goclaw.tui.client import RemoteDaemon


def options(context: typer.Context) -> Options:
    """Return the options given before the command."""
    found = context.find_root().obj
    return found if isinstance(found, Options) else Options()


def load(context: typer.Context, *, packages: bool = True) -> Loaded:
    """Load the configuration for this command line; warnings go to standard error. An interrupted restore is finished.

    Without `packages` no foreign code is loaded if the configuration can be used without it: commands that end or watch
    the daemon must not hang in third-party code.

    Raises:
        ConfigError: it cannot be used.
        StateError: a restore is going on.
    """
    given = options(context)
    loaded = load_config(given.config, overrides=given.overrides, packages=packages)
    if swap.pending(loaded.config.state_dir):
        _finish_restore(loaded.config)
        loaded = load_config(given.config, overrides=given.overrides, packages=packages)
    for warning in (*loaded.warnings, *(f"{what}: {why}" for what, why in loaded.packaged.faults.items())):
        say(f"warning: {warning}")
    return loaded


def spelling(loaded: Loaded, users: Sequence[User]) -> Iterator[str]:
    """Yield the warnings of `config_lint.warnings`."""
    from goclaw.toolkit import arguments  # only a check needs to know what the tools are
    from goclaw.toolkit.parts import parts_of
    from goclaw.toolkit.registry import BuiltIn

    config = loaded.config
    tools = {name: frozenset[str]() for name in (*catalog.TOOLS, *third_party("tools"))}
    for name, settings in config.tools.cli.items():
        tools[name] = frozenset({"shell", "cli", *settings.tags})
    tools |= {tool.spec.name: tool.spec.tags for _, listed in parts_of(loaded.packaged).tools for tool in listed}
    built_in = {tool.spec.name: tool for tool in BuiltIn(catalog.GATED_TOOLS).tools()}
    tools |= {name: tool.spec.tags for name, tool in built_in.items()}

    def faults(name: str, given: Mapping[str, Any]) -> Sequence[str]:
        tool = built_in.get(name)
        return arguments.faults(tool.arguments, given) if tool else ()

    return warnings(config, users, tools, {*catalog.COMMANDS, *third_party("commands")}, faults, third_party("agents"))


def _finish_restore(config: Config) -> None:
    with open_state(config):
        try:
            swap.finish(config.state_dir)
        except OSError as error:
            words = f"{error.filename}: {error.strerror}"
            raise StateError(f"a restore was cut and cannot be finished: {words}. Mend that and try again") from error
    say("finished a restore that had been cut")


Url = Annotated[
    str,
    typer.Option(help="A daemon reached over TCP: http://127.0.0.1:8137, https://host. Needs an access token."),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="The file that holds the token; not given: the variable GOCLAW_TOKEN.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Send the token over http to another machine all the same.")]


def reach(url: str, token_file: Path | None, session: str, *, insecure: bool) -> "tuple[RemoteDaemon, str]":
    """Return the daemon, and the key of the session there (empty: the person's own one).

    Raises:
        ConfigError: the address or the token cannot be used.
        StateError: no daemon answers there, it refuses the token, or the session is not open to the person.
    """
    from goclaw.tui.client import remote_of  # most commands talk to no daemon

    remote, notes = remote_of(url, token_file, insecure=insecure)
    for warning in notes:
        say(f"warning: {warning}")
    return asyncio.run(_introduced(remote, session))


async def _introduced(remote: "RemoteDaemon", session: str) -> "tuple[RemoteDaemon, str]":
    """Ask the daemon for our user there."""
    from goclaw.tui.client import RemoteDaemon, attach

    async with attach(remote, session, limit=0) as client:
        attached = client.attached
    return RemoteDaemon(remote.url, remote.token, attached.person), session or attached.session
