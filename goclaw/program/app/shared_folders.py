"""The look at the start whether the gateways that share workspaces see the same folders."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from goclaw.common.auth.workplaces import folders_of
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.core.supervise import background, keep_running
from goclaw.durable.store.database import StorePart
from goclaw.durable.store.replicas import FolderProbe
from goclaw.errors import StateError
from goclaw.program.app.parts import App

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Seconds between two looks whether there is a workspace."""
WORKSPACES = "workspaces"
"""Name of the alert that gateways do not see the same folders."""


async def look_at_folders(stack: AsyncExitStack, app: App) -> None:
    """Answer other gateways whether this one sees their folders, and ask them once about its own."""
    foundation = app.foundation

    def folders() -> Mapping[str, Path]:
        return folders_of(foundation.config, foundation.users.all())

    probe = load(catalog.STORES["postgres"], StorePart).probe(foundation.database, folders, foundation.clock)
    answering = keep_running("answering about folders", probe.run, foundation.clock)
    await stack.enter_async_context(background(answering, "answering about folders"))
    await stack.enter_async_context(background(_ask_about_folders(app, probe), "asking about folders"))


async def _ask_about_folders(app: App, probe: FolderProbe) -> None:
    # It is made when it is first used.
    while not await asyncio.to_thread(app.foundation.config.workspace_path.is_dir):
        await app.foundation.clock.sleep(LOOK_SECONDS)
    try:
        unseen = await probe.unseen()
    except StateError as error:
        log.warning("the other gateways could not be asked whether they see the same folders: %s", error)
        return
    for words in unseen:
        log.warning("%s: a conversation that moves to it does not find its files", words)
    if unseen:
        app.foundation.alerts.tell(
            WORKSPACES, f"{unseen[0]}; `goclaw doctor` lists all of them, docs/replicas.md has the remedies"
        )
    else:
        app.foundation.alerts.clear(WORKSPACES)
