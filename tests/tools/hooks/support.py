"""Hooks with everything real around them: a workspace, a sandbox, programs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.hooks.base import HookEvent, Hooks, Point
from goclaw.tools.hooks.open import open_hooks

ANNA = Actor("telegram:1", "telegram", name="Anna")


@dataclass
class Heard:
    """Alerts, for a test to look at."""

    open: dict[str, str] = field(default_factory=dict)

    def tell(self, key: str, text: str) -> None:
        self.open[key] = text

    def clear(self, key: str) -> None:
        self.open.pop(key, None)


@dataclass
class Surroundings:
    """What command hooks stand on. Implements `hooks.commands.HookEnvironment`."""

    config: Config
    sandbox: Sandbox
    the_workspace: Workspace
    audited: list[AuditEntry] = field(default_factory=list)
    approved_files: ApprovedFiles = field(default_factory=ApprovedFiles)

    def audit(self, entry: AuditEntry) -> None:
        self.audited.append(entry)

    async def workspace(self, actor: Actor, session: str = "") -> Workspace:
        return self.the_workspace


@dataclass
class Stage:
    """Open hooks, and where their programs may lie."""

    hooks: Hooks
    alerts: Heard
    folder: Path
    workspace: Path


@asynccontextmanager
async def opened(
    folder: Path, sandbox: Sandbox, *hooks: dict[str, Any], shared: bool = False, beside: Path | None = None
) -> AsyncIterator[Stage]:
    """The hooks of a configuration, in a workspace below `folder`, which others share, or only `beside` in it."""
    root = folder / "workspace"
    root.mkdir(exist_ok=True)
    config = Config.model_validate({"state_dir": folder / "state", "workspace": root, "hooks": list(hooks)})
    alerts = Heard()
    async with AsyncExitStack() as stack:
        workspace = await stack.enter_async_context(Workspace(root, shared=beside))
        approved_files = ApprovedFiles(is_shared=lambda root: shared or root == beside)
        surroundings = Surroundings(config, sandbox, workspace, approved_files=approved_files)
        opened = await stack.enter_async_context(open_hooks(surroundings, alerts))
        yield Stage(opened, alerts, folder, root)


def script(folder: Path, body: str, name: str = "hook.sh") -> str:
    """A program of the operator's outside of the workspace; its path."""
    place = folder / name
    place.write_text(f"#!/bin/bash\n{body}\n")
    place.chmod(0o755)
    return str(place)


def event(point: Point = "pre_tool", **more: Any) -> HookEvent:
    given = {"tool": "exec", "tags": frozenset({"shell"}), "call_id": "c1", "input": {"command": "ls"}} | more
    return HookEvent(point, "s", ANNA, **given)
