"""`goclaw gateway`: the configuration, and then the daemon."""

import gc

from goclaw.common.core.extras import certificates_for_checks, undocumented
from goclaw.program.cli.base import Options

MANUALS = (
    *("aiohttp", "ast", "asyncio", "attr", "difflib", "goclaw", "http", "importlib", "inspect", "ipaddress", "json"),
    *("logging", "pydantic", "pydantic_core", "pydantic_settings", "shutil", "urllib", "zipfile"),
)
"""Packages that come without their docstrings: 0.7 MB. SQLAlchemy and Telegram's library are imported later."""
READ = ("goclaw.common.core.events", "goclaw.common.core.messages")
"""What docstrings are read of: records, for the document of the HTTP API."""


def run_gateway(given: Options) -> None:
    """Run the daemon in this process, until Ctrl-C or SIGTERM.

    Raises:
        ConfigError: the configuration cannot be used.
        StateError: the state folder cannot be used.
    """
    # Nothing that a start makes is garbage; looking for some takes a seventh of it. `serve` switches it on again.
    gc.disable()
    with undocumented(*MANUALS, but=READ), certificates_for_checks():
        from goclaw.common.config.state import awaits_commit
        from goclaw.program.cli.loading import load_for
        from goclaw.program.cli.process import launch_record

        loaded = load_for(given, restoring=True)
        is_tried = awaits_commit(loaded.config)
        # After the configuration: one that cannot be used is refused before the daemon's modules are paid for.
        from goclaw.program.cli.daemon import serve
        from goclaw.program.cli.loop import run_daemon

    run_daemon(serve(loaded, launch_record(loaded, given), is_tried=is_tried))
