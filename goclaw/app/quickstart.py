"""The quickstart of a workspace: the tools in it, and its writing when the workspace is first used."""

import logging
from collections.abc import Sequence
from pathlib import Path

from structlog.contextvars import bound_contextvars

from goclaw.app.parts import Foundation
from goclaw.errors import ToolError
from goclaw.events import Actor
from goclaw.toolkit.quickstart import NAME, write_quickstart
from goclaw.toolkit.sources import BUILT_IN
from goclaw.toolkit.tool_listing import ListedTool, ToolListing
from goclaw.workspace import Workspace

log = logging.getLogger(__name__)

_OWNER = Actor("", "quickstart", owner=True)


async def furnish(foundation: Foundation, listing: ToolListing, workspace: Workspace) -> None:
    """Write the quickstart into a workspace that is used for the first time since the start."""
    if not foundation.config.agents.quickstart:
        return
    try:
        if await write_quickstart(workspace, told_in(workspace.root, foundation, listing)):
            with bound_contextvars(turn="", session=""):  # no part of the story of the turn that came first
                log.info("wrote %s into %s", NAME, workspace.root)
    except ToolError as error:
        log.warning("%s is not written into %s: %s", NAME, workspace.root, error)


def told_in(root: Path, foundation: Foundation, listing: ToolListing) -> Sequence[ListedTool]:
    """Return the tools for the quickstart: GoClaw's own, and others that every user of the workspace may use.

    A tool of the operator's own must stay unknown to a person who may not use it.
    """
    people = [user.key for user in foundation.users.all() if foundation.environment.root(user.key) == root]
    actors = [Actor(key, "quickstart") for key in people]
    return [
        shown
        for shown in listing.of(_OWNER)
        if shown.origin == BUILT_IN
        or all(foundation.access.authorize(actor, "tool.use", shown.name).allowed for actor in actors)
    ]
