"""`goclaw tool list|describe|run`."""

import asyncio
import sys
from typing import Annotated, Any

import orjson
import typer

from goclaw.cli.common import load
from goclaw.cli.frame import show
from goclaw.cli.tooling import open_toolbox, run_lines
from goclaw.config.schema import Config
from goclaw.messages import ToolResult
from goclaw.specs import ToolSpec
from goclaw.toolkit.dispatcher import error_text

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="List, describe and run tools."
)

User = Annotated[str | None, typer.Option(help="As whom, as in users.json; not given: the owner of the state folder.")]


@app.command("list")
def list_(context: typer.Context, user: User = None) -> None:
    """Print the tools that a user may use."""
    for spec in asyncio.run(_specs(load(context).config, user)):
        print(f"{spec.name:16} {spec.description.splitlines()[0]}")


@app.command()
def describe(context: typer.Context, name: str, user: User = None) -> None:
    """Print what a tool does, its parameters and its risk."""
    spec = next((spec for spec in asyncio.run(_specs(load(context).config, user)) if spec.name == name), None)
    if spec is None:
        print(error_text(f"unknown tool: {name}"))
        raise typer.Exit(1)
    print(f"{spec.name}\n\n{spec.description}\n\nside effect: {spec.side_effect}, risk: {spec.risk}\n")
    print(orjson.dumps(spec.schema, option=orjson.OPT_INDENT_2).decode())


@app.command()
def run(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The tool's name.")] = None,
    given: Annotated[str, typer.Option("--input", help="Its arguments, as a JSON object.")] = "{}",
    user: User = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Calls as lines of JSON on standard input.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Say yes to calls that would ask.")] = False,
) -> None:
    """Run a tool. Prints its content, or {"error": …} with exit code 1."""
    config = load(context).config
    if jsonl:
        asyncio.run(_run_lines(config, user, approve=approve))
        return
    if name is None:
        raise typer.BadParameter("name a tool, or use --jsonl")
    result = asyncio.run(_run_one(config, name, given, user, approve=approve))
    show(result.content)
    if result.is_error:
        raise typer.Exit(1)


async def _specs(config: Config, user: str | None) -> list[ToolSpec]:
    async with open_toolbox(config) as box:
        return box.specs(user)


async def _run_one(config: Config, name: str, given: str, user: str | None, *, approve: bool) -> ToolResult:
    try:
        arguments: Any = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        return ToolResult("", name, error_text(f"input is not JSON: {error}"), is_error=True)
    async with open_toolbox(config, approve=approve and user is None) as box:
        return await box.run(name, arguments, user)


async def _run_lines(config: Config, user: str | None, *, approve: bool) -> None:
    async with open_toolbox(config, approve=approve and user is None) as box:
        await run_lines(box, sys.stdin.buffer, user)
