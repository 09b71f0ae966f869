"""`goclaw backup`."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from goclaw.backup.collect import back_up
from goclaw.backup.manifest import (
    CONFIG,
    DATABASE,
    MEDIA,
    REGISTRIES,
    SECRETS,
    USERS,
    WORKSPACE,
    WORKSPACES,
    ArchiveMember,
    Manifest,
)
from goclaw.cli.common import load
from goclaw.cli.frame import say, show
from goclaw.clock import RealClock
from goclaw.health.disk import amount

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The archive to make, such as goclaw-2026-11-21.tar.gz.")],
    workspace: Annotated[bool, typer.Option(help="Whether the agent's files are in it, and its memory.")] = True,
    secrets: Annotated[bool, typer.Option("--secrets", help="With tokens and keys; keep such a file safe.")] = False,
) -> None:
    """Keep everything in one new file, while the daemon runs.

    Conversations, their pictures, settings and the agent's files; secrets only when asked for. The file is read back
    before it gets its name, and never takes the place of another.
    """
    # The daemon goes first: its people wait, a backup does not.
    os.nice(10)
    # Cancelling this also removes the unfinished files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    made = back_up(load(context), file.expanduser().absolute(), RealClock(), workspace=workspace, secrets=secrets)
    for note in made.notes:
        say(f"warning: not in the backup: {note}")
    without = ", ".join(made.manifest.config_without)
    left_out = [
        *([] if workspace else ["the workspace"]),
        *([] if secrets else [f"secrets (also {without})" if without else "secrets"]),
        "logs",
        "the memory index (made anew)",
    ]
    show("\n".join([f"{file}: {amount(made.size)}, read back and sound", *_parts(made.manifest)]))
    show(f"  not in it: {', '.join(left_out)}")


def _parts(manifest: Manifest) -> Iterator[str]:
    pictures = manifest.within(MEDIA)
    yield f"  conversations: {amount(manifest.members[DATABASE].size)}"
    yield f"  pictures: {len(pictures) // 2:,}, {_size(pictures)}"
    if registries := manifest.members.get(REGISTRIES):
        yield f"  registries: {amount(registries.size)}"
    yield f"  settings: {', '.join(name for name in (CONFIG, USERS) if name in manifest.members) or 'none'}"
    if files := [*manifest.within(WORKSPACE), *manifest.within(WORKSPACES)]:
        yield f"  workspace: {len(files):,} {'file' if len(files) == 1 else 'files'}, {_size(files)}"
    if secrets := manifest.within(SECRETS):
        yield f"  secrets: {len(secrets)}"


def _size(members: list[ArchiveMember]) -> str:
    return amount(sum(member.size for member in members))
