"""What installed packages declare for the MCP server."""

import logging
from collections.abc import Sequence

from goclaw.mcp.declared import Declared
from goclaw.plugins import fault_of, load, plugins

log = logging.getLogger(__name__)

SECTION = "mcp"


def declarations() -> Sequence[Declared]:
    """Those that can be loaded; what cannot, whatever it fails of, is left out and named in the log. Blocks."""
    found = []
    for plugin in plugins(SECTION):
        try:
            found.append(load(plugin.path, Declared))
        except (Exception, SystemExit) as error:
            log.warning("%s: %s", plugin.title, fault_of(error))
    return found
