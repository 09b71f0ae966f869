"""The keys of `tools.command`: which slash commands the agent may give in a person's name."""

from pydantic import Field, field_validator

from goclaw.config.section import Section
from goclaw.config.values import Names

NEVER = (
    "approvals",
    "approve",
    "clear",
    "cleartool",
    "compact",
    "deny",
    "forget",
    "mode",
    "new",
    "pair",
    "pause",
    "resume",
    "start",
    "stop",
    "tool",
)
"""They decide what the agent may do, or wait for the very turn that gives them."""


class CommandSettings(Section):
    """The `command` tool."""

    allowed: Names = Field(
        ("status", "usage", "tools", "help", "whoami", "queue"),
        description="Slash commands that the agent may give for the person it works for, as far as that person may.",
    )

    @field_validator("allowed")
    @classmethod
    def _harmless(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        plain = tuple(name.removeprefix("/").lower() for name in names)
        if found := next((name for name in plain if name in NEVER), ""):
            raise ValueError(f"`{found}` is for people only; it can never be allowed")
        return plain
