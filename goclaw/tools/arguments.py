"""Arguments shared by the file tools."""

from typing import Annotated

from pydantic import AliasChoices, Field

FilePath = Annotated[
    str,
    Field(
        # Many models were taught the other name; it is shown nowhere, and giving both is an error.
        validation_alias=AliasChoices("path", "file_path"),
        description="File path, absolute or relative to the workspace.",
    ),
]
"""The file that a tool is about."""

Folder = Annotated[str, Field(description="Folder to look in, absolute or relative to the workspace (default: all).")]
"""Where a tool looks."""

Ignored = Annotated[bool, Field(description="Also what git ignores, and folders like node_modules.")]
"""Whether a tool looks everywhere."""
