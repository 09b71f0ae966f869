"""`goclaw agents list|describe`."""

from typing import Annotated

import orjson
import typer

from goclaw.agent.describing import all_agents, as_json, details, line
from goclaw.agent.kinds import Kinds
from goclaw.cli.common import load
from goclaw.cli.frame import show
from goclaw.config.agents import RouteSettings
from goclaw.config.keys import closest

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="List and describe agents.")

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_(context: typer.Context, json: AsJson = False) -> None:
    """Print the agents of the configuration and of installed packages."""
    kinds = _kinds(context)
    found = all_agents(kinds)
    if json:
        show(orjson.dumps([as_json(kind, _routes(kinds, kind.name)) for kind in found], option=_INDENT).decode())
        return
    for kind in found:
        print(line(kind))


@app.command()
def describe(context: typer.Context, name: str, json: AsJson = False) -> None:
    """Print what an agent is for, its models, tools, limits and exports, and whom it answers."""
    kinds = _kinds(context)
    known = {kind.name: kind for kind in all_agents(kinds)}
    kind = known.get(name)
    if kind is None:
        meant = closest(name, list(known))
        print(
            f"There is no agent {name}. " + (f"Did you mean {meant}?" if meant else f"There are: {', '.join(known)}.")
        )
        raise typer.Exit(1)
    routes = _routes(kinds, name)
    show(orjson.dumps(as_json(kind, routes), option=_INDENT).decode() if json else details(kind, routes))


_INDENT = orjson.OPT_INDENT_2


def _kinds(context: typer.Context) -> Kinds:
    return Kinds(load(context).config)


def _routes(kinds: Kinds, name: str) -> list[RouteSettings]:
    return [route for route in kinds.config.agents.routes if route.agent == name]
