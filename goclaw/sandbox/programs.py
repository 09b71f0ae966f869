"""Finds the program of a command before it runs, so that a missing one gets a clear error."""

import os
import shutil
from pathlib import Path

from goclaw.errors import ToolError
from goclaw.sandbox.layout import SYSTEM


def find_program(command: str, workspace: Path, search_path: str, *, contained: bool) -> str:
    """Return the absolute path of `command`: a name is looked up, a relative path is one of the workspace.

    Raises:
        ToolError: it is not there, cannot be run, or would not be there in the sandbox (`contained`).
    """
    if "/" not in command:
        found = shutil.which(command, path=search_path)
        if found is None:
            remedy = _one_program(command) or f"; install it (it is looked for in {search_path})"
            raise ToolError(f"command not found: {command}{remedy}")
    else:
        found = str(workspace / command)
        if not Path(found).is_file():
            raise ToolError(f"command not found: {command}{_one_program(command)}")
        if not os.access(found, os.X_OK):
            raise ToolError(f"{command} cannot be run: it is not executable (`chmod +x`)")
    if contained and not _is_visible(found, workspace):
        places = ", ".join(place for place in SYSTEM[:4])
        raise ToolError(
            f"{command} is {Path(found).resolve()}, which the sandbox does not show: install it below {places} or in "
            "the workspace"
        )
    return found


def _one_program(command: str) -> str:
    """Return the addition to the error where several words were given for one program."""
    several = len(command.split()) > 1
    return "; expected one program: its arguments belong into args, a shell line into exec" if several else ""


def _is_visible(found: str, workspace: Path) -> bool:
    real = Path(found).resolve()
    return any(real.is_relative_to(place) for place in (*SYSTEM, workspace.resolve()))
