"""Frame of the command line: the table of commands, the options before them, exit codes, and how errors read.

Only light modules are imported here; a command's module comes with its first call.
"""

import gc
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from pkgutil import resolve_name
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from goclaw import __version__
from goclaw.core.records import record
from goclaw.core.redact import mask, printable
from goclaw.errors import ConfigError, GoclawError

FAILED, USAGE, BAD_CONFIGURATION = 1, 2, 78
"""Exit codes; 78 is EX_CONFIG of sysexits.h, which service managers can be told not to restart after."""

MAX_LINES = 50
"""Problems printed at most: with more than these it is the wrong file."""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "gateway": ("goclaw.cli.lifecycle:gateway_app", "Run the daemon here, until Ctrl-C or SIGTERM."),
    "tui": ("goclaw.cli.tui:tui_app", "Talk to the agent in this terminal."),
    "send": ("goclaw.cli.send:app", "Send one message and print the answer."),
    "status": ("goclaw.cli.lifecycle:status_app", "Print the state of the running daemon."),
    "start": ("goclaw.cli.lifecycle:start_app", "Start the daemon in the background."),
    "stop": ("goclaw.cli.lifecycle:stop_app", "End the daemon; unfinished work resumes at the next start."),
    "restart": ("goclaw.cli.lifecycle:restart_app", "End the daemon and start it anew."),
    "logs": ("goclaw.cli.logs:logs_app", "Show the daemon's log."),
    "audit": ("goclaw.cli.logs:audit_app", "Show who did what, by which rule, and how it ended."),
    "service": ("goclaw.cli.service:app", "Let systemd start the daemon and keep it running."),
    "setup": ("goclaw.cli.setup:app", "Connect a model, Telegram and yourself by a few questions."),
    "model": ("goclaw.cli.model:model_app", "Show which model answers, or choose another one."),
    "doctor": ("goclaw.cli.config:doctor_app", "Try everything out and say what to mend."),
    "config": ("goclaw.cli.config:config_app", "Check, show and explain the configuration."),
    "users": ("goclaw.cli.access:users_app", "Check, list and add the people in users.json."),
    "token": ("goclaw.cli.access:token_app", "Make, list and revoke tokens for terminals and programs."),
    "pair": ("goclaw.cli.access:pair_app", "Let in, or turn away, who asked the bot (pairing.enabled)."),
    "sessions": ("goclaw.cli.sessions:app", "List, show and export conversations."),
    "schedule": ("goclaw.cli.schedule:app", "Add, list, pause and run messages and tasks at a time."),
    "memory": ("goclaw.cli.memory:app", "Search what is remembered, and make its index anew."),
    "tool": ("goclaw.cli.tool:app", "List, describe and run tools."),
    "agents": ("goclaw.cli.model:agents_app", "List and describe agents."),
    "prompt-files": ("goclaw.cli.prompt_files:app", "Show and approve changes of AGENTS.md and its like."),
    "mcp": ("goclaw.cli.mcp:app", "Serve tools to MCP clients, and look at MCP servers."),
    "registry": ("goclaw.cli.registry:app", "Look into, fetch from, publish to and serve registries."),
    "webhook": ("goclaw.cli.webhook:app", "List the webhooks of the configuration, and try one out."),
    "backup": ("goclaw.cli.backup:backup_app", "Keep everything in one new file, while the daemon runs."),
    "restore": ("goclaw.cli.backup:restore_app", "Get everything back from a backup."),
    "version": ("goclaw.cli.frame:version_app", "Print the version."),
}
"""Every command: where its `typer.Typer` is, and its line in `goclaw --help`."""

COMPLETING = "_GOCLAW_COMPLETE"
"""Set by a shell that completes a command line: `eval "$(_GOCLAW_COMPLETE=source_zsh goclaw)"`."""
START = "goclaw.cli.tui:home_app"
"""The target of `goclaw` without a command: start the daemon if none runs, then the terminal client."""


@record
class Options:
    """Options given before the command; `options.options` finds them."""

    config: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    debug: bool = False


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
    """Return the command behind a line of the table, imported."""
    # Nothing that is made meanwhile becomes garbage; looking for some, then and ever after, costs a tenth of it.
    gc.disable()
    try:
        return typer.main.get_command(resolve_name(path))
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
) -> None:
    """A chat-bot gateway daemon. Alone: start it if it does not run, then talk to the agent in this terminal."""
    context.obj = Options(config, dict(_overrides(set_ or [])), debug)
    if context.invoked_subcommand is None:
        command = load_command(START)
        with command.make_context("home", [], parent=context) as inner:
            command.invoke(inner)


def main() -> None:
    """Run the command line of this process and exit with its code."""
    arguments = sys.argv[1:]
    if "--debug" not in arguments:
        sys.excepthook = report_crash
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A terminal without UTF-8 gets question marks instead of an error, and so do we.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    sys.exit(run(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; what went wrong is said on standard error, a line each. Returns the exit code."""
    try:
        result = typer.main.get_command(app).main(_hoisted(arguments), "goclaw", standalone_mode=False)
    except typer.TyperException as error:
        return _usage(error)
    except typer.Abort:
        return FAILED
    except GoclawError as error:
        return _report([error])
    except BaseExceptionGroup as group:
        expected, unexpected = group.split(GoclawError)
        if unexpected or not expected:
            raise
        return _report(list(_leaves(expected)))
    return result if isinstance(result, int) else 0


def say(line: str) -> None:
    """Print one line on standard error, as every message of this program."""
    print(f"goclaw: {printable(mask(line))}", file=sys.stderr)


def show(text: str) -> None:
    """Print what others wrote; a terminal must not obey it, a pipe gets it as it is."""
    print(printable(text) if sys.stdout.isatty() else text)


def report_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print one line about a bug of ours, and where its traceback was written."""
    if issubclass(kind, KeyboardInterrupt):
        return
    try:
        folder = Path(os.environ.get("GOCLAW_STATE_DIR") or "~/.goclaw").expanduser() / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "crash.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(mask("".join(traceback.format_exception(kind, error, trace))))
        details = f"details in {folder / 'crash.log'}"
    except (OSError, RuntimeError):
        details = "run it again with --debug for details"
    text = " ".join(str(error).split())
    say(f"unexpected error: {kind.__name__}{f': {text}' if text else ''}; {details}")


def _report(errors: Sequence[BaseException]) -> int:
    for error in errors:
        lines = error.problems if isinstance(error, ConfigError) else str(error).splitlines()
        for line in lines[:MAX_LINES]:
            say(line)
        if len(lines) > MAX_LINES:
            say(f"… and {len(lines) - MAX_LINES} more")
    return BAD_CONFIGURATION if any(isinstance(error, ConfigError) for error in errors) else FAILED


def _usage(error: typer.TyperException) -> int:
    text = error.format_message()
    if "\n" in text:
        # The help of a group that was called without a command.
        print(text, file=sys.stderr)
    else:
        say(f"{text} See `goclaw --help`.")
    return error.exit_code


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        yield from _leaves(error) if isinstance(error, BaseExceptionGroup) else (error,)


def _overrides(settings: Sequence[str]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise typer.BadParameter("should be KEY=VALUE, like http.port=8000", param_hint="--set")
        yield name.strip(), value.strip()


def _hoisted(arguments: Sequence[str]) -> list[str]:
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


version_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@version_app.command()
def version() -> None:
    """Print the version."""
    print(f"goclaw {__version__}")
