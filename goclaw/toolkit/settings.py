"""The settings that a call may read and change in its conversation, and the place of the configuration file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from goclaw.errors import ToolError


class SettingsPort(Protocol):
    """The settings of one conversation."""

    @property
    def file(self) -> Path | None:
        """The configuration file, which need not exist yet; None: unknown."""
        ...

    async def of_session(self) -> Mapping[str, str]:
        """Return the settings in force in the conversation, by name."""
        ...

    async def choose(self, name: str, value: str) -> None:
        """Choose one of them for the conversation.

        Raises:
            ToolError: there is no such setting or value.
        """
        ...


class NoSettings:
    """Where there is no conversation that could have any."""

    file: Path | None = None

    async def of_session(self) -> Mapping[str, str]:
        """None."""
        return {}

    async def choose(self, name: str, value: str) -> None:
        """Refuse to change a setting. Raises ToolError."""
        raise ToolError(f"there is no conversation here for which {name} could be chosen")
