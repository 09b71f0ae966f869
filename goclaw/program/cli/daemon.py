"""How the daemon begins.

Few modules are imported here: the channels begin what takes their services long to answer while `serving`, and with it
every other module, is imported.
"""

import asyncio
import gc
from importlib import import_module

from goclaw.channels.open import start_channels
from goclaw.common.config.load import Loaded
from goclaw.common.config.state import awaits_commit, open_state
from goclaw.common.core.container import daemon_command
from goclaw.common.core.extras import standing_in, undocumented, without
from goclaw.errors import StateError
from goclaw.program.cli.process import LaunchRecord

READ = ("goclaw.tools.declare", "goclaw.memory.base", "goclaw.tools.builtin", "goclaw.extensions")
"""What docstrings and annotations are read of: tools, for models, and records, for the document of the HTTP API."""


async def serve(loaded: Loaded, launch: LaunchRecord | None = None, *, is_tried: bool = False) -> None:
    """Run the gateway until SIGTERM or SIGINT. A second signal ends it immediately: the journal is made for that.

    SIGHUP ends it, too, where it runs in a terminal; elsewhere it reloads what can be reloaded (`serving`).
    `launch` is stored for `goclaw restart`. `is_tried`: this version was to commit an upgrade when it began.

    Raises:
        StateError: the upgrade was undone before this had the state folder, so this is the wrong version by now.
    """
    with open_state(loaded.config):
        if is_tried and not awaits_commit(loaded.config):
            raise StateError(
                f"the upgrade to this version was undone in the meantime; {daemon_command('start')} starts the "
                "previous version"
            )
        async with start_channels(loaded.config) as begun:
            # In a thread, so that what has begun goes on meanwhile.
            await asyncio.to_thread(import_serving)
            from goclaw.program.cli.serving import serve_with

            await serve_with(loaded, launch, begun)


def import_serving() -> None:
    """Import the other modules, without structlog's colouring of tracebacks, and some without their docstrings.

    The part of the file-watching library that restarts programs stays away, too.

    The collector is off while the daemon starts (`run_gateway`), but a class with slots is made of one without them,
    which only the collector frees. One look, at the imports here alone, is 1.2 MB less for good; by then the
    channels have sent their first requests.
    """
    gc.freeze()
    manuals = undocumented("goclaw", "sqlalchemy", "structlog", but=READ, untyped=True)
    with without("rich"), standing_in("watchfiles.run", run_process=None, arun_process=None), manuals:
        import_module("goclaw.program.cli.serving")
    gc.collect()
    gc.freeze()
