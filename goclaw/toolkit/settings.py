"""The settings that a call may read and change in its conversation, and the place of the configuration file."""

from collections.abc import Mapping
from pathlib import Path

from goclaw.errors import ToolError


class SettingsPort:
    """The settings of one conversation; by itself, where no conversation is, there are none."""

    file: Path | None = None
    """The configuration file, which need not exist yet; None: unknown."""

    async def of_session(self) -> Mapping[str, str]:
        """Return the settings in force in the conversation, by name."""
        return {}

    async def choose(self, name: str, value: str) -> None:
        """Choose one of them for the conversation.

        Raises:
            ToolError: there is no such setting or value.
        """
        raise ToolError(f"there is no conversation here for which {name} could be chosen")
