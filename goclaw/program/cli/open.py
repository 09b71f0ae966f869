"""`goclaw open`: a file of the agent's workspace on this machine, in the program that shows its kind."""

import asyncio
import os
import sys
import webbrowser
from pathlib import Path, PurePath
from typing import Annotated

import typer

from goclaw.common.auth.users import Users, login_name
from goclaw.common.auth.workplaces import place_of
from goclaw.common.config.schema import Config
from goclaw.common.config.state import NOTES, private_paths
from goclaw.common.workspace import Workspace
from goclaw.errors import StateError, ToolError
from goclaw.program.cli.base import print_message
from goclaw.program.cli.options import load

_DOCUMENTS = ("csv", "docx", "json", "log", "md", "odp", "ods", "odt", "pdf", "pptx", "tsv", "txt", "xlsx")
_MEDIA = ("gif", "jpeg", "jpg", "m4a", "mp3", "mp4", "ogg", "png", "wav", "webm", "webp")
SHOWN = frozenset((*_DOCUMENTS, *_MEDIA))
"""Endings of files that programs only show: the agent made the file, and a page, a script or an app would act."""


def open_file(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="The file, as the agent names it.")],
    user: Annotated[str, typer.Option(help="Of this user's workspace; default: of yours.")] = "",
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print where it is.")] = False,
) -> None:
    """Show a file of the agent's workspace on this machine. Its place is printed, too; without a screen, only that."""
    config = load(context).config
    found = asyncio.run(_find(config, user or f"tui:{login_name()}", path))
    print(found)
    has_screen = sys.platform == "darwin" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))
    if no_open or not has_screen:
        return
    if found.suffix[1:].lower() not in SHOWN:
        print_message(f"{found.name!r} is not opened from here: files of this kind can act; open it yourself")
        return
    try:
        webbrowser.open(found.as_uri())
    except (OSError, webbrowser.Error) as error:
        print_message(f"it cannot be opened: {error}")


async def _find(config: Config, user: str, path: str) -> Path:
    """Return where a file of the user's workspace is, links followed.

    Raises:
        StateError: the file does not exist.
    """
    place = place_of(config, Users.read(config.users_path).get(user))
    notes, spared = config.state_dir / NOTES, [config.people_path]
    async with Workspace(
        place.root, private_paths(config), notes=notes, shared=place.shared, spared=spared
    ) as workspace:
        view = workspace.seen_by(user)
        try:
            found = await view.stat(path)
        except ToolError as error:
            raise StateError(str(error)) from None
        if found.is_folder:
            raise StateError(f"{PurePath(found.path).name} is a folder")
        return Path(view.real(found.path))
