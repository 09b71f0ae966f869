"""What a call may read and choose of the settings of its conversation, and where the configuration file is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from goclaw.errors import ToolError


class SettingsPort(Protocol):
    """The settings of one conversation."""

    @property
    def file(self) -> Path | None:
        """The configuration file, which need not exist yet; None: nobody knows which it is."""
        ...

    async def of_session(self) -> Mapping[str, str]:
        """What is in force in the conversation, by name."""
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
        """Nothing can be chosen. Raises ToolError."""
        raise ToolError(f"there is no conversation here for which {name} could be chosen")
