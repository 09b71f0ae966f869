"""`goclaw declare check|new|run`: one-file plugins, without a daemon (docs/plugins.md)."""

import asyncio
import re
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from goclaw.common.config.agents import KIND_NAME
from goclaw.common.config.packaged import dump_set_values
from goclaw.common.config.schema import Config
from goclaw.common.core.events import ALLOW, Question, ToolStarted, TurnFinished
from goclaw.common.core.files import shown_path
from goclaw.common.core.redact import printable
from goclaw.errors import ConfigError
from goclaw.program.cli.base import FAILED, print_message, show
from goclaw.program.cli.options import command_group, load

if TYPE_CHECKING:
    from goclaw.program.app.bench import AgentBench
    from goclaw.tools.toolkit.plugin_loading import Problem

Opened = Callable[[Path], "AbstractAsyncContextManager[AgentBench]"]
app = command_group("Check, begin and try a one-file plugin without a daemon.")
NEW = '''\
"""The agent {name}. `goclaw declare check {name}.py` finds faults, `goclaw declare run {name}.py "Hi"` talks to it."""

from goclaw.declare import RunPolicy, SideEffect, agent, tool

NOTES: list[str] = []


@tool(side_effect=SideEffect.READ_ONLY)
def read_notes() -> list[str]:
    """Return all notes."""
    return NOTES


@tool(confirm="Note \\"{{{{ text }}}}\\"?")
def add_note(text: str) -> str:
    """Add a note."""
    NOTES.append(text)
    return "noted"


AGENT = agent(
    "{name}",
    "Keeps notes.",
    uses=[read_notes, add_note],
    policy=RunPolicy(max_tool_calls=8, time_budget="2m"),
)
'''


@app.command()
def check(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="A Python file with tools, toolsets, agents.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Execute files, and print every fault with its place: `garden.py:3:5: message`. Exit code 1 when there is one.

    A statement that fails hides no other: of it, the calls inside are evaluated once more.
    """
    found = _problems(load(context, packages=False).config, files)
    if json:
        listed = [
            {"file": str(file), "line": each.line, "column": each.column, "message": each.message}
            for file, each in found
        ]
        show(orjson.dumps(listed).decode())
    if found and not json:
        _show(found)
    if found:
        raise typer.Exit(FAILED)
    if not json:
        print_message(f"{len(files)} {'file' if len(files) == 1 else 'files'} checked, no faults")


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the agent, and of its file.")],
) -> None:
    """Write NAME.py into this folder: an agent with two tools, one of which asks, to go on from."""
    if not re.fullmatch(KIND_NAME, name):
        raise typer.BadParameter(f"{name!r}: an agent has a name of small letters, digits, `-` and `_`")
    path = Path(f"{name}.py")
    try:
        with path.open("x") as file:
            file.write(NEW.format(name=name))
    except FileExistsError:
        raise ConfigError(f"{path} is there already; choose another name") from None
    path.chmod(0o644)  # whatever the umask is: a file that others may write is not executed
    print_message(f'wrote {path}; `goclaw declare run {path} "Hello"` talks to the agent')


@app.command()
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file with an agent.")],
    words: Annotated[list[str], typer.Argument(metavar="TEXT", help="The message, with or without quotes.")],
    agent: Annotated[str, typer.Option(help="Which agent of the file; default: its only one.")] = "",
    model: Annotated[
        str, typer.Option(help="The model, such as scripted:answers.json; default: the agent's, else yours.")
    ] = "",
    approve: Annotated[bool, typer.Option("--approve", help="Approve calls that would ask.")] = False,
) -> None:
    """Say something to the agent of a file, and print its answer. Exit code 1 when there is none.

    It works in a folder of its own, which is removed afterwards, with your models and nothing else of your
    configuration; tools run as they are.
    """
    from goclaw.program.app.bench import open_agent  # a check needs none of it
    from goclaw.tools.toolkit.parts import parts_of, read  # its library comes with the tools

    config, file = load(context, packages=False).config, file.expanduser().absolute()
    if found := _problems(config, [file]):
        _show(found)
        raise typer.Exit(FAILED)
    parts = parts_of(read([file], config))
    names = [each.name for title, each in parts.agents.items() if title in parts.of_files]
    chosen = agent or (names[0] if len(names) == 1 else "")
    if chosen not in names:
        remedy = f"choose one with --agent: {', '.join(names)}" if names else "declare one with agent(…)"
        lack = f"no agent {agent}".strip() if agent or not names else "several agents"
        raise ConfigError(f"{shown_path(file)} has {lack}: {remedy}")
    own = dump_set_values(config)
    settings: dict[str, Any] = {name: own[name] for name in ("models", "providers") if name in own}
    opened = partial(open_agent, parts=parts, name=chosen, model=model, plugins=[file], **settings)
    if not asyncio.run(_talk(opened, " ".join(words), approve=approve)):
        raise typer.Exit(FAILED)


def _problems(config: Config, files: list[Path]) -> "list[tuple[Path, Problem]]":
    from goclaw.tools.toolkit.plugin_loading import check_file  # its library comes with the tools

    return [(file, problem) for file in files for problem in check_file(file.expanduser().absolute(), config)]


def _show(found: "list[tuple[Path, Problem]]") -> None:
    for file, problem in found:
        show(problem.format(shown_path(file)))


async def _talk(opened: Opened, text: str, *, approve: bool) -> bool:
    """Print the answer; whether there is one."""

    def decide(question: Question) -> str:
        print_message(question.text)
        if question.kind == "approval":
            if approve or (sys.stdin.isatty() and typer.confirm("Approve?", err=True)):
                return ALLOW
            print_message("denied; `--approve` says yes beforehand")
            return ""
        return typer.prompt("Answer", err=True) if sys.stdin.isatty() else ""

    with TemporaryDirectory(prefix="goclaw-") as folder:
        async with opened(Path(folder)) as bench:
            bench.decide = decide
            answer = await bench.say(text)
            calls = [event for event in bench.events if isinstance(event, ToolStarted)]
            ends = [event.outcome.went_well for event in bench.events if isinstance(event, TurnFinished)]
    for call in calls:
        print_message(f"called {call.name}{call.hint and f': {call.hint}'}")
    print(printable(answer))
    return all(ends[-1:])  # a command has none
