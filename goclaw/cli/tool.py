"""`goclaw tool list|describe|run|docs`."""

import asyncio
import sys
from typing import Annotated, Any

import orjson
import typer

from goclaw.catalog import GATED_TOOLS
from goclaw.cli.common import load
from goclaw.cli.frame import show
from goclaw.cli.tooling import open_toolbox, run_lines
from goclaw.config.keys import closest
from goclaw.config.load import Loaded
from goclaw.messages import ToolResult
from goclaw.toolkit.describing import details
from goclaw.toolkit.dispatcher import error_text
from goclaw.toolkit.parts import parts_of
from goclaw.toolkit.registry import BuiltIn
from goclaw.toolkit.sources import BUILT_IN
from goclaw.toolkit.tool_listing import ListedTool, in_brackets, page

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="List, describe and run tools."
)

User = Annotated[str | None, typer.Option(help="As whom, as in users.json; not given: the owner of the state folder.")]


AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_(context: typer.Context, user: User = None, as_json: AsJson = False) -> None:
    """Print the tools that a user may use."""
    shown = asyncio.run(_shown(load(context), user))
    if as_json:
        _print_json([tool.as_json() for tool in shown])
        return
    for tool in shown:
        print(f"{tool.name:16} {tool.tool.spec.short}{in_brackets(tool)}")


@app.command()
def describe(context: typer.Context, name: str, user: User = None, as_json: AsJson = False) -> None:
    """Print what a tool does, its parameters, examples, rights and risk."""
    known = {tool.name: tool for tool in asyncio.run(_shown(load(context), user))}
    shown = known.get(name)
    if shown is None:
        meant = closest(name, list(known))
        print(error_text(f"unknown tool: {name}; " + (f"did you mean {meant}?" if meant else "see `goclaw tool list`")))
        raise typer.Exit(1)
    if as_json:
        _print_json(shown.as_json())
        return
    print(details(shown.tool, shown.origin))
    if shown.availability:
        print(f"\nIt is {shown.availability}.")
    print("\nJSON Schema of its arguments:\n")
    _print_json(shown.tool.spec.schema)


@app.command()
def docs() -> None:
    """Print docs/tools.md, the page about the tools that come with GoClaw."""
    gates = {name: gate for gate, gated in GATED_TOOLS.items() for name in gated}
    tools = BuiltIn(GATED_TOOLS).tools()
    listed = [ListedTool(tool, _origin(gates.get(tool.spec.name, ""))) for tool in tools]
    print(page(listed), end="")


def _origin(gate: str) -> str:
    return f"{BUILT_IN}, there only with `tools.{gate}: true`" if gate else BUILT_IN


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
    loaded = load(context)
    if jsonl:
        asyncio.run(_run_lines(loaded, user, approve=approve))
        return
    if name is None:
        raise typer.BadParameter("name a tool, or use --jsonl")
    result = asyncio.run(_run_one(loaded, name, given, user, approve=approve))
    show(result.content)
    if result.is_error:
        raise typer.Exit(1)


async def _shown(loaded: Loaded, user: str | None) -> list[ListedTool]:
    async with open_toolbox(loaded.config, parts_of(loaded.packaged)) as box:
        return box.tools(user)


def _print_json(value: Any) -> None:
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


async def _run_one(loaded: Loaded, name: str, given: str, user: str | None, *, approve: bool) -> ToolResult:
    try:
        arguments: Any = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        return ToolResult("", name, error_text(f"input is not JSON: {error}"), is_error=True)
    async with open_toolbox(loaded.config, parts_of(loaded.packaged), approve=approve and user is None) as box:
        return await box.run(name, arguments, user)


async def _run_lines(loaded: Loaded, user: str | None, *, approve: bool) -> None:
    async with open_toolbox(loaded.config, parts_of(loaded.packaged), approve=approve and user is None) as box:
        await run_lines(box, sys.stdin.buffer, user)
