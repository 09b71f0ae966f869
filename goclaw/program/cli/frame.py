"""Frame of the command line: the table of commands, the options before them, and how wrong usage reads.

Only light modules are imported here; a command's module comes with its first call.
"""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from goclaw import __version__
from goclaw.program.cli.base import COMPLETING, FAILED, Options, print_message

COMMANDS: Mapping[str, tuple[str, str]] = {
    "gateway": ("goclaw.program.cli.lifecycle:gateway", "Run the daemon here, until Ctrl-C or SIGTERM."),
    "tui": ("goclaw.program.cli.tui:tui", "Talk to the agent in this terminal."),
    "web": ("goclaw.program.cli.web:open_page", "Open the web page, signed in by a one-time link."),
    "open": ("goclaw.program.cli.open:open_file", "Show a file of the agent's workspace on this machine."),
    "send": ("goclaw.program.cli.send:send", "Send one message and print the answer."),
    "status": ("goclaw.program.cli.lifecycle:status", "Print the state of the running daemon."),
    "start": ("goclaw.program.cli.lifecycle:start", "Start the daemon in the background."),
    "stop": ("goclaw.program.cli.lifecycle:stop", "Stop the daemon; unfinished work resumes at the next start."),
    "restart": ("goclaw.program.cli.lifecycle:restart", "Restart the daemon."),
    "logs": ("goclaw.program.cli.logs:logs", "Show the daemon's log."),
    "audit": ("goclaw.program.cli.logs:audit_app", "Show the audit log: who did what, by which rule and result."),
    "service": ("goclaw.program.cli.service:app", "Let systemd start the daemon and keep it running."),
    "setup": ("goclaw.program.cli.setup:setup", "Connect a model, Telegram and yourself in a few questions."),
    "model": ("goclaw.program.cli.model:model", "Show which model answers, or choose another one."),
    "doctor": ("goclaw.program.cli.config:doctor", "Check every part and say how to fix problems."),
    "config": ("goclaw.program.cli.config:config_app", "Check, show and explain the configuration."),
    "users": ("goclaw.program.cli.users:users_app", "Check, list, add and edit the people in users.json."),
    "token": ("goclaw.program.cli.access:token_app", "Create, list and revoke tokens for terminals and programs."),
    "pair": ("goclaw.program.cli.access:pair_app", "Approve or refuse requests for access (pairing.enabled)."),
    "sessions": ("goclaw.program.cli.sessions:app", "List, show and export conversations."),
    "schedule": ("goclaw.program.cli.schedule:app", "Add, list, pause and run scheduled messages and tasks."),
    "memory": ("goclaw.program.cli.memory:app", "Search memory, or rebuild its index."),
    "tool": ("goclaw.program.cli.tool:app", "List, describe and run tools."),
    "agents": ("goclaw.program.cli.model:agents_app", "List and describe agents."),
    "plugin": ("goclaw.program.cli.plugin:app", "Add, list, update and remove plugins."),
    "declare": ("goclaw.program.cli.declare:app", "Check, begin and try a one-file plugin without a daemon."),
    "prompt-files": ("goclaw.program.cli.prompt_files:app", "Show and approve changes to AGENTS.md and the like."),
    "mcp": ("goclaw.program.cli.mcp:app", "Serve tools to MCP clients, and inspect MCP servers."),
    "registry": ("goclaw.extensions.registries.cli.registry:app", "Browse, sync, publish to and serve registries."),
    "webhook": ("goclaw.program.cli.webhook:app", "List the configured webhooks, or test one."),
    "backup": ("goclaw.program.cli.backup:backup", "Save everything in one new file, even while the daemon runs."),
    "restore": ("goclaw.program.cli.backup:restore_", "Restore everything from a backup."),
    "store": ("goclaw.program.cli.store:app", "Copy the database to Postgres or back; edit notes."),
    "upgrade": ("goclaw.program.cli.upgrade:upgrade_", "Upgrade to a newer version, or keep the old one on failure."),
    "uninstall": ("goclaw.program.cli.uninstall:uninstall", "Remove GoClaw and, on request, its data."),
    "version": ("goclaw.program.cli.frame:version", "Print the version."),
}
"""Every command: where its function is, or the `typer.Typer` of a group, and its line in `goclaw --help`."""

START = "goclaw.program.cli.tui:home"
"""The target of `goclaw` without a command: start the daemon if none runs, then the terminal client."""


class LazyGroup(TyperGroup):
    """A command group that knows the names and help of all commands, and imports only the one called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, text) in COMMANDS.items():
            self.add_command(TyperCommand(name, help=text))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(COMMANDS[name][0]) if name else None, rest


def load_command(path: str) -> Any:
    """Return the command of a line of the table, imported."""
    # Nothing that is made meanwhile becomes garbage; looking for some, then and ever after, costs a tenth of it.
    gc.disable()
    try:
        found = resolve_name(path)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command()(found)
            found = alone
        return typer.main.get_command(found)
    finally:
        gc.freeze()
        gc.enable()


app = typer.Typer(
    cls=LazyGroup,
    # Shells ask for completions by this variable; for people its two options would only lengthen the help.
    add_completion=COMPLETING in os.environ,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="Configuration file, instead of GOCLAW_CONFIG.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of unexpected errors.")] = False,
    show_version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    """A chat-bot gateway daemon. Alone: start it if it does not run, then talk to the agent in this terminal."""
    if show_version:
        version()
        raise typer.Exit
    overrides = {}
    for setting in set_ or []:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise typer.BadParameter("should be KEY=VALUE, like http.port=8000", param_hint="--set")
        overrides[name.strip()] = value.strip()
    context.obj = Options(config, overrides, debug)
    if context.invoked_subcommand is None:
        command = load_command(START)
        with command.make_context("home", [], parent=context) as inner:
            command.invoke(inner)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; wrong usage is said on standard error. Returns the exit code."""
    try:
        result = typer.main.get_command(app).main(_hoist(arguments), "goclaw", standalone_mode=False)
    except typer.TyperException as error:
        text = error.format_message()
        if "\n" in text:
            # The help of a group that was called without a command.
            print(text, file=sys.stderr)
        else:
            context = getattr(error, "ctx", None)  # of errors in a command's arguments
            command = context.command_path if context else "goclaw"
            print_message(f"{text} See `{command} --help`.")
        return error.exit_code
    except typer.Abort:
        return FAILED
    return result if isinstance(result, int) else 0


def _hoist(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--config` and `--debug` in front: people write them after the command as well."""
    front: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            return [*front, *rest, argument, *waiting]
        if argument == "--debug" or argument.startswith("--config="):
            front.append(argument)
        elif argument == "--config" and waiting:
            front += [argument, waiting.pop(0)]
        else:
            rest.append(argument)
    return [*front, *rest]


def version() -> None:
    """Print the version."""
    print(f"goclaw {__version__}")
