"""`goclaw mcp serve`: the tools of this state folder for a program that speaks the Model Context Protocol.

Like `goclaw tool run` it runs the tools in this process, under the same rules and containment, whether a daemon runs or
not. Conversations and the status come from the daemon if one holds the lock, else from the state folder.
"""

import asyncio
from typing import Annotated

import typer

from goclaw import __version__
from goclaw.cli import mcp_servers
from goclaw.cli.common import load
from goclaw.cli.tooling import open_toolbox
from goclaw.config.load import Loaded
from goclaw.config.schema import Config
from goclaw.errors import ConfigError
from goclaw.events import Actor
from goclaw.servers.mcp.backend import ENTRY, McpBackend
from goclaw.toolkit.parts import parts_of
from goclaw.users import Users, login_name

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Serve tools to MCP clients, and look at MCP servers.",
)


@app.callback()
def group() -> None:
    """Serve tools to MCP clients, and look at MCP servers."""


@app.command()
def serve(
    context: typer.Context,
    user: Annotated[
        str | None, typer.Option(help="As whom, as in users.json; not given: the owner of the state folder.")
    ] = None,
) -> None:
    """Speak MCP on standard input and output until the client closes them. For the client's configuration."""
    asyncio.run(_serve(load(context), user))


app.command("list")(mcp_servers.list_)
app.command()(mcp_servers.approve)


async def _serve(loaded: Loaded, user: str | None) -> None:
    config = loaded.config
    if user is not None and Users.read(config.users_path).get(user) is None:
        raise ConfigError(f"{user} is not in users.json: `goclaw users add {user}` first")
    # It takes a second: what is wrong with the command line or the configuration is said before.
    from goclaw.cli.mcp_conversations import Reached
    from goclaw.mcp.declared import together
    from goclaw.servers.mcp.declarations import declarations
    from goclaw.servers.mcp.stdio import serve_stdio

    async with open_toolbox(_without_servers(config), parts_of(loaded.packaged)) as box:
        actor = Actor(user, ENTRY) if user else Actor(f"tui:{login_name()}", ENTRY, owner=True, name=login_name())
        backend = McpBackend(
            config=config,
            clock=box.environment.clock,
            access=box.access,
            dispatcher=box.dispatcher,
            blobs=box.environment.blobs,
            workspace=box.environment.workspace,
            audit=box.environment.audit,
            conversations=Reached(config, box.environment.clock),
            people=box.users.all,
            version=__version__,
            declared=together(declarations()),
        )
        await serve_stdio(backend, actor)


def _without_servers(config: Config) -> Config:
    """Remove the MCP servers: if their list names this very command, it would start itself again and again.

    Nothing is lost by it: what speaks to us speaks to other servers by itself.
    """
    mcp, tools = config.mcp.model_copy(update={"servers": {}}), config.tools.model_copy(update={"from_registry": {}})
    return config.model_copy(update={"mcp": mcp, "tools": tools})
