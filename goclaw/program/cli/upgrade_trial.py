"""`python -m goclaw.cli.upgrade_trial FOLDER`: start this version on a copy of a state, without channels, and end it.

Called by `goclaw upgrade` of another version: what it is given and what it prints stay as `ops.upgrade.trial` says.
Nothing is done in the outside world: what was under way in the copy is closed, the model is the demo, no MCP server,
registry, schedule or embedder is there, and the workspace is an empty folder.
"""

import asyncio
import logging
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import orjson

from goclaw import __version__
from goclaw.channels.base import ChannelPart
from goclaw.clients.tui.client import attach
from goclaw.common.auth.users import login_name
from goclaw.common.config.listening import route_parts
from goclaw.common.config.load import load_config
from goclaw.common.config.mcp import McpSettings
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import RealClock
from goclaw.common.core.plugins import load
from goclaw.durable.store.sqlite.backup import check_database
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.errors import GoclawError
from goclaw.gateway.servers.routes import RoutePart
from goclaw.program.app import open_app
from goclaw.program.cli.base import FAILED, USAGE, Options, report
from goclaw.program.cli.program import daemon_options
from goclaw.program.ops.backup.settle import end_open_work
from goclaw.tools.toolkit.parts import parts_of

SECONDS = 300.0
"""How long start, health check and end may take in all, the migration not counted."""


def main(arguments: Sequence[str]) -> int:
    """Try this version out; `arguments` are options of `goclaw` and the folder. Returns the exit code."""
    given = daemon_options([*arguments[:-1], "gateway"]) if arguments else None
    if given is None:
        print(__doc__, file=sys.stderr)
        return USAGE
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        schema = asyncio.run(_try_out(given, Path(arguments[-1]).absolute()))
    except GoclawError as error:
        return report([error])
    except (TimeoutError, ImportError, OSError, sqlite3.Error) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    print(orjson.dumps({"version": __version__, "schema": schema}).decode())
    return 0


async def _try_out(given: Options, folder: Path) -> int:
    """Start on the copy and ask for the status; returns the schema that the copy has then."""
    places = {"state_dir": str(folder), "workspace": str(folder / "workspace")}
    # First as the daemon will read it: a key that this version does not know is found here.
    load_config(given.config, overrides={**given.overrides, **places})
    quiet = {"models.agent": "demo", "memory.embedder": "none"}
    loaded = load_config(given.config, overrides={**given.overrides, **places, **quiet})
    _import_all(loaded.config)
    # Nothing outside is reached.
    alone: dict[str, Any] = {"mcp": McpSettings(), "registries": {}, "schedules": {}, "hooks": ()}
    config = loaded.config.model_copy(update=alone)
    await asyncio.to_thread(_close_what_is_open, config)
    async with asyncio.timeout(SECONDS):
        async with open_app(config, with_channels=False, parts=parts_of(loaded.packaged)):
            async with attach(config.socket_path, f"tui:{login_name()}", limit=1) as client:
                await client.status()
    return await asyncio.to_thread(check_database, config.database_path)


def _import_all(config: Config) -> None:
    """Import the parts of the daemon that are not started here: its loop, its channels, the parts of its listener.

    Raises:
        ConfigError: a part cannot be loaded.
        ImportError: a module of ours cannot.
    """
    for path in catalog.CHANNELS.values():
        if load(path, ChannelPart).enabled(config):
            package = import_module(path.partition(":")[0])
            for module in iter_modules(getattr(package, "__path__", ()), f"{package.__name__}."):
                import_module(module.name)
    for name in route_parts(config):
        load(catalog.ROUTES[name], RoutePart)
    for name in ("goclaw.program.cli.daemon", "goclaw.program.cli.serving"):
        import_module(name)


def _close_what_is_open(config: Config) -> None:
    """Bring the copy up to date, and end the work under way in it: that goes on in the original."""
    if not config.database_path.exists():
        return
    migrate(config.database_path)
    now = RealClock().now()
    end_open_work(config.database_path, now, now)
    with closing(sqlite3.connect(config.database_path)) as connection, connection:
        connection.execute("UPDATE compactions SET retry_owed = 0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
