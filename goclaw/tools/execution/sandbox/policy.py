"""The sandbox policy of a turn's commands, from the configuration.

It is the same for the tools that run commands and for the operator's hooks.
"""

import asyncio
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from goclaw.common.config.schema import Config
from goclaw.common.net.guard import UrlGuard
from goclaw.common.net.proxy import Proxy
from goclaw.common.workspace import SHARED, link_shared
from goclaw.errors import ToolError
from goclaw.tools.execution.sandbox.base import Limits, Policy

Told = Callable[[str, bool, str], None]
"""Told of what a command connects to through the proxy: the place, whether it is reached, and why (not)."""


async def policy_for(
    config: Config, workspace: Path, told: Told, readable: tuple[Path, ...] = (), *, shared: Path | None = None
) -> Policy:
    """Return the policy of a command in the folder `workspace`, which can read `readable`, too.

    `shared` is the folder that the workspace shows as `shared/`; an earlier command may have removed what leads there.

    Raises:
        ToolError: a file of the daemon has a second name in the workspace, or the disk refuses.
    """
    settings, network = config.tools.exec, config.tools.network
    await asyncio.to_thread(_prepare, config, workspace, shared)
    proxy = Proxy(UrlGuard(allow=network.allow, deny=network.deny), network.ports, told)
    return Policy(
        workspace=workspace,
        shared=shared,
        hidden=(config.state_dir.expanduser().absolute(),),
        readable=readable,
        network=settings.network,
        proxy=proxy.serve if settings.network == "proxy" else None,
        limits=Limits(
            cpu_seconds=settings.cpu_seconds,
            memory_bytes=settings.memory_mb << 20,
            processes=settings.processes,
            file_bytes=settings.file_mb << 20,
        ),
    )


def _prepare(config: Config, workspace: Path, shared: Path | None) -> None:
    _refuse_second_names(config, workspace)
    if shared is not None:
        _refuse_second_names(config, shared)
        try:
            link_shared(workspace, shared)
        except OSError as error:
            raise ToolError(f"{SHARED} in the workspace: {error.strerror}") from error


def _refuse_second_names(config: Config, workspace: Path) -> None:
    """Refuse a hard link below the workspace to a file of the daemon: sandboxes see it as an ordinary file."""
    doubled = {(found.st_dev, found.st_ino) for found in _state_files(config) if found.st_nlink > 1}
    if not doubled:
        return  # a file with one name, which is not below the workspace
    for folder, _, names in os.walk(workspace):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 -- a path object for every file would cost a second
            try:
                found = os.lstat(path)
            except OSError:
                continue  # gone meanwhile
            if (found.st_dev, found.st_ino) in doubled:
                raise ToolError(f"permission denied: {path} is another name of a file of the daemon: remove it")


def _state_files(config: Config) -> Iterator[os.stat_result]:
    state = config.state_dir.expanduser()
    for folder in (state, state / "secrets"):
        for path in folder.iterdir() if folder.is_dir() else ():
            if (found := _stat(path, follow=False)) and stat.S_ISREG(found.st_mode):
                yield found
    if (found := _stat(config.users_path)) and stat.S_ISREG(found.st_mode):
        yield found


def _stat(path: Path, *, follow: bool = True) -> os.stat_result | None:
    try:
        return path.stat(follow_symlinks=follow)
    except FileNotFoundError:
        return None  # the daemon replaces its files by renaming new ones
