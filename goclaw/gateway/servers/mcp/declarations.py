"""Declarations for the MCP server from installed packages; those of one-file plugins come with the configuration."""

import logging
from collections.abc import Iterator, Sequence

from goclaw.common.core.plugins import fault_of, load, plugins
from goclaw.tools.mcp.declared import Declared

log = logging.getLogger(__name__)

SECTION = "mcp"


def looked_at() -> Iterator[tuple[str, Declared | None, str]]:
    """Yield the name of each, and its declarations or why it cannot be loaded, whatever the error. Blocks."""
    for plugin in plugins(SECTION):
        try:
            declared = load(plugin.path, Declared)
        except (Exception, SystemExit) as error:
            yield plugin.title, None, fault_of(error)
        else:
            yield plugin.title, declared, ""


def declarations() -> Sequence[Declared]:
    """Return those that can be loaded; the others are named in the log. Blocks."""
    found = []
    for title, declared, fault in looked_at():
        if declared is None:
            log.warning("%s: %s", title, fault)
        else:
            found.append(declared)
    return found
