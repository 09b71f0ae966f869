"""What installed packages declare for the MCP server."""

import logging
from collections.abc import Sequence

from goclaw.errors import ConfigError
from goclaw.mcp.declared import Declared
from goclaw.plugins import load, plugins

log = logging.getLogger(__name__)

SECTION = "mcp"


def declarations() -> Sequence[Declared]:
    """Those that can be loaded; what cannot is left out and named in the log. Blocks: it imports them."""
    found = []
    for plugin in plugins(SECTION):
        try:
            found.append(load(plugin.path, Declared))
        except ConfigError as error:
            log.warning("%s: %s", plugin.title, error)
    return found
