"""Arguments shared by the tools for commands."""

from typing import Annotated

from pydantic import AliasChoices, Field

WorkingFolder = Annotated[
    str | None,
    Field(
        # Many models were taught the other name; it is shown nowhere, and giving both is an error.
        validation_alias=AliasChoices("working_dir", "workdir"),
        description="Working directory, inside the workspace.",
    ),
]
"""Where a command runs."""

Variables = Annotated[
    dict[str, str] | None,
    Field(description="Variables for it, such as NO_COLOR; none that change which programs run (PATH, LD_…)."),
]
"""The environment that a call adds."""
