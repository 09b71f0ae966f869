"""The quickstart: a description of the tools, written into a workspace when that is first used."""

import logging
from collections.abc import Sequence
from pathlib import Path

from structlog.contextvars import bound_contextvars

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import Users
from goclaw.common.auth.workplaces import place_of
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError
from goclaw.tools.toolkit.sources import BUILT_IN
from goclaw.tools.toolkit.tool_docs import QUICKSTART, ListedTool, ToolListing, write_quickstart

log = logging.getLogger(__name__)

_OWNER = Actor("", "quickstart", owner=True)


@record
class Quickstart:
    """Writes the quickstart."""

    config: Config
    users: Users
    access: Access
    listing: ToolListing

    async def write_missing(self, workspace: Workspace) -> None:
        """Write the quickstart into a workspace that is used for the first time since the start."""
        if not self.config.agents.quickstart:
            return
        try:
            if await write_quickstart(workspace, self._tools(workspace.root)):
                with bound_contextvars(turn="", session=""):  # no part of the story of the turn that came first
                    log.info("wrote %s into %s", QUICKSTART, workspace.root)
        except ToolError as error:
            log.warning("%s is not written into %s: %s", QUICKSTART, workspace.root, error)

    def _tools(self, root: Path) -> Sequence[ListedTool]:
        """Return the tools for the quickstart: GoClaw's own, and others that every user of the workspace may use.

        A tool of the operator's own must stay unknown to a person who may not use it.
        """
        people = [user.key for user in self.users.all() if place_of(self.config, user).root == root]
        actors = [Actor(key, "quickstart") for key in people]
        return [
            shown
            for shown in self.listing.of(_OWNER)
            if shown.origin == BUILT_IN
            or all(self.access.authorize(actor, "tool.use", shown.name).allowed for actor in actors)
        ]
