"""`goclaw prompt-files list|approve`: changes of prompt files in workspaces that several people share.

The workspaces are looked at as they are now, whether a daemon runs or not; one that runs takes an approval up with its
next request to a model.
"""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from goclaw.common.auth.audit import open_audit
from goclaw.common.auth.shared_workspaces import approved_files
from goclaw.common.auth.users import Users, login_name
from goclaw.common.config.schema import Config
from goclaw.common.config.state import private_paths
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import Actor
from goclaw.common.workspace import PROMPT_FILES, ApprovedFiles, FileChange, Workspace
from goclaw.common.workspace.approved_files import effective_text
from goclaw.conversation.agent.prompt import found_files
from goclaw.conversation.questions.prompt_files import diff_lines, record_answer
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import StateError, ToolError
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import command_group, load

app = command_group("Show and approve changes to AGENTS.md and the like.")


@app.command("list")
def list_(context: typer.Context) -> None:
    """Print each changed file that is not approved, with the change."""
    config = load(context).config
    changes = asyncio.run(_differences(config, _open_files(config)))
    for change in changes:
        show(_render(change))
    if not changes:
        print_message("all prompt files match their approved text")


@app.command()
def approve(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(help="A name (AGENTS.md) or a path, as `list` prints it; default: all changed files.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Approve changed files as they are now."""
    asyncio.run(_approve(load(context).config, file, yes=yes))


async def _differences(config: Config, approved: ApprovedFiles) -> list[FileChange]:
    """Return what differs from its approved text in all workspaces, refused texts too."""
    found: list[FileChange] = []
    for root in await asyncio.to_thread(approved.workspaces):
        try:
            found += await _changes(config, approved, root)
        except StateError as error:
            print_message(f"{root}: {error}")
    return found


async def _changes(config: Config, approved: ApprovedFiles, root: Path) -> list[FileChange]:
    async with Workspace(root, private_paths(config)) as workspace:
        found = await found_files(workspace, PROMPT_FILES)
    used = await approved.texts_to_use(root, found)
    waiting = {change.name: change for change in used.waiting}
    texts = {name: (used.texts.get(name, ""), effective_text(found.get(name, b""))) for name in PROMPT_FILES}
    return [
        waiting.get(name) or FileChange("", root, name, before, after, "")
        for name, (before, after) in texts.items()
        if before != after
    ]


async def _approve(config: Config, file: str, *, yes: bool) -> None:
    clock, owner = RealClock(), Actor(f"tui:{login_name()}", "cli", owner=True)
    approved = _open_files(config)
    changes = await _differences(config, approved)
    wanted = [change for change in changes if file in ("", change.name, str(change.root / change.name))]
    if not wanted:
        raise ToolError(f"{file or 'prompt files'}: nothing to approve; see `goclaw prompt-files list`")
    for change in wanted:
        show(_render(change))
    if not yes and not await asyncio.to_thread(typer.confirm, "Approve this?"):
        raise typer.Exit(1)
    async with open_audit(config, clock) as audit:
        for change in wanted:
            if not await asyncio.to_thread(approved.approve, change.root, change.name, change.before, change.after):
                raise ToolError(f"{change.name}: another text was approved in the meantime; list it again")
            record_answer(audit.record, owner, change, approve=True)
    print_message(f"approved: {', '.join(change.name for change in wanted)}")


def _open_files(config: Config) -> ApprovedFiles:
    return approved_files(config, Users.read(config.users_path), RealClock(), file_writer(config))


def _render(change: FileChange) -> str:
    return "\n".join([str(change.root / change.name), *diff_lines(change), ""])
