"""What a command of `exec` may touch and reach: from the configuration, and from whose call it is."""

import asyncio
from pathlib import Path

from goclaw.audit import Entry
from goclaw.errors import SandboxUnavailable
from goclaw.memory.base import USERS, notes_folder
from goclaw.net.guard import Guard
from goclaw.net.proxy import Proxy
from goclaw.sandbox.base import Limits, Policy
from goclaw.toolkit.base import ToolContext


async def policy_of(ctx: ToolContext) -> Policy:
    """The policy of one call.

    Raises:
        SandboxUnavailable: the notes of other users cannot be kept out of it.
    """
    settings = ctx.config.tools.exec
    masked, shown = await asyncio.to_thread(_notes, ctx.workspace.root, ctx.actor.key)
    return Policy(
        workspace=ctx.workspace.root,
        hidden=(ctx.config.state_dir.expanduser().absolute(),),
        masked=masked,
        shown=shown,
        network=settings.network,
        proxy=_proxy(ctx).serve if settings.network == "proxy" else None,
        limits=Limits(
            cpu_seconds=settings.cpu_seconds,
            memory_bytes=settings.memory_mb << 20,
            processes=settings.processes,
            file_bytes=settings.file_mb << 20,
        ),
    )


def _notes(workspace: Path, key: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The folder of everybody's notes, if there is one, and in it the folder of the notes for `key`."""
    everybody, own = workspace / USERS, workspace / notes_folder(key)
    if not everybody.is_dir() or not everybody.resolve().is_relative_to(workspace.resolve()):
        return (), ()
    if everybody.resolve() != workspace.resolve() / USERS or (
        own.exists() and own.resolve() != everybody.resolve() / key
    ):
        # Notes would then lie under another name, too, where nothing covers them.
        raise SandboxUnavailable(f"{USERS} in the workspace {workspace} is or holds a symbolic link: remove it")
    return (everybody,), (own,) if own.is_dir() else ()


def _proxy(ctx: ToolContext) -> Proxy:
    network = ctx.config.tools.network

    def tell(place: str, reached: bool, why: str) -> None:
        rule = "tools.network"
        ctx.environment.audit(Entry("exec.connect", place, ctx.actor, ctx.session, reached, rule, why, turn=ctx.turn))

    return Proxy(Guard(allow=network.allow, deny=network.deny), network.ports, tell)
